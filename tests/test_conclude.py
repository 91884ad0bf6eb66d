"""The verdict on an implementation: certification, conventions, refusals and the name of a failure."""

from __future__ import annotations

import pytest
from reporting_samples import (
    EPS_OUTSIDE,
    NO_TAIL,
    REQUIREMENTS,
    core,
    failing,
    make,
    renamed,
    shuffled,
    wrong,
)

from conformance.model import Call, Verdict
from conformance.reporting.conclude import ImplementationResult, conclude, declared_convention
from conformance.reporting.consistency import convention_sentences


def concluded(verdicts: list[Verdict], **changes) -> ImplementationResult:
    values = {"complete": True, "profile": "default", "declared": {}, "modes": ("none",), **changes}
    return conclude("mine", verdicts, REQUIREMENTS, **values)


# --- certification -------------------------------------------------------------------------------------


def test_a_whole_passing_core_is_certified():
    result = concluded(core())
    assert result.certified
    assert result.reasons == ()
    assert result.named == ()
    assert result.counts["pass"] == 12
    assert result.sentence == (
        "Certified in profile default, grade strict, for none (fp16 bf16), gradients not asked."
    )


@pytest.mark.parametrize("profile", ["default", "inference", "full"])
def test_each_certifying_profile_certifies(profile):
    assert concluded(core(), profile=profile).certified


@pytest.mark.parametrize("profile", ["smoke", "memory", ""])
def test_no_other_profile_certifies(profile):
    result = concluded(core(), profile=profile)
    assert not result.certified
    assert "never certifies" in result.reasons[0]


def test_a_part_of_a_run_is_not_certified():
    result = concluded(core(), complete=False, incomplete_because="only a part was asked (shard 1/2)")
    assert not result.certified
    assert "shard 1/2" in result.sentence


@pytest.mark.parametrize("verdict", ["fail", "crash", "broken"])
def test_one_failure_outside_the_core_is_enough(verdict):
    result = concluded([*core(), make("other/case[fp32]", verdict=verdict, x="float32", reason="it did")])
    assert not result.certified
    assert result.failed


@pytest.mark.parametrize("verdict", ["unsupported", "not run"])
def test_a_core_place_that_passed_in_one_dtype_is_enough_where_the_other_was_not_computed(verdict):
    verdicts = [
        v if v.dtypes["x"] == "bfloat16" else make(v.run, **_place(v), x="float16", verdict=verdict)
        for v in core()
    ]
    assert concluded(verdicts).certified


@pytest.mark.parametrize("verdict", ["unsupported", "not run"])
def test_a_core_place_that_passed_in_no_dtype_is_named(verdict):
    verdicts = [
        v
        if (v.n_rows, v.hidden_size) != (1, 4097)
        else make(v.run, **_place(v), x=v.dtypes["x"], verdict=verdict)
        for v in core()
    ]
    result = concluded(verdicts)
    assert not result.certified
    assert any(f"1 x 4097 ({verdict})" in reason for reason in result.reasons)


def test_every_claimed_mode_needs_the_core():
    result = concluded(core(), modes=("none", "residual"))
    assert not result.certified
    assert "mode residual" in result.reasons[0]
    assert concluded(core(modes=("none", "residual")), modes=("none", "residual")).certified


def test_a_mode_lacking_one_place_is_not_certified():
    verdicts = [
        v
        for v in core(modes=("none", "residual"))
        if (v.mode, v.n_rows, v.hidden_size) != ("residual", 64, 8192)
    ]
    result = concluded(verdicts, modes=("none", "residual"))
    assert not result.certified
    assert "64 x 8192 (not asked)" in result.sentence


def test_nothing_asked_and_nothing_there_are_not_certified():
    assert concluded([]).reasons == ("nothing was asked",)
    assert concluded([], missing="not installed").reasons == ("not installed",)
    assert concluded([make("some/case[bf16]")]).reasons == ("no core case was asked",)


def test_a_warning_does_not_stop_certification():
    result = concluded([*core(), make("other/case[bf16]", verdict="warn")])
    assert result.certified
    assert "1 run with a warning" in result.sentence


def test_what_was_not_asked_is_said_with_its_reason():
    result = concluded([*core(), make("gpu/only[bf16]", verdict="not run", reason="needs a GPU")])
    assert result.certified
    assert result.sentence.endswith("1 run not asked (needs a GPU).")


def test_verdicts_of_others_are_left_out():
    theirs = renamed([failing("core/x[bf16]", wrong("SIZE-WIDTH"))], "theirs")
    assert concluded([*core(), *theirs]) == concluded(core())


def _place(v: Verdict) -> dict:
    return {"core": True, "n_rows": v.n_rows, "hidden_size": v.hidden_size, "conventions": ()}


# --- conventions ---------------------------------------------------------------------------------------


def test_the_convention_is_what_explains_every_run():
    verdicts = [
        make("a[bf16]", conventions=("one rounding", "two roundings")),
        make("b[bf16]", conventions=("two roundings",)),
        make("c[bf16]", conventions=()),
        make("d[fp16]", x="float16", conventions=("one rounding", "two roundings")),
    ]
    result = concluded(verdicts)
    assert result.conventions == {
        "none/bf16": ("two roundings",),
        "none/fp16": ("one rounding", "two roundings"),
    }
    assert result.findings == ()
    assert convention_sentences(result.conventions) == (
        "none/bf16: two roundings",
        "none/fp16: undetermined between 'one rounding' and 'two roundings'",
    )


def changing() -> list[Verdict]:
    return [*core(), make("wide/h[bf16]", conventions=("two roundings",), hidden_size=16384)]


def test_a_convention_that_changes_warns():
    result = concluded(changing())
    (finding,) = result.findings
    assert (finding.requirement, finding.severity) == ("ACCURACY-CONVENTION", "warn")
    assert (
        "'one rounding' explains 6 of 7 runs, but wide/h[bf16] only fits 'two roundings'" in finding.message
    )
    assert result.conventions["none/bf16"] == ()
    assert "changes" in convention_sentences(result.conventions)[0]
    assert result.certified


def test_a_declared_convention_that_changes_fails():
    result = concluded(changing(), declared={"none": "one rounding"})
    assert result.findings[0].severity == "fail"
    assert result.named == ("ACCURACY-CONVENTION",)
    assert not result.certified


def test_a_declared_convention_that_is_not_what_is_computed_fails():
    result = concluded(core(), declared={"none": "two roundings"})
    assert result.findings[0].severity == "fail"
    assert "correct the declaration or the kernel" in result.findings[0].message
    assert concluded(core(), declared={"none": "one rounding"}).certified


def test_a_part_of_a_convention_may_be_declared():
    verdicts = core(modes=("residual",))
    assert concluded(verdicts, modes=("residual",), declared={"residual": "exact sum"}).certified
    assert not concluded(verdicts, modes=("residual",), declared={"residual": "rounded sum"}).certified


def test_a_declaration_in_words():
    assert (
        declared_convention(Call(None, (), norm_input="exact_sum", rounds_x_hat=False))
        == "one rounding, exact sum"
    )
    assert declared_convention(Call(None, (), rounds_x_hat=True)) == "two roundings"
    assert declared_convention(Call(None, ())) == ""


def test_dtype_mixes_have_their_own_convention():
    mixed = make("m[mix]", dtypes={"x": "bfloat16", "weight": "float32"}, conventions=("two roundings",))
    result = concluded([*core(), mixed])
    assert result.conventions["none/x=bf16,weight=fp32"] == ("two roundings",)
    assert result.findings == ()


# --- refusals ------------------------------------------------------------------------------------------


def refused(run: str, **changes) -> Verdict:
    return make(run, verdict="unsupported", conventions=(), reason="ValueError: no", **changes)


def test_a_refused_size_fails():
    result = concluded([*core(), refused("size/h[bf16,h=4099]", hidden_size=4099)])
    (finding,) = result.findings
    assert (finding.requirement, finding.severity) == ("REFUSE-ALIKE", "fail")
    assert finding.where["run"] == "size/h[bf16,h=4099]"
    assert result.named == ("REFUSE-ALIKE",)
    assert not result.certified
    assert "nothing failed in none (fp16)" in result.sentence


@pytest.mark.parametrize(
    "changes",
    [
        {"features": ("x:column_step",)},
        {"x": "float32"},
        {"dtypes": {"x": "bfloat16", "weight": "float32"}},
        {"mode": "residual"},
    ],
)
def test_a_layout_a_dtype_a_mix_and_a_mode_may_be_refused(changes):
    result = concluded([*core(), refused("other/run[a]", **changes), refused("other/run[b]", **changes)])
    assert result.findings == ()
    assert result.certified


def test_a_layout_refused_for_one_size_only_fails():
    layout = {"features": ("x:row_slice",)}
    result = concluded(
        [*core(), make("l[a]", **layout), refused("l[b]", **layout), refused("l[c]", **layout)]
    )
    (finding,) = result.findings
    assert "refused l[b] and 1 more (ValueError: no), but computed l[a]" in finding.message


def test_a_run_meant_to_be_refused_is_no_twin():
    passed_by_refusing = make("refuse/eps[fp32]", x="float32", conventions=(), requirements=("REFUSE-EPS",))
    result = concluded([*core(), passed_by_refusing, refused("size/h[fp32]", x="float32")])
    assert result.findings == ()


# --- naming --------------------------------------------------------------------------------------------


def test_the_candidate_of_most_failing_runs_names_wrong_values():
    verdicts = [failing(f"eps/near[{i}]", wrong("SIZE-WIDTH", EPS_OUTSIDE, NO_TAIL)) for i in range(3)]
    verdicts += [failing(f"eps/far[{i}]", wrong("ACCURACY-INTERVAL", EPS_OUTSIDE)) for i in range(11)]
    verdicts += [failing(f"eps/other[{i}]", wrong("SIZE-WIDTH")) for i in range(3)]
    result = concluded([*core(), *verdicts])
    assert result.named == ("FORMULA-EPS-INSIDE",)
    assert result.diagnosis[0] == "equals the result with eps outside the root, in 14 of 17 failing runs"
    assert result.sentence.startswith(
        "Not certified: violates FORMULA-EPS-INSIDE (eps is added inside the root); "
    )


def test_a_candidate_of_few_failing_runs_does_not_name_them():
    verdicts = [
        failing("a[1]", wrong("SIZE-WIDTH", NO_TAIL)),
        failing("a[2]", wrong("ACCURACY-INTERVAL", EPS_OUTSIDE)),
        failing(
            "a[3]",
            wrong("ACCURACY-INTERVAL", ("other", "FORMULA-DIVISOR", "equals another result")),
        ),
    ]
    result = concluded([*core(), *verdicts])
    assert result.named == ("SIZE-WIDTH",)
    assert "no known wrong formula explains half of them" in result.diagnosis[0]


def test_values_wrong_in_most_neutral_runs_are_named_for_accuracy():
    """Three of four plain runs wrong, each in a case about something else: nothing narrower is to blame."""
    verdicts = [failing(f"a[{i}]", wrong("SIZE-WIDTH")) for i in range(3)]
    assert concluded([*verdicts, make("a[3]")]).named == ("ACCURACY-INTERVAL",)
    assert concluded([*verdicts, make("a[3]"), make("a[4]")]).named == ("SIZE-WIDTH",)


def test_neutral_runs_name_wrong_values_before_those_with_features():
    verdicts = [
        failing("a[1]", wrong("ACCURACY-INTERVAL")),
        failing(
            "a[2]",
            wrong("STRIDE-X"),
            neutral=False,
            features=("x:row_slice",),
            requirements=("STRIDE-X",),
        ),
    ]
    assert concluded(verdicts).named == ("ACCURACY-INTERVAL",)


def test_runs_with_features_alone_are_named_by_rank():
    stride = {"neutral": False, "features": ("x:row_slice",), "requirements": ("STRIDE-X",)}
    verdicts = [failing("a[1]", wrong("ACCURACY-INTERVAL"), **stride)]
    verdicts.append(failing("a[2]", wrong("STRIDE-X"), **stride))
    assert concluded(verdicts).named == ("STRIDE-X",)


@pytest.mark.parametrize("proven", ["MEM-READ", "INVARIANCE-FRESH", "ACCURACY-ROUNDING"])
def test_what_the_values_prove_needs_no_consensus(proven):
    verdicts = [failing(f"a[{i}]", wrong("SIZE-WIDTH", EPS_OUTSIDE)) for i in range(9)]
    result = concluded([*verdicts, failing("b[1]", wrong(proven))])
    assert set(result.named) == {proven, "FORMULA-EPS-INSIDE"}


def test_other_checks_are_named_by_rank_and_before_values():
    verdicts = [
        failing("a[1]", wrong("FORMULA-EPS-INSIDE", EPS_OUTSIDE)),
        failing("a[2]", wrong("MEM-WRITE", check="guard_bands")),
        failing("a[3]", wrong("SIZE-WIDTH", EPS_OUTSIDE)),
    ]
    result = concluded(verdicts)
    assert result.named == ("MEM-WRITE", "FORMULA-EPS-INSIDE")
    assert result.diagnosis[0].startswith("MEM-WRITE: ")
    assert result.diagnosis[0].endswith("(1 run)")


def test_a_crash_without_a_finding_is_named():
    result = concluded([*core(), make("a[1]", verdict="crash", reason="the worker died of signal 11")])
    assert result.named == ("RUN-COMPLETES",)
    assert "signal 11" in result.diagnosis[0]


def test_an_unknown_requirement_is_named_last():
    result = concluded(
        [failing("a", wrong("ODD-ONE", check="odd"), wrong("ACCURACY-INTERVAL", check="bias"))]
    )
    assert result.named == ("ACCURACY-INTERVAL", "ODD-ONE")


def test_warnings_are_not_named():
    warned = make("a[1]", verdict="warn", findings=(wrong("STRIDE-X"),))
    assert concluded([*core(), warned]).named == ()


# --- order ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_the_order_of_the_verdicts_does_not_matter(seed):
    verdicts = [
        *changing(),
        *(failing(f"eps/near[{i}]", wrong("SIZE-WIDTH", NO_TAIL, EPS_OUTSIDE)) for i in range(4)),
        failing("tail[1]", wrong("TAIL-COLUMNS", NO_TAIL)),
        failing("guard[1]", wrong("MEM-WRITE", check="guard_bands")),
        failing("guard[2]", wrong("MEM-WRITE", check="guard_bands")),
        refused("size[1]", hidden_size=3),
        refused("size[2]", hidden_size=5),
        make("gpu[1]", verdict="not run", reason="needs a GPU"),
        make("gpu[2]", verdict="not run", reason="needs memory"),
    ]
    expected = concluded(verdicts)
    assert concluded(shuffled(verdicts, seed)) == expected
    assert len(expected.named) == 3
