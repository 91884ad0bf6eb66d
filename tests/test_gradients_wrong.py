"""Wrong backwards are not explained: in every dtype, plain and fused, and at the widest and longest sizes.

Each is right but for one thing, and computed in float64, so that nothing else can be what is objected to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from gradient_emulation import gradient_problem
from representable import DTYPES
from torch import Tensor

from conformance.model import Fill
from conformance.numerics.gradients import GradientProblem, explain_dweight, explain_dx, gradients
from conformance.numerics.rounding import nearest


@dataclass(frozen=True)
class Pieces:
    """What a backward is made of, each (n_rows, hidden_size) or (n_rows, 1) float64."""

    h: Tensor
    rrms: Tensor
    x_hat: Tensor
    dy: Tensor
    weight: Tensor
    a: Tensor
    c: Tensor
    added: Tensor
    dtype: str

    @property
    def ds(self) -> Tensor:
        return self.rrms * (self.a - self.x_hat * self.c)

    def jacobian(self, a: Tensor) -> Tensor:
        return self.rrms * (a - self.x_hat * (self.x_hat * a).mean(-1, keepdim=True))


def pieces(p: GradientProblem) -> Pieces:
    f = p.forward
    assert p.dy is not None
    assert f.weight is not None
    h = f.x if f.residual is None else f.x + f.residual
    rrms = (h.square().mean(-1, keepdim=True) + f.eps).rsqrt()
    x_hat, a = h * rrms, p.dy * f.weight
    added = torch.zeros_like(h) if p.dresidual_out is None else p.dresidual_out
    return Pieces(h, rrms, x_hat, p.dy, f.weight, a, (x_hat * a).mean(-1, keepdim=True), added, f.x_dtype)


def rounded_rrms(g: Pieces) -> Tensor:
    rrms = nearest(g.rrms, "bfloat16")
    x_hat = g.h * rrms
    return rrms * (g.a - x_hat * (x_hat * g.a).mean(-1, keepdim=True)) + g.added


def divided(divisor: Callable[[int], float]) -> Callable[[Pieces], Tensor]:
    """The row sum divided by something else than hidden_size."""

    def wrong(g: Pieces) -> Tensor:
        hidden_size = g.h.shape[1]
        return g.rrms * (g.a - g.x_hat * g.c * (hidden_size / divisor(hidden_size))) + g.added

    return wrong


def unweighted_projection(g: Pieces) -> Tensor:
    return g.rrms * (g.a - g.x_hat * (g.x_hat * g.dy).mean(-1, keepdim=True)) + g.added


WRONG_DX: dict[str, Callable[[Pieces], Tensor]] = {
    "no weight in a": lambda g: g.jacobian(g.dy) + g.added,
    "no weight in the projection": unweighted_projection,
    "weight twice in the projection": lambda g: g.rrms * (g.a - g.x_hat * g.c * g.weight) + g.added,
    "no projection": lambda g: g.rrms * g.a + g.added,
    "projection added": lambda g: g.rrms * (g.a + g.x_hat * g.c) + g.added,
    "row sum not divided": divided(lambda n: 1.0),
    "row sum divided by one less": divided(lambda n: n - 1.0),
    "rrms squared": lambda g: g.rrms * g.ds + g.added,
    "rrms cubed": lambda g: g.rrms**2 * g.ds + g.added,
    "no rrms": lambda g: g.ds / g.rrms + g.added,
    "rrms twice in the projection": lambda g: g.rrms * (g.a - g.rrms * g.x_hat * g.c) + g.added,
    "projects on h": lambda g: g.rrms * (g.a - g.h * g.c) + g.added,
    "rrms rounded to bf16": rounded_rrms,
    "rrms of another row": lambda g: g.rrms.roll(1, 0) * (g.a - g.x_hat * g.c) + g.added,
}
WRONG_ADDED: dict[str, Callable[[Pieces], Tensor]] = {
    "dresidual_out before the Jacobian": lambda g: g.jacobian(g.a + g.added),
    "dresidual_out in dy": lambda g: g.jacobian(g.a + g.added * g.weight),
    "dresidual_out lost": lambda g: g.ds,
    "dresidual_out doubled": lambda g: g.ds + 2.0 * g.added,
    "norm's part lost": lambda g: g.added,
    "dresidual_out scaled": lambda g: g.ds + g.added * (1.0 - 2.0**-7),
}


def in_bf16(terms: Tensor) -> Tensor:
    """Rows added one after the other in bf16; columns side by side."""
    total = torch.zeros(terms.shape[1], dtype=torch.bfloat16)
    for row in terms.bfloat16():
        total = total + row
    return total.double()


WRONG_DWEIGHT: dict[str, Callable[[Pieces], Tensor]] = {
    "no x_hat": lambda g: g.dy.sum(0),
    "x in the place of x_hat": lambda g: (g.dy * g.h).sum(0),
    "weight factor": lambda g: (g.a * g.x_hat).sum(0),
    "zero": lambda g: torch.zeros_like(g.weight),
    "x_hat twice": lambda g: (g.dy * g.x_hat**2).sum(0),
    "rrms twice": lambda g: (g.dy * g.x_hat * g.rrms).sum(0),
    "accumulated in bf16": lambda g: in_bf16(g.dy * g.x_hat),
    "mean": lambda g: (g.dy * g.x_hat).mean(0),
    "last row lost": lambda g: (g.dy * g.x_hat)[:-1].sum(0),
    "last row twice": lambda g: (g.dy * g.x_hat).sum(0) + (g.dy * g.x_hat)[-1],
    "sum over everything": lambda g: (g.dy * g.x_hat).sum().expand_as(g.weight).clone(),
    "columns shifted": lambda g: (g.dy * g.x_hat).sum(0).roll(1),
    "rrms rounded to bf16": lambda g: (g.dy * g.h * nearest(g.rrms, "bfloat16")).sum(0),
    "last column unwritten": lambda g: torch.cat([(g.dy * g.x_hat).sum(0)[:-1], torch.zeros(1).double()]),
}

SHAPES = ((9, 129), (5, 1000))
FILL = Fill(seed=1, row_scales=(1.0, 0.3, 5.0))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_wrong_dx(dtype: str, fused: bool, shape: tuple[int, int]) -> None:
    p = gradient_problem(shape, FILL, dtype, fused=fused)
    g = pieces(p)
    assert explain_dx(p, nearest(g.ds + g.added, dtype)).explained
    for name, wrong in (WRONG_DX | (WRONG_ADDED if fused else {})).items():
        found = explain_dx(p, nearest(wrong(g), dtype))
        assert not found.explained, name
        assert found.wrong, name
        assert found.worst is not None
        assert found.worst.count >= len(found.wrong)
        if fused:
            assert not explain_dx(p, nearest(wrong(g), dtype), which="dresidual").explained, name


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_wrong_dweight(dtype: str, fused: bool, shape: tuple[int, int]) -> None:
    p = gradient_problem(shape, FILL, dtype, fused=fused)
    g = pieces(p)
    assert explain_dweight(p, nearest((g.dy * g.x_hat).sum(0), dtype)).explained
    for name, wrong in WRONG_DWEIGHT.items():
        found = explain_dweight(p, nearest(wrong(g), dtype))
        assert not found.explained, name
        assert found.wrong, name


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_along_the_row_the_projection_is_nearly_everything(dtype: str, fused: bool) -> None:
    p = gradient_problem((5, 257), FILL, dtype, fused=fused, parallel=True)
    g = pieces(p)
    assert explain_dx(p, nearest(g.ds + g.added, dtype)).explained
    for name in ("no projection", "row sum divided by one less", "projection added", "rrms cubed"):
        assert not explain_dx(p, nearest(WRONG_DX[name](g), dtype)).explained, name


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("shape", [(200, 40999), (65537, 64)], ids=str)
def test_the_widest_and_the_longest(shape: tuple[int, int], dtype: str) -> None:
    p = gradient_problem(shape, FILL, dtype, fused=False)
    g = pieces(p)
    ds, dweight = gradients(p)
    assert explain_dweight(p, nearest(dweight, dtype)).explained
    names = ["no x_hat", "x in the place of x_hat", "weight factor", "zero", "x_hat twice", "rrms twice"]
    names += ["mean", "sum over everything", "columns shifted", "last column unwritten"]
    for name in names + (["accumulated in bf16"] if shape[0] > 1000 else []):
        found = explain_dweight(p, nearest(WRONG_DWEIGHT[name](g), dtype))
        assert not found.explained, name
        assert found.worst is not None
        if name == "zero":
            assert found.worst.count >= 0.9 * shape[1]
    assert explain_dx(p, nearest(ds, dtype)).explained
    for name in ("no weight in a", "no projection", "rrms rounded to bf16"):
        assert not explain_dx(p, nearest(WRONG_DX[name](g), dtype)).explained, name


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_column_is_judged_against_its_terms(dtype: str) -> None:
    """At hidden_size 1 the terms cancel to eps * rrms² of either: what is left is rounding, but no more."""
    p = gradient_problem((33, 1), Fill(seed=1), dtype, fused=False)
    g = pieces(p)
    first = g.rrms * g.a
    right = nearest(g.ds, dtype)
    assert (right.abs() < 1e-3 * first.abs()).any()
    assert explain_dx(p, right).explained
    assert explain_dx(p, nearest(g.ds + 4.0 * 2.0**-24 * first, dtype)).explained
    for wrong in (first, g.ds + 100.0 * 2.0**-24 * first, 2.0 * first, -first):
        assert not explain_dx(p, nearest(wrong, dtype)).explained
    assert not explain_dweight(p, nearest(g.dy.sum(0) * 1.5, dtype)).explained


@pytest.mark.parametrize("fused", [False, True])
def test_fp16_gradients_of_large_rows_are_subnormal_and_judged(fused: bool) -> None:
    p = gradient_problem((5, 257), Fill(seed=1, scale=3000.0), "float16", fused=fused, upstream=("y",))
    g = pieces(p)
    right = nearest(g.ds, "float16")
    assert ((right != 0) & (right.abs() < 2.0**-14)).any()
    assert explain_dx(p, right).explained
    for wrong in (torch.where(right.abs() < 2.0**-14, 0.0, right), nearest(g.rrms * g.a, "float16")):
        assert not explain_dx(p, wrong).explained
