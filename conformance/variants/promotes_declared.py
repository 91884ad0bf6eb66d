"""Variant: 16-bit x with an fp32 weight gives an fp32 output, as type promotion does, and declares it."""

import torch

from conformance.model import Call, Implementation, Parameter
from conformance.mutants import _formula

CONVENTION = {"none": "two roundings"}
REFUSES = ()


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    h = x.float()
    x_hat = _formula.scale(h, _formula.rrms(h, eps), None, x.dtype)
    if weight is None:
        return x_hat
    return _formula.scale(x_hat, 1.0, weight, torch.promote_types(x.dtype, weight.dtype))


IMPLEMENTATION = Implementation(
    name="promotes_declared",
    calls={
        "none": Call(
            rms_norm,
            (Parameter("x", "x"), Parameter("weight", "weight"), Parameter("eps", "eps", required=False)),
            promotes=True,
        )
    },
)
