"""Tests of the second implementations that need TRITON_INTERPRET=1 from the start of the process.

`test_reference_kernels.py` runs this file in a process of its own: Triton decides at its first import whether
kernels are interpreted.
"""

from __future__ import annotations

import pytest
import torch

from conformance import mutants, mutants_again

ENTRIES = mutants_again.entries()


def inputs(rows: int = 5, size: int = 122) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """x in rows of unlike scale, a residual and a weight, fp32."""
    noise = torch.Generator().manual_seed(3)
    scale = torch.logspace(-2, 1, rows)[:, None]
    x, residual = (torch.randn(rows, size, generator=noise) * scale for _ in range(2))
    return x, residual, torch.randn(size, generator=noise)


PLAIN = [i for i, a in enumerate(ENTRIES) if mutants.label(a.mutant).breaks.startswith("FORMULA")
         and "DEFAULT" not in mutants.label(a.mutant).breaks]  # fmt: skip


@pytest.mark.parametrize("number", PLAIN, ids=[f"{i}-{ENTRIES[i].mutant}" for i in PLAIN])
def test_a_fault_of_the_formula_shows(number: int) -> None:
    """On rows of unlike scale in one of the dtypes, or on a single row."""
    functions = mutants_again.implementation(number, "c").calls
    off = 0.0
    for dtype, rows in ((torch.float32, 5), (torch.float16, 5), (torch.float32, 1)):
        x, residual, weight = inputs(rows)
        x, residual = x.masked_fill(x > 0.9 * x.max(), 0.0).to(dtype) * 0.1, residual.to(dtype) * 0.1
        weight = weight.masked_fill(weight.abs() < 0.1, 0.0)
        for mode, call in functions.items():
            weight_of = weight.to(dtype)
            total = x.float() if mode == "none" else x.float() + residual.float()
            arguments = (x,) if mode == "none" else (x, residual)
            eps = 1e-4 if dtype == torch.float32 else 1e-7
            y = call.function(*arguments, weight_of, eps)
            y = y if mode == "none" else y[0]
            h = total.double()
            right = h / (h.square().mean(-1, keepdim=True) + eps).sqrt() * weight_of.double()
            error = (y.double() - right).abs().max() / right.abs().max()
            off = max(off, float(error.nan_to_num(1.0)) / (3e-6 if dtype == torch.float32 else 5e-3))
    if ENTRIES[number].mutant == "weight_of_first_chunk":  # rows of one chunk are right
        assert off < 1.0
    else:
        assert off > 1.0
