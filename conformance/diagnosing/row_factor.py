"""Is a wrong y right but for one factor in each row? Then its statistic is wrong, and the factors say how.

Every element y of a row bounds the factor g with which the right value c must be multiplied to round to y: (y
- half ulp) / c <= g <= (y + half ulp) / c. If the bounds of a whole row leave room for one g, and so in every
row, then g * rrms is the statistic that was used. Its inverse square is compared with mean square + eps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from conformance.diagnosing.candidate import Rows
from conformance.diagnosing.candidates.precision import sequential
from conformance.numerics.conventions import Problem
from conformance.numerics.intervals import bound
from conformance.numerics.rounding import nearest, ulp

_FEWEST_COLUMNS = 8  # fewer elements always leave room for a factor
_MOST_ELEMENTS = 1 << 21  # of the tensor: more rows say nothing new
_SLOW_ELEMENTS = 1 << 14  # for the column by column sum
_CHANCE = 1e-6
_RARE = 1e-2
_MOST_NAMED_ROWS = 64  # wrong rows of which each may have another one's statistic
_ROOM = 32.0 * 2.0**-24

Match = tuple[str, str, str]


@dataclass(frozen=True)
class Factors:
    """Bounds of the factor of each row, and the right statistic that they multiply; every field is (rows, 1).

    usable: rows whose y is finite and whose elements are enough to tell. A row with low > high is more than a
    factor off.
    """

    low: Tensor
    high: Tensor
    usable: Tensor
    rrms: Tensor
    mean: Tensor

    @property
    def possible(self) -> bool:
        """Whether every usable row leaves room for a factor; products with it are rounded in fp32 as well."""
        return bool((~self.usable | (self.low <= self.high + _ROOM * self.high.abs())).all())

    def allow(self, rrms: Tensor, relative: Tensor | float) -> bool:
        """Whether y may have come from this rrms (rows, 1), within the relative error, in every usable
        row."""
        factor = rrms / self.rrms
        room = (2.0 * relative + 1e-6) * factor.abs()
        return bool((~self.usable | ((self.low - room <= factor) & (factor <= self.high + room))).all())


def factors(rows: Rows, source: int, two: bool) -> Factors:
    """The factors of `rows` against the right formula of norm_input number `source`, for one or two
    roundings."""
    p = rows.all_rows
    numerator, squares = rows.squares[source]
    mean = squares.mean(-1, keepdim=True)
    rrms = 1.0 / (mean + rows.eps).sqrt()
    x_hat = numerator * rrms
    centre = x_hat if rows.weight is None else x_hat * rows.weight
    half = 0.5 * ulp(rows.y, p.y_dtype)
    if two:
        # The factor may carry x_hat into the next binade, where an ulp is twice as large.
        first = ulp(x_hat, p.x_dtype)
        half = half + (first if rows.weight is None else first * rows.weight.abs())
    used = (centre != 0) & centre.isfinite()
    usable = rows.y.isfinite().all(-1, keepdim=True) & (used.sum(-1, keepdim=True) >= _FEWEST_COLUMNS // 2)
    size = torch.where(used, centre.abs(), 1.0)
    towards = rows.y * centre.sign()
    low = torch.where(used, (towards - half) / size, -torch.inf).amax(-1, keepdim=True)
    high = torch.where(used, (towards + half) / size, torch.inf).amin(-1, keepdim=True)
    return Factors(low, high, usable, rrms, mean)


def row_factors(problem: Problem, y: Tensor, judged: Tensor) -> tuple[list[Match], tuple[str, ...]]:
    """Matches of wrong statistics, and sentences about them; both empty where a row is more than a factor
    off."""
    if problem.hidden_size < _FEWEST_COLUMNS:
        return [], ()
    index = judged.nonzero()[:, 0][: max(1, _MOST_ELEMENTS // problem.hidden_size)]
    rows = Rows(problem, y, index)
    for two in (False, True):
        for source in range(len(rows.squares)):
            found = factors(rows, source, two)
            if found.possible and bool(found.usable.all()):
                low, high = torch.minimum(found.low, found.high), torch.maximum(found.low, found.high)
                wider = replace(found, low=low - _ROOM * low.abs(), high=high + _ROOM * high.abs())
                return _read(rows, source, wider)
    return [], ()


def _read(rows: Rows, source: int, found: Factors) -> tuple[list[Match], tuple[str, ...]]:
    """What the factors say."""
    smallest, largest = float(found.low.max()), float(found.high.min())
    if smallest <= largest and not smallest <= 1.0 <= largest:
        factor = (smallest + largest) / 2.0
        return [("scaled", "ACCURACY-GAIN", f"every row is right but for the factor {factor:.6g}")], ()
    off = found.usable & ((found.low > 1.0) | (found.high < 1.0))
    middle = ((found.low + found.high) / 2.0)[off]
    if not len(middle) or not bool((middle > 0.0).all()):
        return [], ()  # rows of zeros are described well enough as such
    told = (
        "each wrong row is right but for one factor of its own, "
        f"from {float(middle.min()):.6g} to {float(middle.max()):.6g}: its statistic is wrong",
    )
    for attempt in (
        _line(rows, found),
        _of_other_rows(rows, source, found),
        _slow(rows, source, found),
        _stored(rows, found),
    ):
        if attempt is not None:
            return [attempt], told
    if float((middle - 1.0).abs().max()) < 2.0**-5:
        sentence = "the statistic of a row is inaccurate: more than fp32 arithmetic allows"
        return [("statistic_inaccurate", "ACCURACY-RRMS", sentence)], told
    return [], told


def _of_other_rows(rows: Rows, source: int, found: Factors) -> Match | None:
    """Every wrong row scaled by the statistic of another one, which no other row comes near."""
    off = (found.usable & ((found.low > 1.0) | (found.high < 1.0)))[:, 0].nonzero()[:, 0]
    if not 0 < len(off) <= _MOST_NAMED_ROWS or rows.all_rows.n_rows < 2:
        return None
    mean = rows.totals_of_all[source] / rows.hidden_size
    every = (1.0 / (mean + rows.eps).sqrt())[:, 0]
    low, high = (found.low * found.rrms)[off], (found.high * found.rrms)[off]
    fits = (low <= every) & (every <= high)  # (wrong rows, every row)
    if not bool((fits.sum(-1) == 1).all()):
        return None
    # So narrow, and yet met by a row: by chance that happens once in as many tries as would cover the range.
    spread = (every.max() - every.min()).clamp_min(1e-300)
    if float(((high - low)[:, 0] / spread).clamp(1e-9, 1.0).log().sum()) > math.log(_RARE):
        return None
    pairs = [(int(rows.index[r]), int(f.nonzero()[0, 0])) for r, f in zip(off, fits, strict=True)]
    shown = ", ".join(f"row {a} has row {b}'s scale" for a, b in pairs[:4])
    return "scale_of_other_rows", "FORMULA-ROWS", shown + (", ..." if len(pairs) > 4 else "")


def _line(rows: Rows, found: Factors) -> Match | None:
    """Another eps, or another divisor: the inverse square is a line over the mean square."""
    if len(rows.index) < 3 or not bool((found.low > 0).all()):
        return None
    low, high = (found.high * found.rrms) ** -2, (found.low * found.rrms) ** -2
    spread = 2.0 * bound(rows.hidden_size) * found.mean
    below, above = float((low - found.mean - spread).max()), float((high - found.mean + spread).min())
    if below <= above:
        sentence = f"eps acts as about {(below + above) / 2.0:.3g}, but should be {rows.eps:g}"
        return "eps_other", "FORMULA-EPS-HONOURED", sentence
    if not bool((found.mean > 0).all()):
        return None
    below, above = float(((low - rows.eps) / found.mean).max()), float(((high - rows.eps) / found.mean).min())
    if below <= above:
        divisor = rows.hidden_size / ((below + above) / 2.0)
        sentence = (
            f"the sum of squares is divided by about {divisor:.6g}, but should be by {rows.hidden_size}"
        )
        return "divisor_other", "FORMULA-DIVISOR", sentence
    return None


def _stored(rows: Rows, found: Factors) -> Match | None:
    """A statistic that is a 16-bit number in every row, more often than chance would have it."""
    low, high = found.low * found.rrms, found.high * found.rrms
    if not bool((low > 0).all()):
        return None
    for dtype in ("bfloat16", "float16"):
        for name, requirement, text, ends in (
            ("rrms", "ACCURACY-RRMS", "the reciprocal root", (low, high)),
            ("total", "ACCURACY-SUM", "the sum of squares", _totals(rows, low, high)),
        ):
            middle = (ends[0] + ends[1]) / 2.0
            stored = nearest(middle, dtype)
            hit = (ends[0] <= stored) & (stored <= ends[1])
            chance = ((ends[1] - ends[0]) / ulp(middle, dtype)).clamp(0.0, 1.0).log().sum()
            if bool(hit.all()) and float(chance) < torch.tensor(_CHANCE).log():
                return f"{name}_in_{dtype}", requirement, f"{text} is kept in {dtype}"
    return None


def _totals(rows: Rows, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    return (high**-2 - rows.eps) * rows.hidden_size, (low**-2 - rows.eps) * rows.hidden_size


def _slow(rows: Rows, source: int, found: Factors) -> Match | None:
    """Squares added up one by one in 16 bits."""
    squares = rows.squares[source][1][: max(1, _SLOW_ELEMENTS // rows.hidden_size)]
    if squares.shape[1] > _SLOW_ELEMENTS:
        return None
    n, p = len(squares), rows.all_rows
    half = ("bfloat16", "float16")
    used = [d for d in half if d in (p.x_dtype, p.residual_dtype, p.weight_dtype, p.y_dtype)]
    for dtype in used or half:  # it is slow: where a tensor has 16 bits, the other kind is not tried
        for kept in (nearest(squares, dtype), squares):
            total = sequential(kept, dtype)
            factor = 1.0 / (total / rows.hidden_size + rows.eps).sqrt() / found.rrms[:n]
            if bool(((found.low[:n] <= factor) & (factor <= found.high[:n])).all()):
                sentence = f"squares are added up one after the other in {dtype}"
                return f"sum_in_order_in_{dtype}", "ACCURACY-SUM", sentence
    return None
