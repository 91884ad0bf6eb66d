"""What wrong formulas of a backward are written with: the pieces that a right one has at hand, in float64."""

from __future__ import annotations

from dataclasses import dataclass

from emulation import fills, problem, tensor
from torch import Tensor

from conformance.model import Fill
from conformance.numerics.gradients import GradientProblem
from conformance.numerics.rounding import nearest

DTYPES = ("float16", "bfloat16", "float32")
SHAPE = (33, 257)


@dataclass(frozen=True)
class Pieces:
    """What a backward has at hand, float64, (n_rows, hidden_size) where nothing else is said."""

    h: Tensor
    r: Tensor  # (n_rows, 1)
    dy: Tensor
    w: Tensor  # (hidden_size,)
    d: Tensor | None
    eps: float

    @property
    def x_hat(self) -> Tensor:
        return self.h * self.r

    @property
    def a(self) -> Tensor:
        return self.dy * self.w

    @property
    def c(self) -> Tensor:
        return mean(self.x_hat * self.a)

    @property
    def ds(self) -> Tensor:
        return jacobian(self, self.a)


def mean(t: Tensor) -> Tensor:
    return t.mean(-1, keepdim=True)


def jacobian(p: Pieces, a: Tensor, r: Tensor | None = None) -> Tensor:
    r = p.r if r is None else r
    x_hat = p.h * r
    return r * (a - x_hat * mean(x_hat * a))


def question(
    dtype: str, fused: bool, shape: tuple[int, int] = SHAPE, fill: str | Fill = "rowjump", **changes
) -> GradientProblem:
    """A backward's question: signed weights, dy and dresidual_out of their own."""
    chosen = fills(shape[0])[fill] if isinstance(fill, str) else fill
    forward = problem(shape, chosen, dtype, fused=fused, eps=changes.pop("eps", 1e-5), **changes)
    dy = tensor(Fill(seed=11), shape, forward.x_dtype)
    d = tensor(Fill(seed=12), shape, forward.residual_dtype) if fused else None
    return GradientProblem(forward, dy, d, forward.x_dtype, forward.residual_dtype, forward.weight_dtype)


def pieces(q: GradientProblem) -> Pieces:
    p = q.forward
    h = p.x if p.residual is None else nearest(p.x + p.residual, p.residual_dtype)
    r = 1.0 / (mean(h.square()) + p.eps).sqrt()
    assert p.weight is not None
    assert q.dy is not None
    return Pieces(h, r, q.dy, p.weight + p.weight_offset, q.dresidual_out, p.eps)


def total(p: Pieces, norm: Tensor) -> Tensor:
    return norm if p.d is None else norm + p.d
