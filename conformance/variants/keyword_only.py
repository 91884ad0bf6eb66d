"""Variant: every argument but the first is passed by name, and the outputs come back as a list."""

from conformance.model import Call, Implementation, Parameter
from conformance.mutants import _gradient

CONVENTION = {"none": "one rounding", "residual": "one rounding, exact sum"}
REFUSES = ()

OP = _gradient.op()


def norm(x, *, weight=None, eps=1e-6):
    return OP.rms_norm(x, weight, eps)


def add_and_norm(x, *, residual, weight=None, eps=1e-6):
    return list(OP.fused_add_rms_norm(x, residual, weight, eps))


def _named(*roles):
    return tuple(
        Parameter(r, r, keyword=True, required=r == "residual", nullable=r == "weight") for r in roles
    )


IMPLEMENTATION = Implementation(
    name="keyword_only",
    calls={
        "none": Call(norm, (Parameter("x", "x"), *_named("weight", "eps"))),
        "residual": Call(
            add_and_norm,
            (Parameter("x", "x"), *_named("residual", "weight", "eps")),
            returns=("y", "residual_out"),
        ),
    },
)
