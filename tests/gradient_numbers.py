"""What the backward kernels' tests compare with: gradients in float64, and how far float32 may be off."""

from __future__ import annotations

from typing import NamedTuple

import torch

FRACTION_BITS = {torch.float32: 23, torch.float16: 10, torch.bfloat16: 7}
LOWEST_EXPONENT = {torch.float32: -126, torch.float16: -14, torch.bfloat16: -126}


class Gradients(NamedTuple):
    """Gradients in float64, and the sum of the magnitudes of the terms that each was made of."""

    ds: torch.Tensor
    ds_terms: torch.Tensor
    dweight: torch.Tensor
    dweight_terms: torch.Tensor


def gradients(dy, total, weight, rrms, dresidual_out=None) -> Gradients:
    """Return the gradients for rows `total` that were normalised with the saved rrms (n_rows,).

    With rrms = 1 / sqrt(mean(total**2) + eps) these are the derivatives of the formula, which
    `test_the_formula_is_the_derivative` proves.
    """
    dy, total, rrms = dy.double(), total.double(), rrms.double().reshape(*total.shape[:-1], 1)
    a = dy if weight is None else dy * weight.double()
    x_hat = total * rrms
    c = (a * x_hat).mean(-1, keepdim=True)
    added = torch.zeros_like(total) if dresidual_out is None else dresidual_out.double()
    terms = rrms * (a.abs() + x_hat.abs() * (a * x_hat).abs().mean(-1, keepdim=True)) + added.abs()
    products = (dy * x_hat).reshape(-1, total.shape[-1])
    return Gradients(rrms * (a - x_hat * c) + added, terms, products.sum(0), products.abs().sum(0))


def assert_near(actual: torch.Tensor, expected: torch.Tensor, terms: torch.Tensor) -> None:
    """Half an ulp of the output dtype, and a few roundings of float32 of the terms before it."""
    assert actual.shape == expected.shape
    off = 2.0**-20 * terms
    exponent = torch.frexp(expected.abs() + off)[1] - 1
    exponent = exponent.clamp(min=LOWEST_EXPONENT[actual.dtype]) - FRACTION_BITS[actual.dtype]
    error = (actual.double() - expected).abs()
    assert error.numel() > 0
    assert (error <= torch.exp2(exponent.double() - 1) + off).all()
