"""Mutant: keeps rrms in one workspace for each number of rows, which the next forward overwrites.

Right as long as each backward follows its own forward, which is how a single call is tested.
"""

import torch

from conformance.mutants import _gradient

BREAKS = "GRADMODE-GRAPHS"
SOURCE = "the contract of autograd; a workspace cached by shape, as kernels have for partial sums"
TRIGGER = "two calls of one shape, then the backward of the first"
NEEDS = "cpu"

_workspaces: dict = {}


def _statistic(s):
    kept = _workspaces.setdefault((s.rrms.shape, s.rrms.device), torch.empty_like(s.rrms))
    kept.data.copy_(s.rrms)  # as a kernel writes: autograd does not see it
    return kept


OP = _gradient.op(statistic=_statistic)


def rms_norm(x, weight, eps=1e-6):
    return OP.rms_norm(x, weight, eps)


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    return OP.fused_add_rms_norm(x, residual, weight, eps)
