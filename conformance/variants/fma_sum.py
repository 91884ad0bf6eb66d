"""Variant: each square is added by a fused multiply-add, so that the product is never rounded by itself.

32 lanes accumulate, then a tree adds them. A fused operation is emulated: the product of two fp32 numbers is
exact in float64, and the sum is rounded to fp32 once.
"""

import torch

from conformance.variants import _sums

CONVENTION = {"none": "one rounding", "residual": "one rounding, exact sum"}
REFUSES = ()

LANES = 32


def _rrms(h, eps):
    padded = torch.nn.functional.pad(h, (0, -h.shape[-1] % LANES)).double()
    total = torch.zeros(len(h), LANES, dtype=torch.float32, device=h.device)
    for part in padded.split(LANES, -1):
        total = torch.addcmul(total.double(), part, part).float()
    return (_sums.tree(total) / h.shape[-1] + eps).rsqrt()


def _norm(s):
    """rrms * (a - x_hat * c), the difference fused."""
    return s.rrms * torch.addcmul(s.a.double(), s.x_hat.double(), s.c.double(), value=-1).float()


rms_norm, fused_add_rms_norm = _sums.ops(_rrms, norm=_norm)
