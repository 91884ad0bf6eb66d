"""Which runs are asked, why the others are not, and which neutral twins decide about a refusal."""

from __future__ import annotations

from dataclasses import replace

import pytest
from in_process import call
from small_runs import run, training

from conformance.load import bundled, load
from conformance.model import DTYPES, Backward, Call, Implementation, NotPlanned, Parameter, PlannedRun, Run
from conformance.plan import Machine, plan, selected, twins

CPU = Machine("cpu", 8.0)
GPU = Machine("cuda", 80.0, "a card")


def implementation(one: Call, **changes: object) -> Implementation:
    return Implementation("mine", {"none": one}, **changes)  # type: ignore[arg-type]


def asked(run_: Run, one: Call, machine: Machine = CPU, **changes: object) -> PlannedRun | NotPlanned:
    return plan(run_, implementation(one, **changes), machine)


USUAL = call(lambda x, weight, eps: x)
BARE = Call(None, (Parameter("x", "x"),))


def test_a_plain_run_is_planned() -> None:
    """Nothing stands against an ordinary run."""
    assert asked(run(), USUAL) == PlannedRun("mine", run())


@pytest.mark.parametrize(
    ("needs", "machine", "word"),
    [
        (("gpu",), CPU, "needs a GPU"),
        (("memory:9",), CPU, "needs 9 GiB"),
        (("gpu", "memory:81"), GPU, "80 GiB are free"),
    ],
)
def test_what_the_machine_lacks_is_not_run(needs: tuple[str, ...], machine: Machine, word: str) -> None:
    """No GPU and too little memory are `not run`, with the reason: never the implementation's fault."""
    found = asked(run(needs=needs), USUAL, machine)
    assert isinstance(found, NotPlanned)
    assert found.verdict == "not run"
    assert word in found.reason


def test_what_the_machine_has_is_planned() -> None:
    """The same needs on a machine that meets them are no obstacle."""
    assert isinstance(asked(run(needs=("gpu", "memory:80")), USUAL, GPU), PlannedRun)


def test_a_device_that_is_not_declared_is_not_run() -> None:
    """An implementation for GPUs is not run on a CPU, and the reason names both."""
    found = asked(run(), USUAL, devices=("cuda",))
    assert isinstance(found, NotPlanned)
    assert found.verdict == "not run"
    assert "runs on cuda and this is cpu" in found.reason


@pytest.mark.parametrize(
    ("run_", "one", "word"),
    [
        (run(eps=None), USUAL, "eps is required"),
        (run(), Call(None, (Parameter("x", "x"), Parameter("weight", "weight"))), "no parameter for eps"),
        (run(), Call(None, (Parameter("x", "x"), Parameter("eps", "eps"))), "no parameter for weight"),
        (run(dtypes={"x": "float32"}), USUAL, "weight is required"),
        (run(out=True), USUAL, "no parameter for out"),
        (run(layouts={"out": "row_slice"}), USUAL, "no parameter for out"),
        (run(weight_offset=1.0), USUAL, "no parameter for weight_offset"),
    ],
)
def test_what_a_call_cannot_be_asked_is_unsupported(run_: Run, one: Call, word: str) -> None:
    """A missing or a required parameter is `unsupported`, with the parameter in the reason."""
    found = asked(run_, one)
    assert isinstance(found, NotPlanned)
    assert found.verdict == "unsupported"
    assert word in found.reason


def test_a_neutral_run_has_no_twin_but_other_dtypes() -> None:
    """What is plain already can be compared only with the same sizes in another dtype."""
    assert [t.dtypes["x"] for t in twins(run(), DTYPES)] == ["float16", "bfloat16"]


def test_a_twin_drops_what_may_be_refused_and_keeps_what_may_not() -> None:
    """Layout, rank, mix, out and offset go; mode, n_rows, width, fills and a stated eps stay."""
    special = run(
        shape=(2, 3, 40), dtypes={"x": "bfloat16", "weight": "float32"}, layouts={"x": "column_step"},
        out=True, weight_offset=1.0, eps=1e-3, scenario="repeat",
    )  # fmt: skip
    first, *others = twins(special, DTYPES)
    assert first.features == ()
    assert (first.shape, first.n_rows, first.eps, first.scenario) == ((6, 40), 6, 1e-3, "once")
    assert set(first.dtypes.values()) == {"bfloat16"}
    assert first.fills["x"] == special.fills["x"]
    assert [t.dtypes["x"] for t in others] == ["float32", "float16"]


def test_a_twin_of_a_run_without_weight_or_eps_has_both() -> None:
    """What was left out is passed in the twin, so that leaving it out is what is being refused."""
    (first, *_) = twins(run(dtypes={"x": "float32"}, eps=None), DTYPES)
    assert "weight" in first.dtypes
    assert "weight" in first.fills
    assert first.eps == 1e-5


def test_twins_of_a_wrong_argument_are_valid() -> None:
    """The twin of a refusal asks the same without the wrong argument."""
    for twin in twins(run(fault="weight_too_long", scenario="refuse"), DTYPES):
        assert (twin.fault, twin.scenario) == (None, "once")


CASES = load([bundled()])


def ids(profile: str, one: Call) -> set[str]:
    return {r.id for r in selected(CASES, profile, {"none": one})}


def test_profiles_and_modes_select() -> None:
    """smoke is a part of inference, full holds everything; unclaimed modes are left out."""
    asked = {p: ids(p, USUAL) for p in ("smoke", "inference", "training", "full")}
    assert asked["smoke"] < asked["inference"] < asked["full"]
    assert asked["training"] < asked["full"]
    assert not asked["inference"] & asked["training"]
    assert all(r.mode == "none" for r in selected(CASES, "full", {"none": USUAL}))
    assert selected(CASES, "full", {}) == []


EXPLICIT = Backward(None, (Parameter("dy", "dy"), Parameter("x", "x"), Parameter("rrms", "rrms")))


@pytest.mark.parametrize(
    ("one", "trains"),
    [
        (USUAL, True),
        (replace(USUAL, differentiable=True), True),
        (replace(USUAL, differentiable=False), False),
        (replace(USUAL, differentiable=False, backward=EXPLICIT), True),
    ],
)
def test_the_default_profile_trains_what_has_gradients(one: Call, trains: bool) -> None:
    """inference, and training unless the call is known to be forward only; an explicit backward will do."""
    expected = ids("inference", one) | (ids("training", one) if trains else set())
    assert ids("default", one) == expected


@pytest.mark.parametrize("profile", ["training", "full"])
def test_a_forward_only_call_is_unsupported_where_training_is_asked_for(profile: str) -> None:
    """Its training runs are shown, as unsupported, with the reason."""
    one = replace(USUAL, differentiable=False)
    training_ids = {r.id for r in selected(CASES, profile, {"none": one}) if r.trains}
    assert training_ids == ids("training", USUAL)
    found = asked(training(), one)
    assert isinstance(found, NotPlanned)
    assert (found.verdict, found.reason) == ("unsupported", "forward only: no output requires grad")


@pytest.mark.parametrize("differentiable", [True, None])
def test_a_training_run_is_planned(differentiable: bool | None) -> None:
    """Where there are gradients, or nobody knows, it is asked."""
    one = replace(USUAL, differentiable=differentiable)
    assert isinstance(asked(training(), one), PlannedRun)


def test_a_twin_of_a_training_run_asks_for_the_same_gradients() -> None:
    """What is wanted, what arrives and its fill stay; layout, rank, mix and scenario go."""
    special = training(
        shape=(2, 3, 40), mode="residual", gradients=("x", "weight"), upstream=("residual_out",),
        layouts={"dresidual_out": "expanded", "x": "row_slice"}, scenario="retained",
        dtypes={"x": "bfloat16", "residual": "float32", "weight": "float32"},
    )  # fmt: skip
    first, *others = twins(special, DTYPES)
    assert (first.gradients, first.upstream) == (("x", "weight"), ("residual_out",))
    assert first.fills["dresidual_out"] == special.fills["dresidual_out"]
    assert (first.layouts, first.scenario, first.shape) == ({}, "once", (6, 40))
    assert first.dtype_of("dresidual_out") == "bfloat16"
    assert len(others) == 2
