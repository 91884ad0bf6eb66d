"""The score counts what it says: survivors, accusations, names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from conformance import load, mutants, variants
from conformance.errors import NoSuchImplementation
from conformance.matrix.quick import of_the_day, quick
from conformance.model import Run
from conformance.score import Score, good, ordered, table

CAUGHT = Score("mutant:one", "FORMULA-ROOT", 20, 3, ("FORMULA-ROOT",), 0, "a[1]: wrong", (), 1.0)
RIGHT = Score("variant:one", "", 60, 0, (), 0, "", (), 1.0)


def test_all_caught_and_none_accused_is_good() -> None:
    """The table says so in numbers."""
    assert good([CAUGHT, RIGHT])
    assert "1 of 1 mutants caught, 1 named as labelled" in table([CAUGHT, RIGHT])
    assert "0 of 1 right variants accused" in table([CAUGHT, RIGHT])


@pytest.mark.parametrize(
    "bad",
    [
        replace(CAUGHT, failed=0, named=()),
        replace(CAUGHT, named=("FORMULA-WEIGHT",)),
        replace(RIGHT, failed=1),
        replace(RIGHT, error="it did not load"),
        replace(RIGHT, asked=0),
        replace(RIGHT, unwarned=("RRMS-READ",)),
    ],
)
def test_each_kind_of_failure_is_not_good_and_is_listed(bad: Score) -> None:
    """A survivor, a wrong name beyond the share allowed, an accusation, and what was never asked."""
    assert not good([bad])
    assert bad.spec in table([bad])


def test_nothing_scored_is_not_good() -> None:
    """An empty score is no score."""
    assert not good([])


def test_an_unknown_name_is_refused() -> None:
    """With what to write instead."""
    with pytest.raises(NoSuchImplementation, match="Write mutant:NAME or variant:NAME"):
        quick(["mutant:no_such_thing"], rotation=0, device="cpu")


def test_there_are_enough_of_both() -> None:
    """At least the numbers that the project promises."""
    assert len(mutants.names()) >= 30 + 36
    assert len(variants.names()) >= 12 + 8


def test_a_missing_warning_is_told_apart_from_an_accusation() -> None:
    """It is a gap of the suite, not an injustice."""
    silent = replace(RIGHT, unwarned=("RRMS-READ",))
    assert silent.outcome == "NOT WARNED"
    assert replace(silent, failed=1).outcome == "ACCUSED"
    assert "expected a warning of RRMS-READ" in table([silent])


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return [r for case in load.load([load.bundled()]) for r in case.runs if "full" in r.profiles]


def test_a_fault_of_the_backward_is_asked_training_runs_first(runs: list[Run]) -> None:
    """And a few forward runs, since its forward is right; nothing is left out in the end."""
    own = [r for r in runs if r.mode == "none"]
    first, rest = ordered(own, "mutant:dx_without_projection")
    assert sum(r.trains for r in first) >= 14
    assert 0 < sum(not r.trains for r in first) <= 2
    assert sum("DX-PROJECTION" in r.requirements for r in first) >= 14
    assert len(first) + len(rest) == len(own)


def test_a_fault_of_the_forward_is_asked_no_training_runs(runs: list[Run]) -> None:
    """Its gradients are those of a wrong function: they would say nothing more."""
    first, rest = ordered([r for r in runs if r.mode == "none"], "mutant:eps_outside")
    assert not any(r.trains for r in (*first, *rest))


def test_a_variant_is_asked_a_spread_of_both(runs: list[Run]) -> None:
    """And what it should be warned for."""
    first = of_the_day([r for r in runs if r.mode == "none"], "variant:recomputes_rrms", 0)
    assert sum(r.trains for r in first) >= 40
    assert sum(not r.trains for r in first) >= 50
    assert sum("RRMS-READ" in r.requirements for r in first) >= 5


def test_a_mutant_and_a_variant_for_real() -> None:
    """One of each through workers, cases and judge."""
    mutant, variant = quick(["mutant:weight_ignored", "variant:pairwise_sum"], rotation=0, device="cpu")
    assert mutant.right, mutant
    assert variant.right, variant
