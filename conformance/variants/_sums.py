"""Orders in which a row is added up, and the ops over one of them. Not a variant.

An order takes fp32 (n_rows, hidden_size) and returns the fp32 sums, (n_rows, 1). All arithmetic is in fp32,
one rounded addition after the other, so the order is what the function's name says.
"""

from __future__ import annotations

import torch

from conformance.mutants import _formula, _gradient


def one_by_one(terms):
    """From the first column to the last."""
    total = torch.zeros(len(terms), dtype=torch.float32, device=terms.device)
    for column in terms.t().contiguous().unbind(0):
        total += column
    return total[:, None]


def strided(terms, lanes):
    """Each of `lanes` lanes adds every lanes-th column: (n_rows, lanes)."""
    padded = torch.nn.functional.pad(terms, (0, -terms.shape[-1] % lanes))
    total = torch.zeros(len(terms), lanes, dtype=torch.float32, device=terms.device)
    for start in range(0, padded.shape[-1], lanes):
        total += padded[:, start : start + lanes]
    return total


def tree(lanes):
    """The upper half onto the lower until one lane is left; the number of lanes is a power of two."""
    while lanes.shape[-1] > 1:
        half = lanes.shape[-1] // 2
        lanes = lanes[:, :half] + lanes[:, half:]
    return lanes


def compensated(terms):
    """Kahan's sum, one by one: what an addition loses is taken off the next term."""
    total = torch.zeros(len(terms), dtype=torch.float32, device=terms.device)
    lost = torch.zeros_like(total)
    for column in terms.t().contiguous().unbind(0):
        term = column - lost
        larger = total + term
        lost = (larger - total) - term
        lost = torch.where(lost.isfinite(), lost, 0.0)  # an Inf has lost nothing
        total = larger
    return total[:, None]


def rrms_of(sum_of_squares):
    """rrms(h, eps) with the squares added by this order: mean, eps, rsqrt, all in fp32."""

    def rrms(h, eps):
        return (sum_of_squares(h.square()) / h.shape[-1] + eps).rsqrt()

    return rrms


def ops(rrms, **pieces):
    """(rms_norm, fused_add_rms_norm) with this rrms(h, eps), fp32 (n_rows, 1), and a right backward.

    pieces: as for `_gradient.op`.
    """

    def forward(x, residual, weight, eps, offset):
        exact = _gradient.rows(x.float() if residual is None else x.float() + residual.float())
        step = _gradient.Step(shape=x.shape, dtype=x.dtype, eps=eps, h=exact, rrms=rrms(exact, eps))
        y = _formula.scale(exact, step.rrms, _gradient.with_offset(weight, offset), x.dtype).reshape(x.shape)
        residual_out = None if residual is None else exact.to(residual.dtype).reshape(x.shape)
        return y, residual_out, step

    op = _gradient.op(forward=forward, **pieces)

    def rms_norm(x, weight, eps=1e-6):
        return op.rms_norm(x, weight, eps)

    def fused_add_rms_norm(x, residual, weight, eps=1e-6):
        return op.fused_add_rms_norm(x, residual, weight, eps)

    return rms_norm, fused_add_rms_norm
