"""Variant: forward and backward as plain functions without autograd, as some vendors have them.

The forward returns rrms beside its outputs, and the caller hands it to the backward.
"""

from dataclasses import replace

from conformance.mutants import _explicit

CONVENTION = {"none": "one rounding", "residual": "one rounding, exact sum"}
REFUSES = ()


def rms_norm(x, weight, eps=1e-6):
    return _explicit.rms_norm(x, weight, eps)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    return _explicit.fused_add_rms_norm(x, residual, weight, eps)


_PLAIN = _explicit.declared("explicit_backward", rms_norm, _explicit.backward)
_FUSED = _explicit.declared_fused("explicit_backward", fused_add_rms_norm, _explicit.fused_backward)

IMPLEMENTATION = replace(_PLAIN, calls={**_PLAIN.calls, **_FUSED.calls})
