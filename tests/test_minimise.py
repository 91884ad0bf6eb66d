"""Minimising, without an implementation: where the search ends up, and what it writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from small_runs import run, training

from conformance import load
from conformance.loading.case_file import read_case_file
from conformance.loading.expand import expand
from conformance.minimise.fills import complexity, fair, plainer
from conformance.minimise.shrink import Shrinking, shrink
from conformance.minimise.simpler import question
from conformance.minimise.sizes import FIRST_WIDTHS, resized, smallest
from conformance.minimise.told import changes, facts
from conformance.minimise.write import case_text
from conformance.model import Fill, Finding, Run, Verdict

REQUIREMENTS = load.requirements()
Wrong = Callable[[Run], bool]


def verdict(asked: Run, requirement: str) -> Verdict:
    """What a judge would say: a failure of one requirement, or a pass for ""."""
    findings = (Finding("guards", requirement, "fail", "it is wrong"),) if requirement else ()
    outcome = "fail" if requirement else "pass"
    return Verdict("made up", asked.id, asked.case, asked.mode, asked.dtypes, outcome, findings)


def shrunk(original: Run, wrong: Wrong, *, other: Wrong = lambda r: False, limit: float = 60.0) -> Shrinking:
    """Shrink for an implementation that fails STRIDE-X where `wrong`, and MEM-WRITE where `other`."""

    def ask(asked: Run) -> Verdict:
        return verdict(asked, "MEM-WRITE" if other(asked) else "STRIDE-X" if wrong(asked) else "")

    return shrink(original, ask(original), ask, REQUIREMENTS, limit=limit)


def smallest_of(original: Run, wrong: Wrong, **rest: Wrong) -> Run:
    found = shrunk(original, wrong, **rest)
    assert found.finished
    return found.failing[-1][0]


RICH = training(
    4097, 5, "residual", shape=(5, 7, 4097), eps=1e-3, scenario="retained",
    dtypes={"x": "bfloat16", "residual": "float32", "weight": "float32"},
    layouts={"x": "row_slice", "weight": "odd_base", "dy": "column_step"}, weight_offset=1.0,
)  # fmt: skip
"""A run with much to lose."""


# --- sizes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("boundary", [1, 2, 5, 64, 65, 1000, 1025, 8193, 40000])
def test_the_smallest_size_is_found_where_failing_is_monotone(boundary: int) -> None:
    """Exactly, and with few questions."""
    asked: list[int] = []

    def fails(size: int) -> bool:
        asked.append(size)
        return size >= boundary

    assert smallest(40000, FIRST_WIDTHS, fails) == boundary
    assert len(asked) == len(set(asked)) <= 30


@pytest.mark.parametrize(("wrong", "least"), [(lambda n: n % 8 != 0, 1), (lambda n: n > 100 and n % 2, 101)])
def test_a_size_that_is_wrong_now_and_then(wrong: Callable[[int], bool], least: int) -> None:
    """What is found fails; for odd sizes past a boundary it need not be the least."""
    found = smallest(1001, FIRST_WIDTHS, wrong)
    assert wrong(found)
    assert least <= found <= 257


def test_every_size_at_once() -> None:
    """Rows, width and leading dimensions go to what the failure needs, and no further."""
    found = smallest_of(run(5000, 70000), lambda r: r.n_rows > 32768 and r.hidden_size >= 3)
    assert found.shape == (32769, 3)
    assert smallest_of(RICH, lambda r: len(r.shape) == 3).shape == (1, 1, 1)
    assert smallest_of(replace(run(), shape=(32,)), lambda r: True).shape == (1, 1)
    assert smallest_of(run(257, 0), lambda r: r.n_rows == 0).shape == (0, 1)


def test_elements_that_are_set_stay_inside_a_smaller_tensor() -> None:
    """A NaN in the last row and column is in the only one of a run of one element."""
    fill = Fill(zero_rows=(4, 2), put=((3, 7, "nan"), (-4, -8, 1.0)), row_scales=(1.0, 2.0, 3.0))
    small = resized(resized(run(8, 5, fills={"x": fill, "weight": Fill(put=((0, 7, 2.0),))}), 0, 2), 1, 2)
    assert small.fills["x"] == Fill(zero_rows=(1,), put=((1, 1, "nan"), (-2, -2, 1.0)), row_scales=(1.0, 2.0))
    assert small.fills["weight"].put == ((0, 1, 2.0),)
    found = smallest_of(
        run(64, 5, fills={"x": Fill(put=((4, 63, "nan"),)), "weight": Fill()}),
        lambda r: bool(r.fills["x"].put),
    )
    assert found.shape == (1, 1)
    assert found.fills["x"] == Fill("zeros", put=((0, 0, "nan"),))


# --- features ------------------------------------------------------------------------------------------


def test_a_failure_that_needs_nothing_loses_everything() -> None:
    """What is left is a forward run of one element; the mode and the dtype of x stay."""
    found = smallest_of(RICH, lambda r: True)
    plain = run(1, 1, "residual", "bfloat16")
    zeros = {"x": Fill("zeros", 1), "residual": Fill("zeros", 2), "weight": Fill("zeros", 3)}
    assert question(found) == question(replace(plain, eps=1e-6, fills=zeros, requirements=("STRIDE-X",)))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda r: r.layouts.get("x") == "row_slice",
        lambda r: r.layouts.get("dy") == "column_step",
        lambda r: len(r.shape) == 3,
        lambda r: r.dtypes["weight"] != r.dtypes["x"],
        lambda r: r.scenario == "retained",
        lambda r: r.gradients == ("weight",) or len(r.gradients) > 1,
        lambda r: "residual_out" in r.upstream,
        lambda r: r.weight_offset is not None,
        lambda r: r.eps != 1e-6,
        lambda r: r.fills["weight"].kind == "bell",
    ],
)
def test_what_the_failure_needs_stays_and_the_rest_goes(wrong: Wrong) -> None:
    """Each feature alone is kept for its own sake."""
    found = smallest_of(RICH, wrong)
    assert wrong(found)
    kept = [
        len(found.layouts), len(found.shape) - 2, len(set(found.dtypes.values())) - 1,
        found.scenario != "once", found.weight_offset is not None, found.eps != 1e-6,
        sum(fill.kind != "zeros" for fill in found.fills.values()),
    ]  # fmt: skip
    assert sum(kept) + (found.trains and not any(kept)) <= 1
    assert len(found.gradients) <= 1
    assert len(found.upstream) <= 1


def test_out_and_needs_go_with_what_they_were_for() -> None:
    """A run of few elements needs no memory worth declaring, once its rows are not 2**31 apart."""
    wide = run(
        256, 3, out=True, layouts={"x": "int64_stride", "out": "row_slice"}, needs=("memory:9",), core=False
    )
    found = smallest_of(wide, lambda r: True)
    assert (found.out, found.layouts, found.needs) == (False, {}, ())
    kept = smallest_of(wide, lambda r: r.layouts.get("x") == "int64_stride")
    assert (kept.n_rows, kept.needs) == (2, ("memory:9",))


def test_a_core_case_may_become_something_else() -> None:
    """Only a bundled case is a place of the certificate."""
    core = run(4096, 4, dtype="bfloat16", core=True, layouts={})
    assert not smallest_of(core, lambda r: True).core


def test_a_fault_stays_with_its_argument() -> None:
    """The run is about the argument that is wrong; 2 rows of 3 are the least that cannot broadcast."""
    refused = run(64, 5, scenario="refuse", fault="eps_negative", eps=-1e-5)
    found = smallest_of(refused, lambda r: True)
    assert (found.fault, found.eps, found.shape) == ("eps_negative", -1e-5, (2, 3))


def test_another_requirement_is_another_failure() -> None:
    """A smaller run that fails something else is not taken."""
    found = smallest_of(run(4096, 8), lambda r: True, other=lambda r: r.hidden_size < 100)
    assert found.shape == (1, 100)


def test_the_requirement_is_asked_for_only_at_the_end() -> None:
    """What a run asks can decide how a failure is named, so the search keeps the questions it came with."""
    seen: list[tuple[str, ...]] = []

    def wrong(asked: Run) -> bool:
        seen.append(asked.requirements)
        return asked.requirements[-1] == "ACCURACY-INTERVAL"

    found = smallest_of(run(), wrong)
    assert found.requirements == ("STRIDE-X", "ACCURACY-INTERVAL")
    assert set(seen[:-2]) == {("ACCURACY-INTERVAL",)}


def test_the_limit_stops_the_search_and_keeps_what_was_found() -> None:
    """With no time at all only the requirements are put in, and it does not say that it ended."""
    found = shrunk(RICH, lambda r: True, limit=0.0)
    assert not found.finished
    assert found.failing[-1][0].shape == RICH.shape
    assert found.tried == 1


# --- fills ---------------------------------------------------------------------------------------------


def test_one_row_out_of_many_scales() -> None:
    """The row that shows the failure becomes the only one, and its scale the fill's."""
    fills = {"x": Fill(row_scales=(1.0, 0.05, 20.0), scale=2.0), "weight": Fill(seed=3)}
    found = smallest_of(
        run(8, 6, fills=fills),
        lambda r: (
            r.fills["x"].scale * max((0.0, *r.fills["x"].row_scales[: r.n_rows])) >= 20
            or r.fills["x"].scale >= 20
        ),
    )
    assert found.n_rows == 1
    assert found.fills["x"] == Fill("zeros", scale=20.0)


def test_every_plainer_fill_is_plainer() -> None:
    """So the loop ends; and the plainest has nothing below it."""
    rich = Fill("bell", 9, 2.0, 1.0, (1.0, 3.0), 3, 5.0, (0, 1), ((0, 0, "nan"), (1, 1, 2.0)))
    for fill in (rich, Fill("uniform", 9), Fill("constant", 1, 2.0)):
        found = list(plainer(fill, "x"))
        assert found
        assert all(complexity(other, "x") < complexity(fill, "x") for other in found)
    assert not list(plainer(Fill("zeros"), "x"))


@pytest.mark.parametrize(
    ("width", "rows", "x", "dy", "expected"),
    [
        (64, 64, Fill("constant", scale=0.3), Fill("constant"), True),
        (4096, 1, Fill("constant"), None, True),  # 4096 ones are added without rounding
        (4096, 1, Fill("constant", scale=0.3), None, False),
        (4096, 1, Fill("zeros", mean=0.3), None, False),
        (4096, 1, Fill("constant", row_scales=(1.0, 0.05)), None, False),
        (4096, 1, Fill("constant", scale=-0.375), None, True),
        (4096, 1, Fill("constant", scale=65.0), None, False),  # 4096 times 65 squared is past 2**24
        (4096, 1, Fill("bell", scale=0.3), Fill("constant"), True),
        (16, 65537, Fill("constant", scale=0.3), None, True),  # nothing is summed over the rows
        (16, 65537, Fill("constant"), Fill("constant"), False),
        (16, 65537, Fill("constant"), Fill("zeros"), True),
        (16, 65537, Fill("constant"), Fill("uniform"), True),
    ],
)
def test_long_sums_of_equal_terms_are_not_asked(
    width: int, rows: int, x: Fill, dy: Fill | None, expected: bool
) -> None:
    """A right kernel that adds one term after the other could fail them."""
    made = run(width, rows) if dy is None else training(width, rows)
    fills = {**made.fills, "x": x, **({} if dy is None else {"dy": dy})}
    assert fair(replace(made, fills=fills)) is expected


def test_a_residual_that_varies_makes_the_sum_vary() -> None:
    """Only what is normalised counts."""
    made = run(4096, 1, "residual")
    flat = {**made.fills, "x": Fill("constant", scale=0.3)}
    assert fair(replace(made, fills=flat))
    assert not fair(replace(made, fills={**flat, "residual": Fill("zeros")}))


# --- the file ------------------------------------------------------------------------------------------


def test_every_kind_of_run_is_written_and_read_back_as_it_is(tmp_path: Path) -> None:
    """One run of each bundled case: the loader makes the same question of the text."""
    cases = load.load([load.bundled()])
    runs = [run for case in cases for run in case.runs[:1]]
    assert len(runs) > 100
    path = tmp_path / "minimised_one.yaml"
    for asked in runs:
        path.write_text(case_text(asked, ["a comment\n with a line end"]), encoding="utf-8")
        (entry,) = read_case_file(path)
        (back,) = expand(entry)
        assert question(back) == question(asked), asked.id
        assert back.case.startswith("minimised_one/")


def test_what_became_smaller_is_told() -> None:
    """From what to what, and the four that are always asked for."""
    told = "\n".join(changes(RICH, run(3, 1, "residual", "bfloat16")))
    for words in ("rows:", "5 x 7 -> 1", "4097 -> 3", "x=bf16+r=fp32+w=fp32 -> bf16", "retained -> once"):
        assert words in told
    assert "x row_slice, weight odd_base, dy column_step -> contiguous" in told
    assert "as before" in "\n".join(changes(RICH, RICH))
    assert set(facts(RICH)) == set(facts(run()))
