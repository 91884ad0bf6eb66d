"""Properties of the values: weight, row norms, eps, magnitudes, zeros, what is not finite, the residual."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from conformance.adequacy.fills import (
    SUMMED,
    bell_like,
    centre,
    has_nonfinite,
    has_zero,
    lowest,
    mean_squares,
    one_value,
    scaled,
    scaled_to,
    spread,
    with_fill,
    with_rows,
)
from conformance.adequacy.property import Property
from conformance.model import Fill, Run

ROW_SCALES = (1.0, 0.05, 20.0, 0.4)
"""Rows of unlike scale, as in cases/core.yaml."""

FAR = 100.0
"""Times eps: a mean square beyond this makes eps a correction of half a percent or less of y."""

_SEEDS = {"x": 1, "residual": 2, "weight": 3}


# --- weight ----------------------------------------------------------------------------------------------


def _weight_is(run: Run, unit: bool) -> bool:
    fill = run.fills.get("weight")
    value = None if fill is None else one_value(fill)
    return fill is None or (value is not None and (value == 1.0) is unit)


def _varied(run: Run) -> Iterator[Run]:
    if "weight" in run.fills:
        yield replace(run, fills={**run.fills, "weight": Fill("bell", _SEEDS["weight"])})


def _no_zero_weight(run: Run) -> bool:
    return "weight" not in run.fills or not has_zero(run.fills["weight"])


def _zero_weights(run: Run) -> Iterator[Run]:
    if "weight" in run.fills:
        yield with_fill(run, "weight", zero_every=3)


_WEIGHTED = (
    "FORMULA-WEIGHT",
    "DX-WEIGHT",
    "DWEIGHT-XHAT",
    "GRADMODE-OUTPUTS",
    "FORMULA-NO-BIAS",
    "DTYPE-MIXED",
)

WEIGHT = (
    Property(
        "unit weights",
        "every weight is 1, so a kernel that ignores the weight, or reads it at the wrong column, passes",
        "leave `weight` out: it is then a signed bell",
        lambda run: _weight_is(run, unit=True), _varied, _WEIGHTED,
    ),
    Property(
        "equal weights",
        "all weights are one number, so a kernel that reads the weight at the wrong column passes",
        "leave `weight` out: it is then a signed bell",
        lambda run: _weight_is(run, unit=False), _varied, _WEIGHTED,
    ),
    Property(
        "no negative weight",
        "no weight is negative, so a kernel that loses its sign passes",
        "leave `weight` out: it is then a signed bell",
        lambda run: "weight" not in run.fills or lowest(run.fills["weight"]) >= 0.0, _varied,
        ("FORMULA-WEIGHT", "DWEIGHT-"), ("unit weights", "equal weights"),
    ),
    Property(
        "no zero weight",
        "no weight is 0, so a kernel that divides by the weight, or takes 0 for a missing one, passes",
        "`weight: {zero_every: 3}`",
        _no_zero_weight, _zero_weights, ("FORMULA-WEIGHT", "DWEIGHT-ZERO-WEIGHTS"),
        ("unit weights", "equal weights"),
    ),
    Property(
        "no weight_offset",
        "weight_offset is never passed, so a kernel that forgets it in one of its places passes",
        "`weight_offset: 1.0`, for calls that have such a parameter",
        lambda run: run.weight_offset is None,
        lambda run: [replace(run, weight_offset=1.0)] if "weight" in run.fills else [],
        ("DX-WEIGHT", "FORMULA-WEIGHT-OFFSET"), ("unit weights", "equal weights"),
    ),
)  # fmt: skip


# --- rows ------------------------------------------------------------------------------------------------


def _one_x(run: Run) -> bool:
    return one_value(run.fills["x"]) is not None


def _bell_x(run: Run) -> Iterator[Run]:
    fills = {t: bell_like(f, _SEEDS[t]) if t in SUMMED else f for t, f in run.fills.items()}
    yield replace(run, fills=fills)


def _equal_norms(run: Run) -> bool:
    return run.n_rows < 2 or spread(mean_squares(run)) < 4.0


def _unlike_rows(run: Run) -> Iterator[Run]:
    if run.n_rows > 1:
        yield with_rows(run, row_scales=ROW_SCALES)


def _last_column(run: Run) -> Iterator[Run]:
    size = max(mean_squares(run), default=0.0) ** 0.5
    if size > 0.0:
        yield with_fill(run, "x", last_column=20.0 * size)


def _zero_row(run: Run) -> Iterator[Run]:
    if run.n_rows:
        yield with_rows(run, zero_rows=(run.n_rows - 1,))
        yield with_rows(run, kind="zeros", mean=0.0, last_column=None, put=())


def _nonfinite(run: Run) -> Iterator[Run]:
    if run.n_rows:
        middle = run.hidden_size // 2
        for value in ("nan", "inf"):
            yield with_fill(run, "x", put=((0, middle, value),))


ROWS = (
    Property(
        "constant x",
        "x is one number in all of a row, so a kernel that reads the wrong columns, or leaves some out of a "
        "mean, passes",
        "`x: {kind: bell}`, the default",
        _one_x, _bell_x,
        ("TAIL-", "FORMULA-", "DX-", "DWEIGHT-", "DRESIDUAL-", "ACCURACY-", "RESIDUAL-", "STRIDE-", "ALIGN-",
         "INVARIANCE-", "GRADMODE-", "RRMS-"),
        ("unit weights", "equal weights", "equal row norms", "far from eps"),
    ),
    Property(
        "equal row norms",
        "the rows of a run have nearly one norm, so a kernel that uses the statistic of another row passes",
        "`x: {row_scales: [1.0, 0.05, 20.0, 0.4]}`",
        _equal_norms, _unlike_rows,
        ("FORMULA-ROWS", "DX-ROWS", "DX-RRMS", "TAIL-COLUMNS", "DWEIGHT-", "ACCURACY-", "STRIDE-", "RANGE-",
         "INVARIANCE-", "GRADMODE-GRAPHS"),
    ),
    Property(
        "last column like the others",
        "the last column holds no more than any other, so a kernel that drops it hides behind the rounding",
        "`x: {last_column: 20.0}`",
        lambda run: run.fills["x"].last_column is None, _last_column, ("TAIL-", "FORMULA-DIVISOR"),
        ("constant x", "no odd width", "no wide row"),
    ),
    Property(
        "no mean in x",
        "x has mean 0, so a kernel that subtracts the mean passes",
        "`x: {mean: 3.0}`",
        lambda run: centre(run.fills["x"]) == 0.0,
        lambda run: [with_fill(run, "x", mean=3.0 * (abs(run.fills["x"].scale) or 1.0))],
        ("FORMULA-NO-MEAN", "DX-PROJECTION"),
    ),
    Property(
        "no zeros in x",
        "no element of x is 0, so a kernel that counts only what is not 0 passes",
        "`x: {zero_every: 3}`, and the same for the residual",
        lambda run: not has_zero(run.fills["x"]), lambda run: [with_rows(run, zero_every=3)],
        ("FORMULA-DIVISOR",),
    ),
    Property(
        "no zero row",
        "no row is 0, so a kernel that divides by its norm, or returns early, passes",
        "`x: {zero_rows: [0]}`, and the same for the residual",
        lambda run: 0.0 not in mean_squares(run), _zero_row,
        ("SPECIAL-ZERO-ROW", "OUTPUT-ALIAS", "FORMULA-NO-BIAS"),
    ),
    Property(
        "no NaN and no Inf",
        "every input is finite, so a kernel that loses a NaN, or spreads it to other rows, passes",
        '`x: {put: [[0, 5, "nan"]]}`',
        lambda run: not has_nonfinite(run.fills["x"]), _nonfinite, ("SPECIAL-NONFINITE",),
    ),
)  # fmt: skip


# --- magnitudes ------------------------------------------------------------------------------------------


def _far(run: Run) -> bool:
    return run.eps is None or all(ms > FAR * run.eps for ms in mean_squares(run))


def _near(run: Run) -> Iterator[Run | None]:
    if run.eps is not None and run.eps > 0.0:
        yield scaled_to(run, run.eps)
        largest = max(mean_squares(run), default=0.0)
        if 0.0 < largest <= 1e4:
            yield replace(run, eps=largest)


def _other_eps(run: Run) -> Iterator[Run]:
    if run.eps is not None:
        yield replace(run, eps=run.eps * 16.0)


def _eps_left_out(run: Run) -> Iterator[Run | None]:
    yield replace(run, eps=None)
    small = scaled_to(run, 1e-5)
    yield None if small is None else replace(small, eps=None)


def _near_one(run: Run) -> bool:
    return all(0.8 < ms < 1.25 for ms in mean_squares(run))


def _roots(run: Run) -> list[float]:
    return [ms**0.5 for ms in mean_squares(run) if ms > 0.0]


def _small(run: Run) -> Iterator[Run | None]:
    made = scaled_to(run, 4e-12 if run.dtypes["x"] != "float16" else 1e-6)
    yield None if made is None else replace(made, eps=1e-12)


def _large(run: Run) -> Iterator[Run | None]:
    yield scaled_to(run, 1e6 if run.dtypes["x"] == "float16" else 1e30)


MAGNITUDES = (
    Property(
        "far from eps",
        "every mean square is far above eps, so a kernel that forgets eps, or adds it in the wrong "
        "place, passes",
        "`x: {scale: 1.0e-3}` with `eps: 1.0e-6`, and other pairs where the square of the scale is eps",
        _far, _near, ("FORMULA-EPS", "DX-RRMS"),
    ),
    Property(
        "one eps",
        "every run passes the same eps, so a kernel that has this number built in passes",
        "`matrix: {eps: [1.0e-3, 1.0e-6]}`, with a mean square near it",
        lambda run: True, _other_eps, ("FORMULA-EPS", "DX-RRMS"), ("far from eps",),
        over_all=lambda runs: len({run.eps for run in runs}) < 2,
    ),
    Property(
        "eps never left out",
        "eps is always passed, so a kernel with an odd default passes",
        "`eps: omitted`, with rows so small that the default shows",
        lambda run: run.eps is not None, _eps_left_out, ("FORMULA-EPS-DEFAULT", "DX-RRMS"),
    ),
    Property(
        "mean square near 1",
        "the norm of a row is already what it is to become, so a kernel that does next to nothing passes",
        "`x: {scale: 3.0}`",
        _near_one, lambda run: [scaled(run, 3.0)],
        ("FORMULA-ROOT", "DX-RRMS", "DWEIGHT-XHAT", "RESIDUAL-WRITTEN", "INPUTS-UNCHANGED", "DX-PROJECTION"),
    ),
    Property(
        "no large values",
        "no value is large for its dtype, so a kernel whose squares overflow, or which clamps, passes",
        "`x: {scale: {float16: 1000.0, bfloat16: 1.0e+15, float32: 1.0e+15}}`",
        lambda run: max(_roots(run), default=0.0) < (200.0 if run.dtypes["x"] == "float16" else 1e6), _large,
        ("RANGE-LARGE", "ACCURACY-"),
    ),
    Property(
        "no small values",
        "no value is small for its dtype, so a kernel whose squares vanish passes",
        "`x: {scale: 1.0e-3}` in float16 and `x: {scale: 2.0e-6}` elsewhere, with `eps: 1.0e-12`",
        lambda run: run.eps is None or run.eps > 1e-10 or min(_roots(run), default=1.0) > 2e-3, _small,
        ("RANGE-SMALL", "FORMULA-EPS-HONOURED"), ("far from eps", "one eps"),
    ),
)  # fmt: skip


# --- residual --------------------------------------------------------------------------------------------


def _zero_residual(run: Run) -> bool:
    fill = run.fills.get("residual")
    return fill is None or one_value(fill) == 0.0


def _some_residual(run: Run) -> Iterator[Run]:
    if "residual" in run.fills:
        size = max(mean_squares(run), default=0.0) ** 0.5 or 1.0
        fill = bell_like(run.fills["residual"], _SEEDS["residual"], 2.4 * size)
        yield replace(run, fills={**run.fills, "residual": fill})


RESIDUAL = (
    Property(
        "zero residual",
        "the residual is 0, so a kernel that forgets to add it, or adds it twice, passes",
        "leave `residual` out: it is then a bell, 2.4 times x",
        _zero_residual, _some_residual,
        ("RESIDUAL-", "DRESIDUAL-", "FORMULA-", "STRIDE-RESIDUAL", "ACCURACY-"),
    ),
)  # fmt: skip
