"""Right kernels of many kinds stay within the allowed error, up to its edge, and the share says how near."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from conformance import variants
from conformance.model import Fill, Verdict
from conformance.numerics.accuracy import Problem, bound, explain, interval
from conformance.numerics.conventions import conventions
from conformance.numerics.inputs import make
from conformance.numerics.intervals import U, statistic
from conformance.numerics.repeats import FEW, repeats
from conformance.numerics.rounding import store
from conformance.score import Score, Share, largest_shares, table
from conformance.seen import to_float64
from conformance.variants import _sums

DTYPES = ("float32", "float16", "bfloat16")
WIDEST = 40999
EPS = 1e-6


def values(fill: Fill, shape: tuple[int, int], dtype: str) -> Tensor:
    """A fill as float64."""
    return to_float64(make(fill, shape, dtype), dtype, "cpu")


def problem(x: Tensor, dtype: str, weight: Tensor | None = None) -> Problem:
    """A plain norm of x, all in one dtype."""
    return Problem(x, None, weight, EPS, 0.0, dtype, "", dtype if weight is not None else "", dtype)


def sequential(terms: np.ndarray) -> np.ndarray:
    """numpy's running sum of fp32 adds term by term."""
    return np.add.accumulate(terms, axis=-1, dtype=np.float32)[..., -1:]


def in_lanes(terms: np.ndarray) -> np.ndarray:
    """Four lanes, then these one by one."""
    padded = np.pad(terms, ((0, 0), (0, -terms.shape[-1] % 4))).reshape(len(terms), -1, 4)
    return sequential(np.add.accumulate(padded, axis=1, dtype=np.float32)[:, -1])


SUMS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "sequential": sequential,
    "reversed": lambda terms: sequential(terms[:, ::-1]),
    "lanes": in_lanes,
}


def normed(x: Tensor, add: Callable[[np.ndarray], np.ndarray]) -> Tensor:
    """x * rrms in fp32, with this sum of squares; float64 of the fp32 results."""
    h = x.float()
    total = torch.from_numpy(add(h.square().numpy()))
    return (h * (total / h.shape[-1] + EPS).rsqrt()).double()


def rows(kind: str, width: int, dtype: str) -> Tensor:
    """Three rows whose sums of squares are hard to add up, float64 values of `dtype`."""
    if kind == "constant":
        scales = (1.1, 1.2246, 1.9)
        return torch.cat([values(Fill(kind="constant", scale=float(s)), (1, width), dtype) for s in scales])
    x = values(Fill(kind="bell", seed=1), (3, width), dtype)
    if kind == "largest first":
        return x.gather(-1, x.abs().argsort(-1, descending=True))
    if kind == "two values":
        return torch.where(x > 0, torch.ones_like(x), torch.full_like(x, 1.375))
    if kind == "one huge":
        x = rows("constant", width, dtype)
        x[:, 0] = 2.0**12 - 2.0**8
        return x
    return x


@pytest.mark.parametrize("order", SUMS)
@pytest.mark.parametrize("kind", ["constant", "largest first", "two values", "one huge", "random"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_any_order_of_a_right_sum_is_explained(dtype: str, kind: str, order: str) -> None:
    """Up to the widest case, one after the other, on rows where all roundings go to one side."""
    for width in (65, WIDEST):
        x = rows(kind, width, dtype)
        y = store(normed(x, SUMS[order]), dtype).double()
        found = explain(problem(x, dtype), y)
        assert found.explained, (width, found.worst)
        assert found.share <= 1.0


def test_the_edge_is_reached() -> None:
    """A sequential sum of rows with one huge square first needs most of what is allowed, and more than B."""
    x = rows("one huge", WIDEST, "float32")
    found = explain(problem(x, "float32"), normed(x, sequential))
    assert found.share > 0.85
    relative = statistic(x, EPS, fused=False).relative
    assert float(relative.min()) > 5.0 * bound(WIDEST)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_of_different_squares_are_allowed_no_more(dtype: str) -> None:
    """The term for squares that are alike is 0 in random rows, and where n - 1 roundings are within B."""
    for width in (FEW, 257, 4096, WIDEST):
        for fill in (
            Fill(kind="bell", seed=1),
            Fill(kind="bell", seed=2, mean=3.0),
            Fill(kind="uniform", seed=3),
        ):
            assert not repeats(values(fill, (8, width), dtype).square()).any()
    assert not repeats(rows("constant", FEW, dtype).square()).any()


def test_the_term_of_equal_squares_is_what_the_proof_says() -> None:
    """At most 3/8 n u of the sum, at least what a sequential sum is off by, and no more than the terms."""
    for width in (65, 1000, WIDEST):
        squares = rows("constant", width, "float32").square()
        total = squares.sum(-1, keepdim=True)
        allowed = repeats(squares) / total
        assert float(allowed.max()) <= 0.376 * width * U + 4.0 / width
        rounded = squares.float()
        off = torch.from_numpy(sequential(rounded.numpy())).double() - rounded.double().sum(-1, keepdim=True)
        assert bool((off.abs() / total <= allowed + width * width * U * U).all())
    spread = torch.ones(1, 1000, dtype=torch.float64)
    spread[0, 0] = 2.0**40
    assert float(repeats(spread)[0, 0]) <= 2.0**40 * U + 999.0
    spread[0, 0] = torch.inf
    assert float(repeats(spread)[0, 0]) == 0.0


@pytest.mark.parametrize("rounds_x_hat", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_share_is_one_at_the_edge(dtype: str, rounds_x_hat: bool) -> None:
    """The last values inside have a share of at most 1, some of nearly 1 in fp32; one step out is above 1."""
    if rounds_x_hat and dtype == "float32":
        return  # one convention in fp32
    x = values(Fill(kind="bell", seed=4), (2, 4099), dtype)
    asked = problem(x, dtype, values(Fill(kind="bell", seed=5), (1, 4099), dtype)[0])
    convention = next(c for c in conventions(False) if c.rounds_x_hat == rounds_x_hat and not c.truncating)
    for end, out in zip(interval(asked, convention), (-torch.inf, torch.inf), strict=True):
        inside = explain(asked, end)
        assert inside.best == convention
        assert 0.9 < inside.share <= 1.0 if dtype == "float32" else 0.0 < inside.share <= 1.0
        beyond = torch.nextafter(end.to(getattr(torch, dtype)), torch.tensor(out).to(getattr(torch, dtype)))
        one_out = end.clone()
        one_out[0] = beyond[0].double()
        assert explain(asked, one_out).share > 1.0


def test_a_wrong_output_has_a_share_above_one_and_a_correct_rounding_none() -> None:
    """The oracle itself, rounded, needs nothing; a per cent too much is far outside."""
    x = values(Fill(kind="bell", seed=6), (4, 300), "bfloat16")
    exact = x / (x.square().mean(-1, keepdim=True) + EPS).sqrt()
    right = explain(problem(x, "bfloat16"), store(exact, "bfloat16").double())
    assert right.explained
    assert right.share == 0.0
    assert explain(problem(x, "bfloat16"), store(exact * 1.01, "bfloat16").double()).share > 10.0


def test_a_flushed_subnormal_uses_nothing() -> None:
    """What the special values excuse has no share, though it is far from the oracle."""
    x = torch.full((1, 8), 2.0**-130, dtype=torch.float64)
    x[0, 0] = 1.0
    right = normed(x, sequential)
    right[0, 1:] = 0.0
    found = explain(problem(x, "float32"), right)
    assert found.explained
    assert found.share <= 1.0


@pytest.mark.parametrize("name", ["one_by_one", "compensated", "four_lanes", "tree"])
def test_an_order_of_summation_is_what_it_says(name: str) -> None:
    """Sums of small integers are exact in any order; of many 0.1 only the compensated one stays exact."""
    order = {
        "one_by_one": _sums.one_by_one,
        "compensated": _sums.compensated,
        "four_lanes": lambda terms: _sums.tree(_sums.strided(terms, 4)),
        "tree": lambda terms: _sums.tree(torch.nn.functional.pad(terms, (0, 2048 - terms.shape[-1]))),
    }[name]
    whole = torch.arange(3 * 1001, dtype=torch.float32).reshape(3, 1001) % 17
    assert torch.equal(order(whole), whole.sum(-1, keepdim=True))
    tenths = torch.full((1, 2000), 0.1)
    exact = torch.tensor([[2000 * float(torch.tensor(0.1))]])
    if name == "one_by_one":
        assert torch.equal(order(tenths), torch.from_numpy(sequential(tenths.numpy())))
    if name == "compensated":
        assert torch.equal(order(tenths), exact)
    assert order(torch.zeros(0, 7)).shape == (0, 1)


def test_a_compensated_sum_keeps_an_infinity() -> None:
    """Kahan's correction is Inf - Inf there, which must not reach the sum."""
    assert float(_sums.compensated(torch.tensor([[1.0, torch.inf, 2.0]]))[0, 0]) == torch.inf


def test_there_are_variants_of_each_family() -> None:
    """At least 60 in all, each a file of its own; helpers are private."""
    names = variants.names()
    assert len(names) >= 60
    assert "_sums" not in names
    families = ("sum", "triton", "refuses", "dweight", "in_place", "rsqrt", "module", "rounding", "out_")
    for family in families:
        assert any(family in name for name in names), family


def test_the_score_tells_the_largest_share_of_each_output() -> None:
    """With the run that has it, in the order of the outputs; runs without a number do not count."""
    blank = Verdict("variant:one", "a[1]", "a", "none", {"x": "float32"}, "pass")
    first = replace(blank, stats={"y_share": 0.25, "dweight_share": 0.5})
    second = replace(blank, run="a[2]", stats={"y_share": 0.75, "bias": 3.0})
    shares = largest_shares([blank, first, second])
    assert shares == (Share("y", 0.75, "a[2]"), Share("dweight", 0.5, "a[1]"))
    told = table([Score("variant:one", "", 3, 0, (), 0, "", (), 1.0, shares=shares)])
    assert "variant:one: y used 0.750 of what is allowed, in a[2]" in told
