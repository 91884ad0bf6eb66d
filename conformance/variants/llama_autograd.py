"""Variant: a Llama-style norm in eager operations, its backward by autograd.

The residual is added in eager operations too. x_hat is rounded before the weight, the product with dy in
dweight as well.
"""

import torch

from conformance.mutants import _formula

CONVENTION = {"none": "two roundings", "residual": "two roundings, rounded sum"}
REFUSES = ()


def _norm(hidden_states, weight, eps, dtype):
    h = hidden_states.to(torch.float32)
    variance = h.pow(2).mean(-1, keepdim=True)
    x_hat = (h * torch.rsqrt(variance + eps)).to(dtype)
    return x_hat if weight is None else (weight * x_hat).to(dtype)


def rms_norm(hidden_states, weight, eps=1e-6):
    _formula.check(hidden_states, weight, eps)
    return _norm(hidden_states, weight, eps, hidden_states.dtype)


def fused_add_rms_norm(hidden_states, residual, weight, eps=1e-6):
    _formula.check(hidden_states, weight, eps, residual)
    summed = (hidden_states + residual).to(residual.dtype)
    return _norm(summed, weight, eps, hidden_states.dtype), summed
