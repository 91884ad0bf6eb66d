"""The verdict on an implementation that trains: what is certified, what is alike, how gradients are named."""

from __future__ import annotations

from dataclasses import replace

import pytest
from reporting_samples import EPS_OUTSIDE, REQUIREMENTS, core, failing, make, shuffled, training, wrong

from conformance.model import Verdict
from conformance.reporting.conclude import ImplementationResult, conclude
from conformance.reporting.training import gradient_sentences

NO_WEIGHT = ("weight_forgotten", "DX-WEIGHT", "equals dx without the weight")
WEIGHT_IN_DWEIGHT = ("weight_in_dweight", "DWEIGHT-XHAT", "equals dweight with one more factor of the weight")
NO_GRAPH = "forward only: no output requires grad"


def concluded(verdicts: list[Verdict], **changes) -> ImplementationResult:
    values = {"complete": True, "profile": "default", "declared": {}, "modes": ("none",), **changes}
    return conclude("mine", verdicts, REQUIREMENTS, **values)


def trained(dtypes: tuple[str, ...] = ("float16", "bfloat16")) -> list[Verdict]:
    return [training(f"gradients/plain[none,{x},{i}]", x=x) for x in dtypes for i in range(3)]


def untrained(run: str, **changes) -> Verdict:
    changes.setdefault("reason", NO_GRAPH)
    return training(run, verdict="unsupported", conventions=(), **changes)


def bad(run: str, *findings, **changes) -> Verdict:
    return failing(run, *findings, gradients=("x", "weight"), **changes)


# --- what is certified ---------------------------------------------------------------------------------


def test_passing_training_runs_are_certified_with_their_gradients():
    result = concluded([*core(), *trained()])
    assert result.certified
    assert result.sentence == (
        "Certified in profile default, grade strict, for none (fp16 bf16), with gradients."
    )


def test_gradients_are_named_where_not_every_forward_has_them():
    result = concluded([*core(), *trained(("bfloat16",))])
    assert result.certified
    assert "for none (fp16 bf16), with gradients in none (bf16)" in result.sentence


def test_an_op_without_any_graph_is_certified_as_forward_only():
    result = concluded([*core(), *(untrained(f"g[{i}]") for i in range(3))])
    assert result.certified
    assert result.findings == ()
    assert "for none (fp16 bf16), forward only: training not supported; 3 runs refused" in result.sentence


def test_a_wrong_gradient_stops_certification_and_leaves_the_forward():
    verdicts = [*core(), *trained(("float16",)), bad("g[1]", wrong("DX-ACCURACY", NO_WEIGHT, check="dx"))]
    result = concluded(verdicts)
    assert not result.certified
    assert "nothing failed in none (fp16 bf16), with gradients in none (fp16)" in result.sentence


def test_gradients_that_all_fail_are_left_out():
    result = concluded([*core(), bad("g[1]", wrong("DX-ACCURACY", check="dx"))])
    assert "nothing failed in none (fp16 bf16), without gradients" in result.sentence


def test_the_training_profile_alone_never_certifies():
    result = concluded(trained(), profile="training")
    assert not result.certified
    assert result.reasons == ("profile training never certifies",)
    assert "nothing failed in the gradients of none (fp16 bf16)" in result.sentence


def test_the_core_is_asked_forward():
    """A passing training run stands in for no core run, and a refused one takes none away."""
    gap = [v for v in core() if (v.n_rows, v.hidden_size) != (1, 4097)]
    missing = [v for v in core() if (v.n_rows, v.hidden_size) == (1, 4097)]
    gap += [replace(v, verdict="unsupported", conventions=()) for v in missing]
    stand_in = training("g[1]", core=True, n_rows=1, hidden_size=4097)
    assert not concluded([*gap, stand_in]).certified
    refused = untrained("g[2]", core=True, n_rows=1, hidden_size=4097)
    assert concluded([*core(), refused]).certified


# --- alike ---------------------------------------------------------------------------------------------


def test_a_graph_in_some_runs_only_fails_and_names_both():
    lost = [
        untrained("gradients/wide[none,bf16,h=8192]", hidden_size=8192),
        untrained("gradients/wide[none,fp16,h=8192]", hidden_size=8192, x="float16"),
    ]
    result = concluded([*core(), *trained(), *lost])
    (finding,) = result.findings
    assert (finding.requirement, finding.severity) == ("GRADMODE-ALIKE", "fail")
    assert finding.where["run"] == "gradients/wide[none,bf16,h=8192]"
    assert finding.where["passed"] == "gradients/plain[none,bfloat16,0]"
    assert finding.where["without"] == 2
    assert "no output of gradients/wide[none,bf16,h=8192] and 1 more requires a gradient" in finding.message
    assert result.named == ("GRADMODE-ALIKE",)
    assert not result.certified


def test_a_graph_with_wrong_gradients_is_a_graph():
    wrong_dx = bad("g[1]", wrong("DX-ACCURACY", check="dx"))
    (finding,) = concluded([*core(), wrong_dx, untrained("g[2]")]).findings
    assert (finding.requirement, finding.where["passed"]) == ("GRADMODE-ALIKE", "g[1]")


@pytest.mark.parametrize(
    "other",
    [
        training("r[1]", mode="residual"),
        make("forward[bf16]"),
        bad("g[1]", wrong("SIZE-WIDTH")),
        training("g[1]", verdict="crash", conventions=(), reason="it died"),
        training("g[1]", verdict="not run", conventions=(), reason="needs a GPU"),
        training("g[1]", verdict="unsupported", conventions=(), reason="refused: no", x="float32"),
    ],
    ids=["another mode", "a forward run", "a wrong y", "a crash", "not run", "a refused dtype"],
)
def test_what_shows_no_graph_is_no_neighbour(other):
    result = concluded([*core(), other, untrained("g[2]")])
    assert [f.requirement for f in result.findings] == []


def test_training_and_forward_runs_are_refused_apart():
    refused = training("g[1]", verdict="unsupported", conventions=(), reason="refused: no backward in bf16")
    assert concluded([*core(), refused]).findings == ()


def test_a_backward_refused_for_a_size_fails():
    refused = training("g[1]", verdict="unsupported", conventions=(), reason="refused: ValueError: no")
    result = concluded([*core(), *trained(), refused])
    (finding,) = result.findings
    assert (finding.requirement, finding.severity) == ("REFUSE-ALIKE", "fail")
    assert finding.message.startswith(
        "refused to train g[1] (refused: ValueError: no), but computed gradients/"
    )
    assert "nothing failed in none (fp16 bf16), with gradients in none (fp16)" in result.sentence


@pytest.mark.parametrize(
    "reason", ["the backward has no parameter for dresidual_out: it cannot be given", NO_GRAPH]
)
def test_what_a_backward_cannot_be_asked_is_no_refusal(reason):
    """An explicit backward may have no way to be given a gradient; the call refused nothing."""
    cannot = training("g[1]", verdict="unsupported", conventions=(), reason=reason)
    found = {f.requirement for f in concluded([*core(), *trained(), cannot]).findings}
    assert "REFUSE-ALIKE" not in found


def test_a_layout_of_dy_may_be_refused():
    refused = training(
        "g[1]", verdict="unsupported", conventions=(), reason="refused: no", features=("dy:expanded",)
    )
    assert concluded([*core(), *trained(), refused]).findings == ()


# --- conventions ---------------------------------------------------------------------------------------


def test_y_has_one_convention_in_training_and_forward_runs():
    other = training("g[1]", conventions=("two roundings",))
    (finding,) = concluded([*core(), other]).findings
    assert (finding.requirement, finding.severity) == ("ACCURACY-CONVENTION", "warn")
    assert "g[1] only fits 'two roundings'" in finding.message


def test_the_conventions_of_gradients_are_told_and_never_warned_of():
    def run(name, dtype="bfloat16", **conventions):
        return training(name, x=dtype, gradient_conventions=conventions)

    verdicts = [
        run("a", dx=("exact sum, a rounded", "rounded sum, a rounded"), dweight=("exact sum",)),
        run("b", dx=("exact sum, a rounded",), dweight=("exact sum, x_hat rounded",)),
        run("c", dx=(), dweight=("exact sum",)),
        run("d", "float16", dx=("exact sum, a rounded",), dweight=("exact sum, a rounded",)),
    ]
    result = concluded([*core(), *verdicts])
    assert result.findings == ()
    assert result.gradient_conventions == {
        "none/bf16": {"dx": "exact sum, a rounded", "dweight": "changes from run to run"},
        "none/fp16": {"dx": "exact sum, a rounded", "dweight": "exact sum, a rounded"},
    }
    assert gradient_sentences(result.gradient_conventions) == (
        "none/bf16: dx: exact sum, a rounded; dweight: changes from run to run",
        "none/fp16: dx and dweight: exact sum, a rounded",
    )


# --- naming --------------------------------------------------------------------------------------------


def test_each_gradient_is_named_by_a_consensus_of_its_own():
    """Wrong formulas of dx in three runs, of dweight in nine: neither outvotes the other."""
    verdicts = [bad(f"x[{i}]", wrong("DX-ACCURACY", NO_WEIGHT, check="dx")) for i in range(3)]
    verdicts += [
        bad(f"w[{i}]", wrong("DWEIGHT-ACCURACY", WEIGHT_IN_DWEIGHT, check="dweight")) for i in range(9)
    ]
    result = concluded([*core(), *verdicts])
    assert result.named == ("DX-WEIGHT", "DWEIGHT-XHAT")
    assert result.diagnosis == (
        "equals dx without the weight, in 3 of 3 failing runs",
        "equals dweight with one more factor of the weight, in 9 of 9 failing runs",
    )


def test_one_name_for_two_gradients_keeps_both_sentences():
    same = ("weight_forgotten", "DX-WEIGHT", "equals dresidual without the weight")
    verdict = bad(
        "x[1]",
        wrong("DX-ACCURACY", NO_WEIGHT, check="dx"),
        wrong("DRESIDUAL-ACCURACY", same, check="dresidual"),
    )
    result = concluded([verdict])
    assert result.named == ("DX-WEIGHT",)
    assert len(result.diagnosis) == 2


def test_a_fault_that_dx_and_dresidual_share_is_told_once():
    findings = [wrong("DX-ACCURACY", NO_WEIGHT, check=check) for check in ("dx", "dresidual")]
    result = concluded([bad("x[1]", *findings), bad("x[2]", findings[0])])
    assert result.diagnosis == ("equals dx without the weight, in 2 of 2 failing runs",)


def test_a_wrong_y_is_named_before_its_gradients():
    verdict = bad("x[1]", wrong("SIZE-WIDTH", EPS_OUTSIDE), wrong("DX-ACCURACY", NO_WEIGHT, check="dx"))
    assert concluded([verdict]).named == ("FORMULA-EPS-INSIDE", "DX-WEIGHT")


def test_gradients_wrong_in_most_neutral_runs_are_named_for_accuracy():
    verdicts = [bad(f"x[{i}]", wrong("DX-ROWS", check="dx")) for i in range(3)]
    result = concluded([*core(), *verdicts])
    assert result.named == ("DX-ACCURACY",)
    assert result.diagnosis == ("dx is wrong in 3 failing runs, and no known wrong formula explains them",)
    assert concluded([*core(), *verdicts, *trained()]).named == ("DX-ROWS",)


def test_runs_that_ask_for_another_gradient_say_nothing_about_this_one():
    verdicts = [bad(f"w[{i}]", wrong("DX-ROWS", check="dweight")) for i in range(3)]
    frozen = [training(f"f[{i}]", gradients=("x",)) for i in range(9)]
    assert concluded([*core(), *verdicts, *frozen]).named == ("DWEIGHT-ACCURACY",)


def test_a_second_backward_needs_no_consensus():
    verdicts = [bad(f"x[{i}]", wrong("DX-ACCURACY", NO_WEIGHT, check="dx")) for i in range(9)]
    result = concluded([*verdicts, bad("r[1]", wrong("GRADMODE-RETAINED", check="gradients_repeat"))])
    assert result.named == ("DX-WEIGHT", "GRADMODE-RETAINED")


def test_a_missing_gradient_is_named_before_its_neighbours():
    missing = wrong("DWEIGHT-PRESENT", check="gradients_present")
    verdict = bad("x[1]", wrong("DX-ACCURACY", NO_WEIGHT, check="dx"), missing)
    assert concluded([verdict]).named == ("DWEIGHT-PRESENT", "DX-WEIGHT")


@pytest.mark.parametrize("seed", range(10))
def test_the_order_of_the_verdicts_does_not_matter(seed):
    verdicts = [
        *core(),
        *trained(),
        *(bad(f"x[{i}]", wrong("DX-ACCURACY", NO_WEIGHT, check="dx")) for i in range(4)),
        bad("w[1]", wrong("DWEIGHT-ACCURACY", check="dweight")),
        untrained("g[1]"),
        untrained("g[2]", x="float16"),
        training("h[1]", verdict="unsupported", conventions=(), reason="refused: no", x="float16"),
        training("h[2]", gradient_conventions={"dx": ("mixed",), "dweight": ("exact sum",)}),
    ]
    expected = concluded(verdicts)
    assert concluded(shuffled(verdicts, seed)) == expected
    assert {f.requirement for f in expected.findings} == {"GRADMODE-ALIKE", "REFUSE-ALIKE"}
