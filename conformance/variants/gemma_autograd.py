"""Variant: a Gemma-style norm in eager operations, 1 + weight in fp32, its backward by autograd."""

import torch

from conformance.model import Call, Implementation, Parameter
from conformance.mutants import _formula

CONVENTION = {"none": "one rounding"}
REFUSES = ()


def rms_norm(x, weight, eps=1e-6):
    _formula.check(x, weight, eps)
    h = x.float()
    y = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps)
    return (y if weight is None else y * (1.0 + weight.float())).type_as(x)


IMPLEMENTATION = Implementation(
    name="gemma_autograd",
    calls={
        "none": Call(
            rms_norm,
            (Parameter("x", "x"), Parameter("weight", "weight"), Parameter("eps", "eps", required=False)),
            weight_offset=1.0,
        )
    },
)
