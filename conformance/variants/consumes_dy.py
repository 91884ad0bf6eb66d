"""Variant: writes dx into the memory of dy, and declares that it may."""

from conformance.model import Call, Implementation, Parameter
from conformance.mutants import _gradient

CONVENTION = {"none": "one rounding"}
REFUSES = ()


def _upstream(s):
    return _gradient.upstream(s).clone()


def _dx(s):
    gradient = _gradient.dx(s)
    return s.given.copy_(gradient) if s.given.is_contiguous() else gradient


OP = _gradient.op(upstream=_upstream, dx=_dx)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)


IMPLEMENTATION = Implementation(
    name="consumes_dy",
    calls={
        "none": Call(
            rms_norm,
            (Parameter("x", "x"), Parameter("weight", "weight"), Parameter("eps", "eps", required=False)),
            consumes_dy=True,
        )
    },
)
