"""Reference Triton kernels for RMSNorm and fused add + RMSNorm: a course, and the suite's own subject.

Each kernel file is a lesson; README.md gives the order. Needs torch and triton, nothing else.
"""

from .fused_add_rms_norm_forward import fused_add_rms_norm, fused_add_rms_norm_
from .rms_norm_forward import rms_norm

__all__ = ["fused_add_rms_norm", "fused_add_rms_norm_", "rms_norm"]
