"""Variant: squares are taken and added in float64, everything else is fp32."""

from conformance.variants import _sums

CONVENTION = {"none": "one rounding", "residual": "one rounding, exact sum"}
REFUSES = ()


def _rrms(h, eps):
    return (h.double().square().mean(-1, keepdim=True).float() + eps).rsqrt()


rms_norm, fused_add_rms_norm = _sums.ops(_rrms)
