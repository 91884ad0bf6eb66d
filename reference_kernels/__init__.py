"""Reference Triton kernels for RMSNorm and fused add + RMSNorm: a course, and the suite's own subject.

Each kernel file is a lesson; README.md gives the order. `rms_norm` and `fused_add_rms_norm` are
differentiable; their backward halves can also be called alone. Needs torch and triton, nothing else.
"""

from .fused_add_rms_norm_backward import fused_add_rms_norm_backward
from .operations import fused_add_rms_norm, fused_add_rms_norm_, rms_norm
from .rms_norm_backward import rms_norm_backward

__all__ = [
    "fused_add_rms_norm",
    "fused_add_rms_norm_",
    "fused_add_rms_norm_backward",
    "rms_norm",
    "rms_norm_backward",
]
