"""What a user's cases cannot see, and by which property: measured on cases that are blind on purpose."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from small_runs import run, training

from conformance import load, mutants
from conformance.adequacy.fills import lowest, mean_squares, one_value, scaled_to
from conformance.adequacy.measure import (
    Adequacy,
    Hiding,
    Outcome,
    UnknownMutant,
    bases,
    bundled_for,
    measure,
    measure_one,
    not_askable,
    ordered,
    runs_for,
)
from conformance.adequacy.properties import PROPERTIES, named
from conformance.adequacy.tell import additions, as_json, text
from conformance.cli import main
from conformance.loading.combinations import impossible
from conformance.model import Fill, Run

BLIND = """
schema: 1
about: What a usual test asks.
cases:
  - id: usual
    about: rows of one norm far above eps, weights of one, a width of 64, one dtype
    requirements: [ACCURACY-INTERVAL]
    modes: [none, residual]
    dtypes: [float32]
    n_rows: 4
    hidden_size: 64
    x: {kind: constant, scale: 100.0}
    residual: {kind: constant, scale: 50.0}
    weight: {kind: constant}
"""

HIDDEN_BY = {
    "weight_absolute": "unit weights",
    "weight_reversed": "unit weights",
    "eps_omitted": "far from eps",
    "eps_outside": "far from eps",
    "drops_tail_of_eight": "no odd width",
    "scale_of_previous_row": "equal row norms",
}
"""Mutants that the blind cases miss, and what blinds them."""

SEEING = {
    "weight_reversed": {"weight: {kind: constant}": "weight: {}"},
    "eps_outside": {"scale: 100.0": "scale: 1.0e-3", "scale: 50.0": "scale: 1.0e-3"},
    "drops_tail_of_eight": {"hidden_size: 64": "hidden_size: 33"},
    "scale_of_previous_row": {"scale: 100.0": "scale: 100.0, row_scales: [1.0, 0.05]"},
}
"""The same cases with one property added, as a user would write it."""


def cases(folder: Path, changes: dict[str, str] | None = None) -> list[Run]:
    """The runs of the blind cases, with some words replaced."""
    written = BLIND
    for old, new in (changes or {}).items():
        assert old in written
        written = written.replace(old, new)
    file = folder / "mine.yaml"
    file.write_text(written)
    return [one for case in load.load([file]) for one in case.runs]


# --- for real --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Adequacy:
    """The answer about the blind cases, for a few mutants and one that they do see."""
    runs = cases(tmp_path_factory.mktemp("blind"))
    names = [*HIDDEN_BY, "returns_zeros", "dx_truncated", "writes_before_the_start"]
    return measure(runs, names, jobs=1)


def test_the_property_that_hides_each_mutant_is_found(found: Adequacy) -> None:
    """Unit weights hide a wrong use of the weight, a large mean square a wrong eps, and so on."""
    hidden = {o.mutant: [h.name for h in o.hidden_by] for o in found.of_state("hidden")}
    assert set(hidden) == set(HIDDEN_BY)
    for mutant, name in HIDDEN_BY.items():
        assert hidden[mutant][0] == name, hidden[mutant]


def test_what_is_seen_and_what_is_not_asked(found: Adequacy) -> None:
    """A mutant that fails is counted as seen; a fault of what is never asked is told apart from both."""
    assert [(o.mutant, o.run) for o in found.of_state("seen")] == [("returns_zeros", "mine/usual[none,fp32]")]
    assert set(found.not_asked.values()) == {("dx_truncated",), ("writes_before_the_start",)}
    assert any("no case has `gradients`" in reason for reason in found.not_asked)
    assert any("no run has mode residual_in_place" in reason for reason in found.not_asked)


def test_the_answer_in_words(found: Adequacy) -> None:
    """Counts first, then each property with its sentence, its remedy and its mutants."""
    told = text(found)
    assert told.splitlines()[0] == "2 runs, none of them a training run (mode none, residual; fp32; width 64)"
    assert told.splitlines()[1] == "sees 1 of 7 mutants"
    assert "unit weights: hides 2" in told
    assert "Every weight is 1, so a kernel that ignores the weight" in told
    assert "weight_absolute, weight_reversed" in told
    assert "In a case: `hidden_size: 33`" in told


@pytest.mark.parametrize("mutant", SEEING)
def test_cases_with_the_property_see_the_mutant(mutant: str, tmp_path: Path) -> None:
    """What the answer says to add is what was missing."""
    runs = cases(tmp_path, SEEING[mutant])
    assert measure_one(mutant, tuple(runs), 60.0, thorough=False).state == "seen"


def test_the_property_can_be_one_of_a_training_run() -> None:
    """A backward that writes dy's strides off, and training runs in which dy is contiguous."""
    outcome = measure_one("dy_strides_ignored", (training(32, 3),), 60.0, thorough=False)
    assert outcome.state == "hidden"
    assert outcome.hidden_by[0].name == "contiguous dy"


def test_a_mutant_that_no_single_change_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told with what it takes, and with a bundled run that fails."""
    monkeypatch.setattr("conformance.adequacy.measure.PROPERTIES", (named("no width 1"),))
    outcome = measure_one("eps_squared", (run(64, 4, fills=_fills(100.0)),), 60.0, thorough=False)
    assert (outcome.state, outcome.hidden_by) == ("hidden", ())
    assert outcome.bundled.startswith("eps/")
    told = text(Adequacy((run(),), (outcome,)))
    assert "No single change of your runs shows 1 mutant:" in told
    assert f"The bundled run {outcome.bundled} sees it." in told


def test_a_refusal_beside_what_was_computed_is_seen() -> None:
    """Two runs that differ in width alone, of which one is refused."""
    outcome = measure_one("odd_widths_refused", (run(32), run(33)), 60.0, thorough=False)
    assert outcome.state == "seen"


def test_a_crash_of_a_forked_worker_is_a_failure() -> None:
    """The worker of one mutant ends, and the process that measures lives on."""
    outcome = measure_one("aborts_at_a_width", (run(32), run(769)), 60.0, thorough=False)
    assert (outcome.state, outcome.asked) == ("seen", 2)


def test_runs_that_cannot_be_put_to_a_mutant_are_no_survival() -> None:
    """A call without a parameter for it cannot be asked for an `out` tensor."""
    outcome = measure_one("weight_absolute", (run(32, out=True),), 60.0, thorough=False)
    assert outcome.state == "out of reach"
    assert "no parameter for out" in outcome.why
    assert "not counted: 1 mutant" in text(Adequacy((run(),), (outcome,)))


# --- the command -----------------------------------------------------------------------------------------


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Text on standard output, the same in the JSON file, and exit code 0 although something is hidden."""
    cases(tmp_path)
    asked = ["adequacy", str(tmp_path / "mine.yaml"), "--mutant=weight_reversed", "--jobs=1"]
    assert main([*asked, f"--json={tmp_path / 'answer.json'}"]) == 0
    assert "sees 0 of 1 mutants" in capsys.readouterr().out
    answer = json.loads((tmp_path / "answer.json").read_text())
    assert answer["counts"] == {"asked": 1, "seen": 0, "hidden": 1}
    assert [p["name"] for p in answer["properties"]] == ["unit weights"]
    assert answer["properties"][0]["hides"] == ["weight_reversed"]


def test_a_wrong_case_file_and_a_wrong_name_are_errors(tmp_path: Path) -> None:
    """Exit code 1, as for every other command."""
    assert main(["adequacy", str(tmp_path / "nothing.yaml")]) == 1
    with pytest.raises(UnknownMutant, match="no_such_thing"):
        measure([run()], ["no_such_thing"])


# --- the properties --------------------------------------------------------------------------------------


def _fills(scale: float, /, **weight: object) -> dict[str, Fill]:
    return {"x": Fill(scale=scale), "weight": Fill(**{"seed": 3, **weight})}  # type: ignore[arg-type]


BETTER: dict[str, Run] = {
    "unit weights": run(),
    "equal weights": run(),
    "no negative weight": run(),
    "no zero weight": run(fills=_fills(1.0, zero_every=3)),
    "no weight_offset": run(weight_offset=1.0),
    "constant x": run(),
    "equal row norms": run(fills={**_fills(1.0), "x": Fill(row_scales=(1.0, 4.0))}),
    "last column like the others": run(fills={**_fills(1.0), "x": Fill(last_column=20.0)}),
    "no mean in x": run(fills={**_fills(1.0), "x": Fill(mean=3.0)}),
    "no zeros in x": run(fills={**_fills(1.0), "x": Fill(zero_every=3)}),
    "no zero row": run(fills={**_fills(1.0), "x": Fill(zero_rows=(1,))}),
    "no NaN and no Inf": run(fills={**_fills(1.0), "x": Fill(put=((0, 1, "nan"),))}),
    "far from eps": run(fills=_fills(3e-3)),
    "eps never left out": run(eps=None),
    "mean square near 1": run(fills=_fills(3.0)),
    "no large values": run(fills=_fills(1e8)),
    "no small values": run(eps=1e-12, fills=_fills(1e-6)),
    "zero residual": run(mode="residual"),
    "one row": run(rows=2),
    "never one row": run(rows=1),
    "few rows": run(rows=257),
    "no batch past 65536 rows": run(8, 65537),
    "no empty batch": run(rows=0),
    "no odd width": run(33),
    "no wide row": run(1025),
    "no width 1": run(1),
    "rank 2 only": run(shape=(2, 3, 32)),
    "no bf16": run(dtype="bfloat16"),
    "no fp16": run(dtype="float16"),
    "no fp32": run(dtype="float32"),
    "one dtype for all tensors": run(dtypes={"x": "bfloat16", "weight": "float32"}),
    "contiguous x": run(layouts={"x": "row_slice"}),
    "aligned x": run(layouts={"x": "odd_base"}),
    "contiguous residual": run(mode="residual", layouts={"residual": "row_slice"}),
    "contiguous weight": run(layouts={"weight": "column_step"}),
    "aligned weight": run(layouts={"weight": "odd_base"}),
    "no split heads": run(shape=(3, 2, 32), layouts={"x": "split_heads"}),
    "out never passed": run(out=True),
    "contiguous dy": training(layouts={"dy": "transposed"}),
    "called once": run(scenario="repeat"),
    "nothing wrong is passed": run(scenario="refuse", fault="weight_too_long"),
    "one graph at a time": training(scenario="interleaved"),
    "saved statistic not looked at": training(scenario="saved_statistic"),
    "constant dy": training(),
    "no mean in dy": replace(training(), fills={**_fills(1.0), "dy": Fill(mean=1.0)}),
    "no large dy": replace(training(), fills={**_fills(1.0), "dy": Fill(scale=3000.0)}),
    "dy always finite": replace(training(), fills={**_fills(1.0), "dy": Fill(put=((0, 1, "inf"),))}),
    "all gradients are asked": training(gradients=("weight",)),
    "no gradient of both outputs": training(mode="residual"),
    "residual_out never alone": training(mode="residual", upstream=("residual_out",)),
    "y never alone": training(mode="residual", upstream=("y",)),
}
"""A run that has what each property says is missing."""

WORST = Fill("constant", scale=100.0)
BLIND_RUNS = {
    "none": run(64, 4, fills={"x": WORST, "weight": Fill("constant")}),
    "residual": run(
        64, 4, "residual", fills={"x": WORST, "residual": Fill("zeros"), "weight": Fill("constant")}
    ),
    "training": replace(
        training(64, 4, "residual", upstream=("y",)),
        fills={"x": WORST, "residual": Fill("zeros"), "weight": Fill("constant"), "dy": Fill("constant")},
    ),
}


@pytest.mark.parametrize("name", [p.name for p in PROPERTIES if p.over_all is None])
def test_a_run_with_the_property_is_not_blind(name: str) -> None:
    """And the runs of the others do not hide it."""
    one = named(name)
    assert not one.blind([BETTER[name]])
    assert not one.blind([*BLIND_RUNS.values(), BETTER[name]])


def test_one_eps_is_a_property_of_all_runs_together() -> None:
    """Each run has one; what counts is whether they differ."""
    one = named("one eps")
    assert one.blind([run(eps=1e-5), run(eps=1e-5)])
    assert not one.blind([run(eps=1e-5), run(eps=1e-3)])


@pytest.mark.parametrize("one", PROPERTIES, ids=lambda p: p.name)
def test_a_change_adds_what_the_run_lacked_and_can_be_asked(one: object) -> None:
    """The change of a blind run is possible, has an id of its own, and is not blind in that way any more."""
    prop = named(one.name)  # type: ignore[attr-defined]
    # A run without a sign in its weight, equal weights, and one of 16 bits: for what the others do not lack.
    others = (
        run(64, 4, fills=_fills(1.0, kind="constant", scale=2.0)),
        run(64, 1, dtype="float16", fills=_fills(1.0)),
        training(64, 4, "residual"),
    )
    made = [c for base in (*BLIND_RUNS.values(), *others) if prop.lacks(base) for c in prop.changed(base)]
    assert made
    assert all(impossible(c) is None and c.id.count("~") == 1 for c in made)
    assert prop.over_all is not None or not prop.blind(made)


def test_the_names_are_all_different_and_the_references_exist() -> None:
    """`beyond` names properties, and each stands after those that it is beyond."""
    names = [p.name for p in ordered()]
    assert len(set(names)) == len(PROPERTIES)
    for place, one in enumerate(ordered()):
        assert set(one.beyond) <= set(names[:place]), one.name


def test_every_aim_is_at_a_requirement() -> None:
    """A beginning that no requirement has would never be tried first."""
    ids = load.requirements()
    for one in PROPERTIES:
        for start in one.shows:
            assert any(id_.startswith(start) for id_ in ids), (one.name, start)


def test_an_unknown_property_is_told_with_the_known() -> None:
    """As everywhere."""
    with pytest.raises(KeyError, match="unit weights"):
        named("no such thing")


# --- parts -----------------------------------------------------------------------------------------------


def test_what_a_fill_says_of_its_values() -> None:
    """A number for all elements, the lowest, the mean squares with row_scales and residual."""
    assert one_value(Fill("constant", scale=2.0, mean=1.0)) == 3.0
    assert one_value(Fill("zeros", mean=1.5)) == 1.5
    assert one_value(Fill("constant", zero_every=3)) is None
    assert lowest(Fill("constant")) == 1.0
    assert lowest(Fill("bell")) == -3.5
    assert mean_squares(run(fills={**_fills(1.0), "x": Fill(row_scales=(1.0, 4.0))})) == [1.0, 16.0, 1.0]
    both = {"x": Fill(scale=3.0), "residual": Fill(scale=4.0), "weight": Fill()}
    assert mean_squares(run(mode="residual", fills=both)) == [25.0]
    cleared = {**both, "residual": Fill(zero_rows=(-1,)), "x": Fill(zero_rows=(2,))}
    assert 0.0 in mean_squares(run(mode="residual", fills=cleared))
    near = scaled_to(run(fills=_fills(100.0)), 1e-5)
    assert near is not None
    assert mean_squares(near) == pytest.approx([1e-5])
    assert scaled_to(run(fills={**_fills(1.0), "x": Fill("zeros")}), 1.0) is None


def test_who_is_asked_which_runs() -> None:
    """A fault of the backward: training runs alone. One of the forward: every run of its mode."""
    forward, trained, fused = run(), training(), run(mode="residual")
    asked = [trained, fused, forward]
    assert runs_for(mutants.label("dx_truncated"), asked) == [trained]
    assert runs_for(mutants.label("weight_absolute"), asked) == [forward, trained]
    assert "training run has mode none" in not_askable(
        mutants.label("dx_truncated"), [training(mode="residual")]
    )
    assert "GPU" in not_askable(mutants.label("output_on_the_cpu"), asked)
    assert not_askable(mutants.label("dx_truncated"), asked) == ""


def test_the_runs_that_are_changed_are_ordinary_and_of_several_kinds() -> None:
    """One a mode, half and dtype; a width of 1 or a single row only where there is nothing better."""
    narrow, single, wide = run(1), run(64, 1), run(64, 4)
    half = run(64, 4, dtype="float16")
    assert bases([narrow, single, wide, half]) == [half, wide]
    assert bases([narrow]) == [narrow]


def test_bundled_runs_are_those_written_for_it() -> None:
    """Those whose first requirement it breaks come first, and all need nothing special."""
    written = bundled_for(mutants.label("eps_outside"))
    assert written[0].requirements[0] == "FORMULA-EPS-INSIDE"
    assert all("FORMULA-EPS-INSIDE" in one.requirements and not one.needs for one in written)


def test_the_shortest_list_of_additions() -> None:
    """The property that shows most comes first, and what it shows is not counted twice."""
    outcomes = tuple(
        Outcome(mutant, "hidden", 1, hidden_by=tuple(Hiding(name, False, "a~b") for name in names))
        for mutant, names in {
            "eps_outside": ("far from eps",),
            "eps_squared": ("far from eps", "one eps"),
            "weight_reversed": ("unit weights",),
        }.items()
    )
    found = Adequacy((run(),), outcomes)
    chosen = [(one.name, shown) for one, shown in additions(found)]
    assert chosen == [
        ("far from eps", ("eps_outside", "eps_squared")),
        ("unit weights", ("weight_reversed",)),
    ]
    assert "without 'far from eps' these cases would see 2" in text(found)
    assert as_json(found)["additions"][1] == {"name": "unit weights", "shows": ["weight_reversed"]}


def test_what_some_runs_have_is_told_apart() -> None:
    """And what was not decided is not counted."""
    partly = Outcome("weight_reversed", "hidden", 2, hidden_by=(Hiding("unit weights", True, "a~b"),))
    late = Outcome(
        "eps_outside", "unfinished", 1, why="3 runs were left after 1 s; a larger --limit asks them"
    )
    told = text(Adequacy((run(),), (partly, late)))
    assert "sees 0 of 1 mutants" in told
    assert "Other runs of yours do have the following" in told
    assert "eps_outside: 3 runs were left after 1 s" in told
