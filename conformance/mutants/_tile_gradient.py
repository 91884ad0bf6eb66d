"""What the Triton mutants of the backward share, all of it right. Not a mutant.

The forward is plain torch. The backward takes tiles of several rows: a program writes its rows of dx and
one row of partial sums for dweight, which are added up afterwards. Nothing here imports Triton: `op(launch)`
makes the op, and `launch` starts the kernel.
"""

from __future__ import annotations

import torch
from torch.autograd.function import once_differentiable

from conformance.mutants import _gradient, _tile

TILE = 4096


def tile(n_rows, hidden_size):
    """(how many programs, rows of each, columns of a tile): powers of two, TILE elements where they fit."""
    block = _tile.width(hidden_size)
    many = max(1, TILE // block)
    return -(-n_rows // many), many, block


def added_up(partial):
    """The second stage: partial sums of shape (programs, hidden_size) to (hidden_size,), in fp32."""
    return partial.sum(0)


def op(launch, second_stage=added_up):
    """rms_norm(x, weight, eps) with a backward whose first stage is `launch`.

    launch(dy, x, weight, rrms, dx, partial) gets rows with unit column stride, the weight as a vector, rrms
    of shape (n_rows,), and the two tensors to fill: dx in x's dtype, partial in fp32. Not called for 0 rows.
    """

    class Norm(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight, eps):
            y, _, step = _gradient.forward(x, None, weight, eps, 0.0)
            ctx.save_for_backward(x, weight, step.rrms.reshape(-1))
            return y

        @staticmethod
        @once_differentiable
        def backward(ctx, dy):
            x, weight, rrms = ctx.saved_tensors
            n_rows, hidden_size = len(rrms), x.shape[-1]
            programs = tile(n_rows, hidden_size)[0]
            dx = torch.empty((n_rows, hidden_size), dtype=x.dtype, device=x.device)
            partial = torch.empty((programs, hidden_size), dtype=torch.float32, device=x.device)
            if n_rows:
                vector = _tile.vector(weight, x)
                launch(_tile.rows(dy), _tile.rows(x), vector, rrms, dx, partial)
            wants_dx, wants_dweight, _ = ctx.needs_input_grad
            dweight = second_stage(partial).to(weight.dtype) if wants_dweight else None
            return (dx.reshape(x.shape) if wants_dx else None), dweight, None

    return Norm.apply
