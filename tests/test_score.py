"""The score counts what it says: survivors, accusations, names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from conformance import mutants, variants
from conformance.score import Score, good, score, table

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
    with pytest.raises(ValueError, match="write mutant:NAME or variant:NAME"):
        score(["mutant:no_such_thing"], device="cpu")


def test_there_are_enough_of_both() -> None:
    """At least the numbers that the project promises."""
    assert len(mutants.names()) >= 30
    assert len(variants.names()) >= 12


def test_a_mutant_and_a_variant_for_real() -> None:
    """One of each through workers, cases and judge."""
    mutant, variant = score(["mutant:weight_ignored", "variant:pairwise_sum"], device="cpu")
    assert mutant.right, mutant
    assert variant.right, variant
