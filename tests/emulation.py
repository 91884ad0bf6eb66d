"""Correct kernels, emulated in fp32: conventions, orders of summation, kinds of reciprocal root, ways of
multiplying.

numpy adds strictly in the order written (torch's CPU sums do not say theirs), so `ascending` really is
sequential.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from conformance.model import Fill
from conformance.numerics.bits import decode
from conformance.numerics.conventions import Convention, Problem
from conformance.numerics.inputs import make
from conformance.numerics.rounding import store

ORDERS = ("ascending", "descending", "lanes", "tree")
ROOTS = ("exact", "plus 2 ulp", "minus 2 ulp", "divide by root", "times 1/N", "weight first")

SIZES = ((5, 1), (4, 3), (33, 129), (17, 769), (9, 1000), (7, 4099), (3, 8192))
EPS = (1e-5, 1e-6, 1e-3)


def fills(n_rows: int) -> dict[str, Fill]:
    """The four x fills of the accuracy rule's 84 cases."""
    scales = tuple(float(10.0**e) for e in np.linspace(-3.2, 2.2, n_rows))
    return {
        "scaled": Fill(seed=1, row_scales=scales),
        "tail": Fill(seed=1, scale=0.5, last_column=20.0),
        "mean": Fill(seed=1, mean=3.0),
        "rowjump": Fill(seed=1, row_scales=(1.0, 64.0)),
    }


def tensor(fill: Fill, shape: tuple[int, ...], dtype: str) -> Tensor:
    return torch.from_numpy(decode(make(fill, shape, dtype), dtype))


def problem(
    shape: tuple[int, int],
    fill: Fill,
    dtype: str,
    *,
    fused: bool,
    eps: float = 1e-6,
    offset: float = 0.0,
    **dtypes: str,
) -> Problem:
    """A problem as the 84 cases have it: signed weights, a residual three times as large as x in every
    row."""
    names = {"x_dtype": dtype, "residual_dtype": dtype, "weight_dtype": dtype, "y_dtype": dtype} | dtypes
    x = tensor(fill, shape, names["x_dtype"])
    residual = None
    if fused:
        base = tensor(Fill(seed=2), shape, "float32") * x.abs().mean(-1, keepdim=True) * 3.0
        residual = store(base, names["residual_dtype"]).double()
    weight = tensor(Fill(seed=3), shape[-1:], names["weight_dtype"])
    return Problem(x, residual, weight, eps, offset, **names)


def cases(dtype: str, fused: bool) -> list[tuple[str, Problem]]:
    """The 84 cases for one dtype and mode."""
    return [
        (f"{shape} {name} {eps}", problem(shape, fill, dtype, fused=fused, eps=eps))
        for shape, eps in itertools.product(SIZES, EPS)
        for name, fill in fills(shape[0]).items()
    ]


@dataclass(frozen=True)
class Kernel:
    """A correct kernel; calling it gives y as a float64 copy."""

    convention: Convention
    order: str = "tree"
    root: str = "exact"

    def __call__(self, p: Problem) -> Tensor:
        convention = self.convention
        exact = p.x.float() if p.residual is None else p.x.float() + p.residual.float()
        stored = store(
            exact.double(), p.residual_dtype if p.fused else p.x_dtype, truncating=convention.truncates_sum
        )
        h = stored.float() if convention.norm_input in ("rounded_sum", "mixed") else exact
        rrms = self._rrms(stored.float() if convention.norm_input == "rounded_sum" else exact, p.eps)
        weight = None if p.weight is None else p.weight.float() + p.weight_offset
        if weight is not None and convention.rounds_weight:
            weight = store(weight.double(), p.weight_dtype).float()
        if self.root == "weight first" and weight is not None and not convention.rounds_x_hat:
            product = h * (rrms * weight)
        else:
            x_hat = h / rrms if self.root == "divide by root" else h * rrms
            if convention.rounds_x_hat:
                x_hat = store(x_hat.double(), p.x_dtype, truncating=convention.truncates_y).float()
            product = x_hat if weight is None else x_hat * weight
        return store(product.double(), p.y_dtype, truncating=convention.truncates_y).double()

    def _rrms(self, source: Tensor, eps: float) -> Tensor:
        squares = (source * source).numpy()
        total = add_in_order(squares, self.order)
        n = np.float32(source.shape[-1])
        mean = total * (np.float32(1.0) / n) if self.root == "times 1/N" else total / n
        shifted = mean + np.float32(eps)
        if self.root == "divide by root":
            return torch.from_numpy(np.sqrt(shifted))[:, None]
        rrms = (1.0 / np.sqrt(shifted.astype(np.float64))).astype(np.float32)
        for _ in range(2 if "ulp" in self.root else 0):
            rrms = np.nextafter(rrms, np.float32(np.inf if "plus" in self.root else -np.inf))
        return torch.from_numpy(rrms)[:, None]


def add_in_order(squares: np.ndarray, order: str) -> np.ndarray:
    """The fp32 sum of every row in the order named."""
    if order == "ascending":
        return np.add.accumulate(squares, axis=1, dtype=np.float32)[:, -1]
    if order == "descending":
        return np.add.accumulate(squares[:, ::-1], axis=1, dtype=np.float32)[:, -1]
    width = 256 if order == "lanes" else 1 << max(0, squares.shape[1] - 1).bit_length()
    padded = np.zeros((squares.shape[0], -(-squares.shape[1] // width) * width), np.float32)
    padded[:, : squares.shape[1]] = squares
    lanes = np.add.accumulate(padded.reshape(len(squares), -1, width), axis=1, dtype=np.float32)[:, -1]
    while lanes.shape[1] > 1:
        half = lanes.shape[1] // 2
        lanes = lanes[:, :half] + lanes[:, half:]
    return lanes[:, 0]
