"""Rules of other suites: what they accept and reject, and that the documentation says the same numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from in_process import InProcess, call

from conformance import cli, mutants, variants
from conformance.errors import ConformanceError, HarnessBroken
from conformance.model import DTYPES, SHORT_DTYPE, Implementation, Run
from conformance.mutants import _formula
from conformance.plan import Machine
from conformance.run import Observation
from conformance.score import Score
from conformance.yardstick.judging import Outcome, References, judged
from conformance.yardstick.measure import Answer, Measured, measure, refuses
from conformance.yardstick.rules import Tolerance, assert_close, close_in_promoted_dtype
from conformance.yardstick.suites import SUITES, inputs, questions
from conformance.yardstick.tables import missed, rejected, tables

DOCUMENT = Path(__file__).parent.parent / "docs" / "other_suites.md"
FUNCTION = {"none": "rms_norm", "residual": "fused_add_rms_norm", "residual_in_place": "fused_add_rms_norm_"}


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[InProcess]:
    """A worker's server in this process."""
    found = InProcess(monkeypatch)
    yield found
    found.arena.close()


def small(case: str, mode: str) -> list[Run]:
    """The smallest runs of a case, one for each dtype."""
    suite = SUITES[case.split("/")[0]]
    runs = sorted((r for r in inputs(suite) if r.case == case and r.mode == mode), key=lambda r: r.cost)
    return list({run.dtypes["x"]: run for run in reversed(runs)}.values())


def outcome(worker: InProcess, run: Run, function: Callable[..., Any], **changes: Any) -> Outcome:
    """What the run's rule says of a function."""
    rule = SUITES[run.case.split("/")[0]].rules[run.case]
    return judged(worker.observe(run, call(function, run.mode, **changes)), rule, References())


def no_root(x: torch.Tensor, weight: torch.Tensor | None, eps: float) -> torch.Tensor:
    """Divides by the mean square."""
    return _formula.scale(x.float(), 1 / (_formula.mean_square(x) + eps), weight, x.dtype)


def no_root_fused(x: Any, residual: Any, weight: Any, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The same of the sum."""
    total = x.float() + residual.float()
    factor = 1 / (_formula.mean_square(total) + eps)
    return _formula.scale(total, factor, weight, x.dtype), total.to(residual.dtype)


CASES = sorted(case for suite in SUITES.values() for case in suite.rules if "gemma" not in case)


@pytest.mark.parametrize("case", CASES)
def test_each_rule_accepts_plain_torch_and_rejects_a_missing_root(worker: InProcess, case: str) -> None:
    """In every dtype that the case has, at its smallest shape."""
    mode = "residual" if "fused" in case else "none"
    right = getattr(variants.load("one_rounding_exact_sum"), FUNCTION[mode])
    wrong = no_root_fused if mode == "residual" else no_root
    runs = small(case, mode)
    assert runs
    for run in runs:
        assert outcome(worker, run, right) == Outcome("close"), run.id
        assert outcome(worker, run, wrong).kind == "wrong", run.id


def test_the_reference_with_an_offset_is_that_of_the_right_kernel(worker: InProcess) -> None:
    """Weight + 1, in every suite that has such tests: a norm that leaves it out is rejected."""
    cases = [case for suite in SUITES.values() for case in suite.rules if "gemma_plain" in case]
    assert cases
    for run in (run for case in cases for run in small(case, "none")):
        asked = replace(run, weight_offset=None, id=f"{run.id}~given")

        def right(x: Any, weight: Any, eps: float) -> torch.Tensor:
            return _formula.scale(x, _formula.rrms(x, eps), weight.float() + 1, x.dtype)

        seen = worker.observe(asked, call(right))
        assert judged(replace(seen, run=run), _rule(run), References()) == Outcome("close"), run.id
        without = worker.observe(asked, call(_formula.rms_norm))
        assert judged(replace(without, run=run), _rule(run), References()).kind == "wrong", run.id


def _rule(run: Run) -> Any:
    return SUITES[run.case.split("/")[0]].rules[run.case]


@pytest.mark.parametrize("case", ["liger/plain", "flaggems/plain"])
@pytest.mark.parametrize("name", ["dweight_zero", "dx_without_projection", "dweight_none"])
def test_a_wrong_gradient_is_rejected(worker: InProcess, case: str, name: str) -> None:
    """Where the forward is right and one gradient is not, or does not come."""
    told = outcome(worker, small(case, "none")[0], mutants.load(name).rms_norm)
    assert told.kind in ("wrong", "raised")
    assert told.kind == "raised" or told.why.startswith(("dx", "dweight")), told


def test_y_is_compared_as_it_is_after_the_backward(worker: InProcess) -> None:
    """The tests compare when both halves are done."""
    run = small("flaggems/plain", "none")[0]
    told = outcome(worker, run, mutants.load("y_overwritten_by_the_backward").rms_norm)
    assert told.kind == "wrong"
    assert told.why.startswith("y:")


def test_a_written_grad_is_seen_where_the_test_reads_it(worker: InProcess) -> None:
    """Autograd adds to what is there; torch.autograd.grad does not look."""
    function = mutants.load("writes_the_weights_grad").rms_norm
    assert "weight.grad was written" in outcome(worker, small("liger/plain", "none")[0], function).why
    assert outcome(worker, small("flaggems/plain", "none")[0], function) == Outcome("close")


def test_what_raises_or_dies_is_told_apart_from_what_is_broken(worker: InProcess) -> None:
    """A fault of the suite is none of the implementation's."""

    def refuse(x: Any, weight: Any, eps: float) -> None:
        raise ValueError("not this one")

    run = small("flaggems/plain", "none")[0]
    told = outcome(worker, run, refuse)
    assert told.kind == "raised"
    assert "not this one" in told.why
    rule = _rule(run)
    died = Observation(run, call(refuse), "crash", [], "signal 11")
    assert judged(died, rule, References()) == Outcome("wrong", "crash: signal 11")
    unable = Observation(run, call(refuse), "not run", [], "no bf16 here")
    assert judged(unable, rule, References()).kind == "not run"
    with pytest.raises(HarnessBroken, match="fault of the suite"):
        judged(Observation(run, call(refuse), "broken", [], "oh"), rule, References())


# --- comparisons -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_assert_close_agrees_with_torch(dtype: str) -> None:
    """On both sides of the tolerance, and for another shape or dtype."""
    tolerance = Tolerance(1e-3, 1e-2)
    expected = torch.tensor([0.0, 1.0, -8.0, 100.0]).to(getattr(torch, dtype))
    outcomes = set()
    for factor in (0.5, 0.9, 1.1, 1.5):
        actual = expected + factor * (tolerance.atol + tolerance.rtol * expected.abs())
        outcomes.add(_agrees(actual, expected, tolerance))
    assert outcomes == {True, False}
    assert not _agrees(expected.double(), expected, tolerance)
    assert not _agrees(expected[None], expected, tolerance)
    assert not _agrees(expected * float("nan"), expected, tolerance)


def _agrees(actual: torch.Tensor, expected: torch.Tensor, tolerance: Tolerance) -> bool:
    ours = not assert_close(actual, expected, tolerance)
    try:
        torch.testing.assert_close(actual, expected, atol=tolerance.atol, rtol=tolerance.rtol)
    except AssertionError:
        assert not ours
        return False
    assert ours
    return True


def test_the_other_comparison_is_relative_to_what_came_back() -> None:
    """It looks at no dtype, and takes a NaN for a NaN; an infinity in one place only is a difference."""
    tolerance = Tolerance(0.0, 0.5)
    one, two = torch.tensor([1.0]), torch.tensor([2.0])
    assert not close_in_promoted_dtype(two, one, tolerance)
    assert close_in_promoted_dtype(one, two, tolerance)
    assert not close_in_promoted_dtype(one.bfloat16(), one, tolerance)
    nan, infinity = torch.tensor([float("nan")]), torch.tensor([float("inf")])
    assert not close_in_promoted_dtype(nan, nan, tolerance)
    assert close_in_promoted_dtype(nan, one, tolerance)
    assert not close_in_promoted_dtype(infinity, infinity, tolerance)
    assert close_in_promoted_dtype(infinity, one, tolerance)
    assert close_in_promoted_dtype(one[None], one, tolerance)


# --- what is asked ---------------------------------------------------------------------------------------


def implementation(*modes: str, **changes: Any) -> Implementation:
    """One that claims these modes."""
    return Implementation("one", {mode: call(no_root, mode, **changes) for mode in modes})


def asked(suite: str, *modes: str, elements: int = 0, **changes: Any) -> list[Run]:
    found = implementation(*modes, **changes)
    return questions(SUITES[suite], found, Machine("cpu", 8), elements)


def test_every_run_has_a_rule_with_a_tolerance_for_its_dtype() -> None:
    """And every rule has runs."""
    for suite in SUITES.values():
        assert {run.case for run in inputs(suite)} == set(suite.rules)
        for run in inputs(suite):
            assert run.dtypes["x"] in suite.rules[run.case].tolerances, run.id
            assert run.eps is not None
        assert suite.trains == any(run.trains for run in inputs(suite))


def test_what_cannot_train_is_asked_for_its_outputs_alone() -> None:
    """The same inputs and sizes; a fused norm in place too."""
    trained = asked("liger", "none", "residual")
    assert trained
    assert all(run.trains for run in trained)
    for forward in (
        asked("liger", "none", "residual", differentiable=False),
        asked("liger", "residual_in_place"),
    ):
        assert forward
        assert not any(run.trains or "dy" in run.fills for run in forward)
    assert {run.mode for run in asked("liger", "residual_in_place")} == {"residual_in_place"}


def test_large_shapes_are_left_out_and_the_cheapest_come_first() -> None:
    """By elements of x."""
    everything, some = asked("vllm", "none"), asked("vllm", "none", elements=1 << 17)
    assert len(some) < len(everything)
    assert max(run.n_rows * run.hidden_size for run in some) <= 1 << 17
    assert [run.cost for run in some] == sorted(run.cost for run in some)
    assert {run.hidden_size for run in some} == {run.hidden_size for run in everything}


def test_atol_of_dweight_grows_with_the_width_where_the_suite_says_so() -> None:
    """Of no other output."""
    rule = SUITES["flaggems"].rules["flaggems/plain"]
    assert rule.tolerance("dweight", "float32", 40999) == Tolerance(1e-4 * 40999, 1.3e-6)
    assert rule.tolerance("dx", "float32", 40999) == Tolerance(1e-4, 1.3e-6)


def test_which_variants_may_refuse() -> None:
    """Read from their source."""
    assert refuses("refuses_fp32")
    assert not refuses("pairwise_sum")


# --- what is said ----------------------------------------------------------------------------------------

MADE_UP = [
    Measured("mutant:a", "FORMULA-ROOT", False, {"vllm": Answer(3, "vllm/x: y: far"), "liger": Answer(2)}),
    Measured("mutant:b", "DX-ROWS", True, {"liger": Answer(2)}),
    Measured("variant:c", "", False, {"vllm": Answer(9), "liger": Answer(2, "liger/x: y: far")}),
]


def test_the_tables_count_objections_over_what_was_asked() -> None:
    """A suite that was not put to a kind of implementation says so."""
    text = tables(MADE_UP, ["vllm", "liger"])
    vllm, liger, either = text.splitlines()[2:5]
    assert "@ 041b9f5 | 1 / 1 | not asked | 0 / 1 | above 131,072 elements |" in vllm
    assert "@ ead96b6 | 0 / 1 | 0 / 1 | 1 / 1 |" in liger
    assert either == "| any of them | 1 / 1 | 0 / 1 | 1 / 1 | |"
    assert "| FORMULA | 1 / 1 | 0 / 1 | 1 / 1 |" in text
    assert "| DX | not asked | 0 / 1 | 0 / 1 |" in text
    assert missed(MADE_UP) == "no rule objects to mutant:b (DX-ROWS); asked by liger"
    assert rejected(MADE_UP) == "liger rejects variant:c: liger/x: y: far"


def test_this_suite_has_a_line_where_it_was_measured_as_well() -> None:
    """Over the same mutants and variants."""
    failing = [Score(spec, "", 5, 1, (), 0, "", (), 1.0) for spec in ("mutant:a", "mutant:b")]
    own = [*failing, Score("variant:c", "", 5, 0, (), 0, "", (), 1.0)]
    assert "| this suite | 1 / 1 | 1 / 1 | 0 / 1 | none |" in tables(MADE_UP, own=own)
    assert "this suite" not in tables(MADE_UP)


def test_unknown_names_are_refused() -> None:
    """With what there is."""
    with pytest.raises(ConformanceError, match="Known: vllm, liger, flaggems"):
        measure(suites=["vlm"])
    with pytest.raises(ConformanceError, match="Write mutant:NAME"):
        measure(["no_root"])


def test_the_command_on_a_small_part(capsys: pytest.CaptureFixture[str]) -> None:
    """One wrong and one right implementation, through workers, at FlagGems' smallest shape."""
    options = ["--suites", "flaggems", "--elements", "2", "--jobs", "1"]
    assert cli.main(["yardstick", "mutant:no_root", "variant:llama_autograd", *options]) == 0
    line = capsys.readouterr().out.splitlines()[2]
    assert (
        line == "| FlagGems tests/test_norm_ops.py @ 532ff43 | 1 / 1 | not asked | 0 / 1 | above 2 elements |"
    )


def test_the_document_says_the_tolerances_that_are_used() -> None:
    """Every rule, every dtype; atol and rtol as numbers."""
    rows = re.findall(r"^\| `(\w+)/([^`]+)` \| (.+) \|$", DOCUMENT.read_text(encoding="utf-8"), re.M)
    said = {}
    for suite, names, cells in rows:
        for name in names.split(", "):
            said[f"{suite}/{name}"] = [cell.strip() for cell in cells.split("|")][-3:]
    rules = {case: rule for suite in SUITES.values() for case, rule in suite.rules.items()}
    assert set(said) == set(rules)
    for case, rule in rules.items():
        for dtype, cell in zip(("float32", "float16", "bfloat16"), said[case], strict=True):
            found = rule.tolerances.get(dtype)
            asked_in = {run.dtypes["x"] for run in inputs(SUITES[case.split("/")[0]]) if run.case == case}
            if dtype not in asked_in:
                assert cell == "–", (case, SHORT_DTYPE[dtype])
                continue
            assert found is not None
            atol, rtol = (float(number) for number in cell.split(" + "))
            assert Tolerance(atol, rtol) == found, (case, dtype)


def test_the_document_names_every_suite_with_its_commit() -> None:
    """And the address and the date that the rules have."""
    text = DOCUMENT.read_text(encoding="utf-8")
    for suite in SUITES.values():
        assert suite.commit[:7] in text
        assert suite.url in text
        assert suite.date.split(":")[0] in text
        for sentence in suite.differs:
            assert " ".join(sentence.split()) in " ".join(text.split())
