"""The right backward in plain torch, in pieces, for mutants and variants to build on. Not a mutant.

With h the row that was normalised (x, or the sum as it was stored), r its rrms, x_hat = h * r,
a = dy * weight and c = mean(a * x_hat) over the row, everything in fp32:

    dx = dresidual = r * (a - x_hat * c) + dresidual_out        dweight = sum over the rows of dy * x_hat

`op(projection=function)` gives the two ops with that one piece replaced; their forward stays right. A piece
takes the `Step`, which has what was computed before it, and returns what its name says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from conformance.mutants import _formula

Piece = Callable[[Any], Any]


class Step:
    """One forward or backward in progress; fp32 and (n_rows, hidden_size) where nothing else is said."""

    def __init__(self, **known):
        self.shape = ()  # of x as the caller gave it
        self.dtype = None  # x's
        self.residual_dtype = None  # None for the plain norm
        self.eps = 0.0
        self.h = None
        self.weight = None  # with its offset; (hidden_size,), or None
        self.own_weight = None  # the caller's own tensor
        self.offset = 0.0
        self.stored = None  # x, or residual_out: what the backward reads h from
        self.y = None  # as it was returned, and only for an op made with keeps_y
        self.saved = None  # what `statistic` gave in the forward
        self.given = None  # dy as it arrived, in its own shape, dtype and strides
        self.given_residual_out = None  # dresidual_out as it arrived
        self.needs = (True, True, True)  # whether x, residual and weight want a gradient
        self.kept = {}  # lives as long as the graph
        self.rrms = None  # (n_rows, 1), like c
        self.dy = self.dresidual_out = self.x_hat = self.a = self.c = None
        self.norm = None  # the norm's part of dx; None where no dy arrived
        self.total = None  # with dresidual_out
        self.terms = None  # what dweight sums over the rows
        self.sum = None  # (hidden_size,)
        vars(self).update(known)


def rows(tensor):
    """The tensor as (n_rows, hidden_size), 0 rows included."""
    hidden_size = tensor.shape[-1]
    return tensor.reshape(tensor.numel() // hidden_size, hidden_size)


def statistic(s):
    """What the forward saves: rrms, fp32, (n_rows, 1). Has `h`, the exact sum here, and `rrms`."""
    return s.rrms


def rrms(s):
    """The rrms that the backward multiplies by, from what was saved."""
    return s.saved


def upstream(s):
    """dy by its own strides."""
    return rows(s.given.float())


def x_hat(s):
    return s.h * s.rrms


def weighted(s):
    return s.dy if s.weight is None else s.dy * s.weight


def projection(s):
    return (s.a * s.x_hat).mean(-1, keepdim=True)


def norm(s):
    """The norm's part of dx."""
    return s.rrms * (s.a - s.x_hat * s.c)


def total(s):
    """The norm's part and the gradient of residual_out, each of which may be absent."""
    parts = [part for part in (s.norm, s.dresidual_out) if part is not None]
    return sum(parts[1:], parts[0])


def terms(s):
    return s.dy * s.x_hat


def reduced(s):
    return s.terms.sum(0)


def dx(s):
    return s.total.to(s.dtype).reshape(s.shape)


def dresidual(s):
    return s.total.to(s.residual_dtype).reshape(s.shape)


def dweight(s):
    return s.sum.to(s.own_weight.dtype)


def returned(s, gradients):
    """What goes back to autograd for (x, residual, weight); None for what does not require one."""
    return gradients


RIGHT: dict[str, Piece] = {
    piece.__name__: piece
    for piece in (
        statistic, rrms, upstream, x_hat, weighted, projection, norm, total, terms, reduced, dx, dresidual,
        dweight,
    )
}  # fmt: skip


def with_offset(weight, offset):
    """weight + offset in fp32; None where there is neither."""
    if weight is None:
        return None
    return weight.float() + offset if offset else weight.float()


def forward(x, residual, weight, eps, offset):
    """The right forward: (y, residual_out or None, the step with h, rrms and eps as they were computed)."""
    exact = rows(x.float() if residual is None else x.float() + residual.float())
    step = Step(shape=x.shape, dtype=x.dtype, eps=eps, h=exact, rrms=_formula.rrms(exact, eps))
    y = _formula.scale(exact, step.rrms, with_offset(weight, offset), x.dtype).reshape(x.shape)
    residual_out = None if residual is None else exact.to(residual.dtype).reshape(x.shape)
    return y, residual_out, step


def backward(s, piece=RIGHT):
    """(dx, dresidual, dweight) of a step, each None where it is not needed or no gradient reaches it."""
    needs_x, needs_residual, needs_weight = s.needs
    if s.given_residual_out is not None:
        s.dresidual_out = rows(s.given_residual_out.float())
    if s.given is not None:
        s.rrms = piece["rrms"](s)
        s.dy = piece["upstream"](s)
        s.x_hat = piece["x_hat"](s)
    if s.given is not None and (needs_x or needs_residual):
        s.a = piece["weighted"](s)
        s.c = piece["projection"](s)
        s.norm = piece["norm"](s)
    if needs_x or needs_residual:
        s.total = piece["total"](s)
    gradient = piece["dx"](s) if needs_x else None
    gradient_residual = piece["dresidual"](s) if needs_residual else None
    gradient_weight = None
    if s.given is not None and needs_weight and s.own_weight is not None:
        s.terms = piece["terms"](s)
        s.sum = piece["reduced"](s)
        gradient_weight = piece["dweight"](s)
    return gradient, gradient_residual, gradient_weight


@dataclass(frozen=True)
class Op:
    """rms_norm and fused_add_rms_norm over one autograd function."""

    function: Any

    def rms_norm(self, x, weight, eps, weight_offset=0.0):
        """Returns y in x's shape and dtype. Raises as `_formula.check`."""
        _formula.check(x, weight, eps)
        return self.function.apply(x, None, weight, eps, weight_offset)

    def fused_add_rms_norm(self, x, residual, weight, eps, weight_offset=0.0):
        """Returns (y, residual_out). Raises as `_formula.check`."""
        _formula.check(x, weight, eps, residual)
        return self.function.apply(x, residual, weight, eps, weight_offset)


def op(*, keeps_y=False, forward=forward, returned=returned, **faults):
    """The ops, with each piece of RIGHT that is named in `faults` replaced. Raises KeyError for another name.

    forward: as `forward` here, for another convention.
    returned: (step, (dx, dresidual, dweight)) -> the three that are handed to autograd.
    """
    unknown = set(faults) - set(RIGHT)
    if unknown:
        raise KeyError(f"{sorted(unknown)} are no pieces of the backward; known: {', '.join(RIGHT)}")
    piece, compute = {**RIGHT, **faults}, forward

    class Norm(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, residual, weight, eps, offset):
            y, residual_out, step = compute(x, residual, weight, eps, offset)
            step.saved = piece["statistic"](step)
            step.y = y if keeps_y else None
            stored = x if residual is None else residual_out
            ctx.save_for_backward(stored, weight, step.saved, step.y)
            ctx.known = {
                "shape": x.shape, "dtype": x.dtype, "eps": eps, "offset": offset,
                "residual_dtype": None if residual is None else residual.dtype,
            }  # fmt: skip
            ctx.kept = {}
            ctx.set_materialize_grads(False)
            return y if residual is None else (y, residual_out)

        @staticmethod
        @once_differentiable
        def backward(ctx, dy, dresidual_out=None):
            stored, weight, saved, y = ctx.saved_tensors
            step = Step(
                **ctx.known, stored=stored, h=rows(stored.float()), saved=saved, y=y, kept=ctx.kept,
                own_weight=weight, weight=with_offset(weight, ctx.known["offset"]), given=dy,
                given_residual_out=dresidual_out, needs=ctx.needs_input_grad[:3],
            )  # fmt: skip
            return *returned(step, backward(step, piece)), None, None

    return Op(Norm)
