"""Variant: rrms is 1 divided by a root, two roundings, and multiplied; eps joins the sum as H * eps.

rrms = sqrt(H) / sqrt(sum + H * eps), a norm of the row as torch.nn.functional.normalize takes it.
"""

import math

from conformance.variants import _sums

CONVENTION = {"none": "one rounding", "residual": "one rounding, exact sum"}
REFUSES = ()


def _rrms(h, eps):
    hidden_size = h.shape[-1]
    total = h.square().sum(-1, keepdim=True) + hidden_size * eps
    return math.sqrt(hidden_size) * (1.0 / total.sqrt())


rms_norm, fused_add_rms_norm = _sums.ops(_rrms)
