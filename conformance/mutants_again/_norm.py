"""The right forward in pieces, in forms that `conformance.mutants` does not have. Not a fault.

The mutants sum a row at once in fp32 and round once. The forms here sum in another order or in float64, round
twice, or normalise the sum as it was stored; a fault replaces pieces, and the form stays. A piece takes the
`Row` in progress and returns what its name says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Piece = Callable[[Any], Any]

CHUNK = 96


class Row:
    """One forward in progress: tensors of shape (n_rows, hidden_size), fp32 where nothing else is said."""

    def __init__(self, **known):
        self.x = self.residual = None  # as they came, as rows
        self.shape = ()  # of x as the caller gave it
        self.weight = None  # fp32, (hidden_size,) or (n_rows, hidden_size); None where there is none
        self.eps = 0.0
        self.dtype = None  # x's
        self.h: Any = None  # what is normalised
        self.square = None
        self.divisor = self.numerator = self.factor = None
        self.total = self.rrms = None  # (n_rows, 1)
        self.y = None  # before it is stored
        vars(self).update(known)

    @property
    def size(self):
        return self.h.shape[-1]


def rows(tensor):
    """The tensor as (n_rows, hidden_size), 0 rows included."""
    return tensor.reshape(tensor.numel() // tensor.shape[-1], tensor.shape[-1])


# --- orders of a sum over the columns, (n_rows, hidden_size) to (n_rows, 1) ----------------------------


def in_chunks(values):
    """Columns CHUNK at a time, one running sum."""
    total = values.new_zeros(len(values), 1)
    for part in values.split(CHUNK, dim=-1):
        total = total + part.sum(-1, keepdim=True)
    return total


def folded(values):
    """Even and odd columns added, until one is left."""
    while values.shape[-1] > 1:
        values = torch.nn.functional.pad(values, (0, values.shape[-1] % 2))
        values = values[:, ::2] + values[:, 1::2]
    return values


def interleaved(values):
    """64 lanes that each take every 64th column, and then each other."""
    padded = torch.nn.functional.pad(values, (0, -values.shape[-1] % 64))
    return folded(padded.unflatten(-1, (-1, 64)).sum(1))


def doubled(values):
    """In float64, from the last column to the first."""
    return values.double().flip(-1).sum(-1, keepdim=True).float()


ORDERS = {"chunks": in_chunks, "folded": folded, "lanes": interleaved, "float64": doubled}


# --- the pieces ----------------------------------------------------------------------------------------


def source(s):
    """What is normalised: x, or the exact sum."""
    return s.x.float() if s.residual is None else s.x.float() + s.residual.float()


def stored_source(s):
    """The same, but the sum as residual_out holds it."""
    return source(s) if s.residual is None else source(s).to(s.residual.dtype).float()


def squares(s):
    return s.h * s.h


def divisor(s):
    return s.size


def rrms(s):
    return 1.0 / torch.sqrt(s.total / s.divisor + s.eps)


def numerator(s):
    return s.h


def factor(s):
    """What multiplies the normalised row, or None."""
    return s.weight


def once(s):
    """y before it is stored, from the numerator, rrms and factor; one rounding to come."""
    y = s.numerator * s.rrms
    return y if s.factor is None else s.factor * y


def twice(s):
    """The same with x_hat rounded to x's dtype first."""
    x_hat = (s.numerator * s.rrms).to(s.dtype).float()
    return x_hat if s.factor is None else s.factor * x_hat


def finish(s):
    """Whatever else is done to y before it is stored."""
    return s.y


def store(s):
    return s.y.to(s.dtype)


def residual_out(s):
    return (s.x.float() + s.residual.float()).to(s.residual.dtype)


def op(order="chunks", roundings=1, stored=False, **faults):
    """{function name: function} of both norms, in one form, with the pieces named in `faults` replaced.

    Raises KeyError for a fault that is no piece.
    """
    piece: dict[str, Piece] = {
        "source": stored_source if stored else source, "squares": squares, "total": _total(order),
        "divisor": divisor, "rrms": rrms, "numerator": numerator, "factor": factor,
        "y": twice if roundings == 2 else once, "finish": finish, "store": store,
        "residual_out": residual_out,
    }  # fmt: skip
    if set(faults) - set(piece):
        raise KeyError(f"{sorted(set(faults) - set(piece))} are no pieces; known: {', '.join(piece)}")
    piece.update(faults)

    def run(x, residual, weight, eps):
        s = Row(x=rows(x), shape=x.shape, dtype=x.dtype, eps=eps)
        s.residual = None if residual is None else rows(residual)
        s.weight = None if weight is None else weight.float()
        s.h = piece["source"](s)
        s.square = piece["squares"](s)
        s.total = piece["total"](s)
        s.divisor = piece["divisor"](s)
        s.rrms = piece["rrms"](s)
        s.numerator = piece["numerator"](s)
        s.factor = piece["factor"](s)
        s.y = piece["y"](s)
        s.y = piece["finish"](s)
        y = piece["store"](s).reshape(x.shape)
        return y if residual is None else (y, piece["residual_out"](s).reshape(x.shape))

    def rms_norm(x, weight, eps=1e-6):
        check(x, weight)
        return run(x, None, weight, eps)

    def fused_add_rms_norm(x, residual, weight, eps=1e-6):
        check(x, weight, residual)
        return run(x, residual, weight, eps)

    return {"rms_norm": rms_norm, "fused_add_rms_norm": fused_add_rms_norm}


def _total(order):
    return lambda s: ORDERS[order](s.square)


def check(x, weight, residual=None):
    """Refuse what cannot be right before anything is computed. Raises ValueError."""
    for name, tensor, shape in (("weight", weight, x.shape[-1:]), ("residual", residual, x.shape)):
        if tensor is not None and (tensor.shape != shape or tensor.device != x.device):
            raise ValueError(f"{name} is {tuple(tensor.shape)} on {tensor.device}, but should be "
                             f"{tuple(shape)} on {x.device}")  # fmt: skip
    if not x.is_floating_point():
        raise ValueError(f"x is {x.dtype}, but should be a floating point tensor")
