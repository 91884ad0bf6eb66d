"""The right backward in pieces, in forms that `conformance.mutants` does not have. Not a fault.

The mutants write dx as r * (a - x_hat * c). Here the term along x is taken apart otherwise:

    dx = r * a - h * (r**3 / hidden_size) * dot,    a = dy * weight,  dot = the row sum of a * h
    dweight = sum over the rows of dy * h * r

with rows added in blocks, products rounded as autograd through a cast rounds them, or all of it in float64.
A fault replaces pieces; a piece takes the `State` and returns what its name says.
"""

from __future__ import annotations

from typing import Any

import torch

from conformance.mutants_again import _norm

BLOCK = 24


class State:
    """One backward in progress: (n_rows, hidden_size) in `precision` where nothing else is said."""

    def __init__(self, **known):
        self.shape = ()  # of x as the caller gave it
        self.dtype = self.residual_dtype = self.weight_dtype = None
        self.eps = self.offset = 0.0
        self.h: Any = None
        self.dy = self.d = None  # d: the gradient of residual_out, or None
        self.stored_weight: Any = None
        self.weight = None  # without and with its offset, (hidden_size,) or None
        self.r = None  # rrms, (n_rows, 1), as the forward had it
        self.used = None  # what the backward takes for it in dx
        self.a = self.dot = self.norm = self.total = self.terms = self.sum = None
        vars(self).update(known)

    @property
    def size(self):
        return self.h.shape[-1]


def used(s):
    return s.r


def weighted(s):
    return s.dy if s.weight is None else s.dy * s.weight


def rounded_weighted(s):
    """The product as a graph holds it whose weight multiplies in x's dtype."""
    return s.dy if s.weight is None else (s.dy * s.weight).to(s.dtype).to(s.h.dtype)


def dot(s):
    return _norm.interleaved(s.a * s.h)


def norm(s):
    return s.used * s.a - s.h * (s.used**3 / s.size) * s.dot


def total(s):
    """What comes through the norm and what comes around it, each of which may be absent."""
    if s.norm is None or s.d is None:
        return s.d if s.norm is None else s.norm
    return s.d + s.norm


def terms(s):
    return s.dy * (s.h * s.r)


def rounded_terms(s):
    """The products with x_hat as the forward rounded it to x's dtype."""
    return s.dy * (s.h * s.r).to(s.dtype).to(s.h.dtype)


def reduced(s):
    """Blocks of rows, and the blocks from the last to the first."""
    blocks = [block.sum(0) for block in s.terms.split(BLOCK)]
    return sum(reversed(blocks), s.terms.new_zeros(s.size))


def dx(s):
    return s.total.to(s.dtype)


def dresidual(s):
    return s.total.to(s.residual_dtype)


def dweight(s):
    return s.sum.to(s.weight_dtype)


def op(form="blocks", **faults):
    """{function name: function} of both norms: the forward right, the backward in one form but for `faults`.

    form: blocks (fp32), rounded (fp32, products and x_hat rounded to x's dtype) or float64. Raises KeyError
    for a fault that is no piece.
    """
    rounds, precision = form == "rounded", torch.float64 if form == "float64" else torch.float32
    piece: dict[str, Any] = {
        "used": used, "weighted": rounded_weighted if rounds else weighted, "dot": dot, "norm": norm,
        "total": total, "terms": rounded_terms if rounds else terms, "reduced": reduced, "dx": dx,
        "dresidual": dresidual, "dweight": dweight,
    }  # fmt: skip
    if set(faults) - set(piece):
        raise KeyError(f"{sorted(set(faults) - set(piece))} are no pieces; known: {', '.join(piece)}")
    piece.update(faults)

    class Norm(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, residual, weight, eps, offset):
            h = _norm.rows(x).float()
            h = h if residual is None else h + _norm.rows(residual).float()
            stored = x if residual is None else h.to(residual.dtype).reshape(x.shape)
            r = torch.rsqrt(_norm.folded(h * h) / h.shape[-1] + eps)
            x_hat = (h * r).to(x.dtype).float() if rounds else h * r
            y = x_hat if weight is None else x_hat * (weight.float() + offset)
            ctx.save_for_backward(stored, weight, r)
            ctx.known = {
                "shape": x.shape, "dtype": x.dtype, "eps": eps, "offset": offset,
                "residual_dtype": None if residual is None else residual.dtype,
                "weight_dtype": None if weight is None else weight.dtype,
            }  # fmt: skip
            ctx.set_materialize_grads(False)
            y = y.to(x.dtype).reshape(x.shape)
            return y if residual is None else (y, stored)

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, dy, d=None):
            stored, weight, r = ctx.saved_tensors
            s = State(**ctx.known, h=_norm.rows(stored).to(precision), r=r.to(precision))
            s.d = None if d is None else _norm.rows(d).to(precision)
            s.stored_weight = None if weight is None else weight.to(precision)
            s.weight = None if weight is None else s.stored_weight + s.offset
            wants = ctx.needs_input_grad
            gradients = [None] * 5
            if dy is not None:
                s.dy, s.used = _norm.rows(dy).to(precision), piece["used"](s)
                s.a = piece["weighted"](s)
                s.dot = piece["dot"](s)
                s.norm = piece["norm"](s)
            if wants[0] or wants[1]:
                s.total = piece["total"](s)
                gradients[0] = piece["dx"](s).reshape(s.shape) if wants[0] else None
                gradients[1] = piece["dresidual"](s).reshape(s.shape) if wants[1] else None
            if dy is not None and weight is not None and wants[2]:
                s.terms = piece["terms"](s)
                s.sum = piece["reduced"](s)
                gradients[2] = piece["dweight"](s)
            return tuple(gradients)

    def rms_norm(x, weight, eps=1e-6, weight_offset=0.0):
        _norm.check(x, weight)
        return Norm.apply(x, None, weight, 1e-6 if eps is None else eps, weight_offset)

    def fused_add_rms_norm(x, residual, weight, eps=1e-6, weight_offset=0.0):
        _norm.check(x, weight, residual)
        return Norm.apply(x, residual, weight, 1e-6 if eps is None else eps, weight_offset)

    return {"rms_norm": rms_norm, "fused_add_rms_norm": fused_add_rms_norm}
