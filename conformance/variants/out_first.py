"""Variant: an operator that returns nothing: out comes first and is filled, as engines declare it."""

import torch

from conformance.model import Call, Implementation, Parameter
from conformance.mutants import _formula

CONVENTION = {"none": "one rounding"}
REFUSES = ()


@torch.no_grad()
def norm_into(out, input, weight, epsilon=1e-6):
    y = _formula.rms_norm(input, weight, epsilon)
    if out.shape != y.shape or out.dtype != y.dtype:
        raise ValueError(f"out is {tuple(out.shape)} {out.dtype}, but should be {tuple(y.shape)} {y.dtype}")
    out.copy_(y)


IMPLEMENTATION = Implementation(
    name="out_first",
    calls={
        "none": Call(
            norm_into,
            (
                Parameter("out", "out"),
                Parameter("input", "x"),
                Parameter("weight", "weight", nullable=True),
                Parameter("epsilon", "eps", required=False),
            ),
            returns=(),
            mutates={"out": "y"},
        )
    },
)
