"""Roundings of float64 tensors into a storage dtype, on the tensors' own device.

A kernel that computes in fp32 and stores into T rounds twice: to fp32 at its last operation, to T at the
store. Both roundings here do the same, and both are monotone (a <= b implies rounded(a) <= rounded(b)), which
is what makes it exact to round the two ends of an interval.
"""

from __future__ import annotations

import torch
from torch import Tensor

TORCH_DTYPE = {
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float64": torch.float64,
}

MANTISSA = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}
"""Stored mantissa bits: one ulp of a normal value v is 2**(floor(log2 |v|) - MANTISSA)."""

_LOWEST = {
    "float16": -14,
    "bfloat16": -126,
    "float32": -126,
    "float64": -1022,
}  # exponent of the smallest normal


def torch_dtype(dtype: str) -> torch.dtype:
    """The torch dtype of a dtype name. Raises ValueError for a name that is not a floating dtype of the
    suite."""
    try:
        return TORCH_DTYPE[dtype]
    except KeyError:
        raise ValueError(f"dtype is {dtype!r}, but should be one of {', '.join(TORCH_DTYPE)}") from None


def store(t: Tensor, dtype: str, *, truncating: bool = False) -> Tensor:
    """float64 `t` rounded to fp32 and then stored into `dtype`; the result has that dtype.

    The second step rounds to nearest even, or toward zero when `truncating` (bf16: the low 16 bits are
    cleared; fp16: a result larger in magnitude than its fp32 source steps back by one place). fp32 has no
    second step.
    """
    single = t.to(torch.float32)
    if not truncating or dtype in ("float32", "float64"):
        return single.to(torch_dtype(dtype))
    if dtype == "bfloat16":
        cleared = (single.view(torch.int32) & -0x10000).view(torch.float32)
        return torch.where(single.isnan(), single, cleared).to(torch.bfloat16)
    nearest = single.to(torch_dtype(dtype))
    beyond = (nearest.to(torch.float32).abs() > single.abs()).to(torch.int16)
    # Sign and magnitude: one less in the bits is one place nearer to zero, whatever the sign; Inf becomes
    # 65504.
    return (nearest.view(torch.int16) - beyond).view(torch.float16)


def store_outward(t: Tensor, dtype: str) -> Tensor:
    """float64 `t` to the nearest fp32 value, then away from zero into `dtype`: what no kernel should do.
    Monotone."""
    single = t.to(torch.float32)
    inward = store(single.to(torch.float64), dtype, truncating=True)
    if dtype in ("float32", "float64"):
        return inward
    more = (inward.to(torch.float32) != single) & single.isfinite()
    return (inward.view(torch.int16) + more.to(torch.int16)).view(torch_dtype(dtype))


def nearest(t: Tensor, dtype: str) -> Tensor:
    """R(t): float64 `t` through fp32 to the nearest value of `dtype`, ties to even, as float64."""
    return store(t, dtype).to(torch.float64)


def truncated(t: Tensor, dtype: str) -> Tensor:
    """Rz(t): float64 `t` to the nearest fp32 value, then toward zero into `dtype`, as float64."""
    return store(t, dtype, truncating=True).to(torch.float64)


def ulp(t: Tensor, dtype: str) -> Tensor:
    """The spacing of `dtype` at each |t| (float64), that of the subnormals below the smallest normal value.

    A power of two gets the spacing above it. NaN and Inf give Inf.
    """
    bits = t.view(torch.int64) & 0x7FF0000000000000
    power = bits.view(torch.float64)  # 2**floor(log2 |t|), or 0 for a float64 subnormal
    return power.clamp_min(2.0 ** _LOWEST[dtype]) * 2.0 ** -MANTISSA[dtype]
