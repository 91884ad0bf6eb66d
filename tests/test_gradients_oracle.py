"""The oracle of the backward against exact fractions, finite differences and automatic differentiation."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
import torch
from emulation import problem, tensor
from gradient_emulation import gradient_problem
from test_oracle import root
from torch import Tensor

from conformance.model import Fill
from conformance.numerics.conventions import Problem
from conformance.numerics.gradients import GradientProblem, gradients
from conformance.numerics.oracle import norm_source, normalise

Rows = list[list[float]]


def whole(
    x: Rows, weight: list[float] | None, dy: Rows, added: Rows | None, eps: float, offset: float
) -> GradientProblem:
    """A problem of small numbers; with `added` the sum is split into x and a residual."""

    def float64(values: Rows | list[float]) -> Tensor:
        return torch.tensor(values, dtype=torch.float64)

    total = float64(x)
    residual = None if added is None else (total / 2).floor() - 1.0
    forward = Problem(
        total if residual is None else total - residual,
        residual,
        None if weight is None else float64(weight),
        eps,
        offset,
        *["float32"] * 4,
    )
    return GradientProblem(forward, float64(dy), None if added is None else float64(added), *["float32"] * 3)


def exact(p: GradientProblem) -> tuple[list[list[Fraction]], list[Fraction], list[Fraction]]:
    """ds and dweight in fractions, and the size of each row's terms; the root is bracketed to 2**-90."""
    forward, dy, added = p.forward, p.dy, p.dresidual_out
    assert dy is not None
    total = forward.x if forward.residual is None else forward.x + forward.residual
    n = p.hidden_size
    one = torch.ones(n, dtype=torch.float64)
    w = [Fraction(v) for v in (one if forward.weight is None else forward.weight).tolist()]
    if forward.weight is not None:
        w = [v + Fraction(forward.weight_offset) for v in w]
    rows, sizes, dweight = [], [], [Fraction(0)] * n
    for row in range(p.n_rows):
        h = [Fraction(v) for v in total[row].tolist()]
        g = [Fraction(v) for v in dy[row].tolist()]
        d = [Fraction(0)] * n if added is None else [Fraction(v) for v in added[row].tolist()]
        rrms = 1 / root(sum((v * v for v in h), Fraction(0)) / n + Fraction(forward.eps))
        x_hat = [v * rrms for v in h]
        a = [v * u for v, u in zip(g, w, strict=True)]
        terms = [v * u for v, u in zip(x_hat, a, strict=True)]
        c = sum(terms, Fraction(0)) / n
        rows.append([rrms * (a[j] - x_hat[j] * c) + d[j] for j in range(n)])
        size = sum(map(abs, terms), Fraction(0)) / n
        sizes.append(max(rrms * (abs(a[j]) + abs(x_hat[j]) * size) + abs(d[j]) for j in range(n)))
        dweight = [v + g[j] * x_hat[j] for j, v in enumerate(dweight)]
    return rows, dweight, sizes


def agree(p: GradientProblem) -> None:
    ds, dweight = gradients(p)
    rows, columns, sizes = exact(p)
    for row in range(p.n_rows):
        for actual, right in zip(ds[row].tolist(), rows[row], strict=True):
            assert abs(Fraction(actual) - right) <= sizes[row] / 2**48
    assert p.dy is not None
    for actual, right, column in zip(dweight.tolist(), columns, p.dy.abs().sum(0).tolist(), strict=True):
        assert abs(Fraction(actual) - right) <= Fraction(column) * p.hidden_size / 2**48


# eps 1/4 makes the mean square of each of these rows a perfect square: 9/4, 9/4, 49/4, 1/4.
ROWS = [[2.0, 2.0, 0.0, 0.0], [0.0, -2.0, 2.0, 0.0], [4.0, -4.0, 0.0, 4.0], [0.0, 0.0, 0.0, 0.0]]
DY = [[1.0, -2.0, 3.0, 0.0], [5.0, 1.0, -1.0, 2.0], [0.0, 0.0, 1.0, 0.0], [7.0, -3.0, 2.0, 1.0]]
ADDED = [[1.0, 0.0, -1.0, 2.0], [3.0, 3.0, 3.0, 3.0], [0.0, 0.0, 0.0, 0.0], [-1.0, 4.0, 0.0, 1.0]]
WEIGHT = [3.0, -1.0, 0.0, 2.0]


def test_one_row_by_hand() -> None:
    p = whole(ROWS[:1], WEIGHT, DY[:1], None, 0.25, 0.0)
    # rrms = 2/3, x_hat = (4/3, 4/3, 0, 0), a = (3, 2, 0, 0), c = (4 + 8/3) / 4 = 5/3.
    ds, dweight = gradients(p)
    by_hand = torch.tensor([[2 / 3 * (3 - 20 / 9), 2 / 3 * (2 - 20 / 9), 0.0, 0.0]], dtype=torch.float64)
    assert torch.allclose(ds, by_hand, rtol=1e-14, atol=0.0)
    assert torch.allclose(dweight, torch.tensor([4 / 3, -8 / 3, 0.0, 0.0], dtype=torch.float64), rtol=1e-14)


@pytest.mark.parametrize("offset", [0.0, 1.0])
@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize("added", [None, ADDED])
def test_rational_rows(added: Rows | None, weight: list[float] | None, offset: float) -> None:
    agree(whole(ROWS, weight, DY, added, 0.25, offset))


@pytest.mark.parametrize("x", [2.0, 0.0, -2.0])
def test_one_column_cancels(x: float) -> None:
    # x² + eps = 25/4 or 9/4; ds = rrms * a * eps * rrms².
    p = whole([[x]], [3.0], [[5.0]], None, 2.25, 0.0)
    agree(p)
    rrms = 0.4 if x else 2 / 3
    assert float(gradients(p)[0]) == pytest.approx(rrms**3 * 15.0 * 2.25, rel=1e-14)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("eps", [1e-6, 1e-3])
@pytest.mark.parametrize("scale", [1.0, 1e-4, 3e4])
@pytest.mark.parametrize("hidden_size", [1, 7, 64])
def test_random_rows(hidden_size: int, scale: float, eps: float, fused: bool) -> None:
    agree(gradient_problem((3, hidden_size), Fill(seed=1, scale=scale), "float32", fused=fused, eps=eps))


def loss(p: GradientProblem, x: Tensor, weight: Tensor) -> Tensor:
    """dy . y + dresidual_out . residual_out in float64; its gradient is what the backward gives."""
    forward = p.forward
    assert p.dy is not None
    y = normalise(x, forward.residual, weight, eps=forward.eps, weight_offset=forward.weight_offset)
    total = (p.dy * y).sum()
    if p.dresidual_out is not None and forward.residual is not None:
        total = total + (p.dresidual_out * (x + forward.residual)).sum()
    return total


@pytest.mark.parametrize("offset", [0.0, 1.0])
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (4, 17)])
def test_finite_differences(shape: tuple[int, int], fused: bool, offset: float) -> None:
    p = gradient_problem(shape, Fill(seed=1), "float32", fused=fused, eps=1e-3, offset=offset)
    ds, dweight = gradients(p)
    x, weight = p.forward.x, p.forward.weight
    assert weight is not None
    # Central differences: the error is step² times a third derivative, and 1e-16 / step.
    step = 1e-5
    for row in range(shape[0]):
        for column in range(shape[1]):
            moved = torch.zeros_like(x)
            moved[row, column] = step
            slope = float(loss(p, x + moved, weight) - loss(p, x - moved, weight)) / (2.0 * step)
            assert float(ds[row, column]) == pytest.approx(slope, rel=1e-6, abs=1e-7)
    for column in range(shape[1]):
        moved = torch.zeros_like(weight)
        moved[column] = step
        slope = float(loss(p, x, weight + moved) - loss(p, x, weight - moved)) / (2.0 * step)
        assert float(dweight[column]) == pytest.approx(slope, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("offset", [0.0, 1.0])
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("shape", [(3, 1), (17, 769), (2, 40999), (4099, 3)])
def test_automatic_differentiation(shape: tuple[int, int], fused: bool, offset: float) -> None:
    p = gradient_problem(
        shape, Fill(seed=1, row_scales=(1.0, 1e-3, 1e3)), "float32", fused=fused, offset=offset
    )
    assert p.forward.weight is not None
    x, weight = p.forward.x.clone().requires_grad_(), p.forward.weight.clone().requires_grad_()
    found = torch.autograd.grad(loss(p, x, weight), [x, weight])
    for actual, right in zip(gradients(p), found, strict=True):
        assert float((actual - right).abs().max()) <= 1e-12 * float(right.abs().max())


def test_the_three_sums() -> None:
    p = gradient_problem((5, 33), Fill(seed=1), "bfloat16", fused=True)
    f = p.forward
    assert p.dresidual_out is not None
    stored, exact_sum = norm_source(f.x, f.residual, "mixed", f.residual_dtype)
    plain = {name: replace(p, forward=replace(f, x=h, residual=None), dresidual_out=None)
             for name, h in (("exact_sum", exact_sum), ("rounded_sum", stored))}  # fmt: skip
    for name, one in plain.items():
        ds, dweight = gradients(p, name)
        assert torch.equal(ds, gradients(one)[0] + p.dresidual_out)
        assert torch.equal(dweight, gradients(one)[1])
    rrms = (exact_sum.square().mean(-1, keepdim=True) + f.eps).rsqrt()
    assert p.dy is not None
    assert torch.allclose(gradients(p, "mixed")[1], (p.dy * stored * rrms).sum(0), rtol=1e-13)
    with pytest.raises(ValueError, match="should be one of exact_sum"):
        gradients(p, "sum")


def test_what_does_not_arrive_counts_as_zero() -> None:
    p = gradient_problem((5, 33), Fill(seed=1), "float32", fused=True)
    norm, dweight = gradients(replace(p, dresidual_out=None))
    added, nothing = gradients(replace(p, dy=None))
    assert torch.equal(added, p.dresidual_out)
    assert (nothing == 0).all()
    both = gradients(p)
    assert torch.equal(both[0], norm + added)
    assert torch.equal(both[1], dweight)
    assert (gradients(replace(p, dy=None, dresidual_out=None))[0] == 0).all()


def test_no_rows_and_no_weight() -> None:
    forward = problem((0, 7), Fill(), "float16", fused=False)
    empty = torch.zeros(0, 7, dtype=torch.float64)
    ds, dweight = gradients(GradientProblem(forward, empty, None, "float16", "", "float16"))
    assert ds.shape == (0, 7)
    assert torch.equal(dweight, torch.zeros(7, dtype=torch.float64))
    x = tensor(Fill(seed=1), (3, 7), "float32")
    bare = GradientProblem(
        Problem(x, None, None, 1e-6, 0.0, "float32", "", "", "float32"), x, None, "float32", "", ""
    )
    weighted = replace(bare.forward, weight=torch.ones(7, dtype=torch.float64), weight_dtype="float32")
    ones = replace(bare, forward=weighted, dweight_dtype="float32")
    assert torch.equal(gradients(bare)[0], gradients(ones)[0])
