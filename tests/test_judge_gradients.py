"""The verdict on a training run: forward only, conventions, and what is not said of a gradient."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from gradient_counterexamples import ALONE, FUSED, PLAIN, RIGHT, STATISTIC, fused, plain, right_dx, without
from in_process import REQUIREMENTS, InProcess, call
from small_runs import training

from conformance.judge import judge
from conformance.model import Run, Verdict


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[InProcess]:
    made = InProcess(monkeypatch)
    yield made
    made.arena.close()


def verdict(server: InProcess, run: Run, function) -> Verdict:
    observation = server.observe(run, call(function, run.mode))
    return judge(replace(observation, twin="pass"), "mine", REQUIREMENTS, "strict")


def found(verdict: Verdict) -> set[tuple[str, str]]:
    return {(f.check, f.requirement) for f in verdict.findings if f.severity != "info"}


def test_a_training_run_names_the_conventions_of_its_gradients(server: InProcess) -> None:
    """One list for each gradient that was asked for, and the share of the allowed error."""
    got = verdict(server, FUSED, RIGHT["residual"])
    assert (got.verdict, got.gradients) == ("pass", ("x", "residual", "weight"))
    assert set(got.gradient_conventions) == {"dx", "dresidual", "dweight"}
    assert all("exact sum" in names[0] for names in got.gradient_conventions.values())
    assert all(0.0 <= got.stats[f"{name}_share"] <= 1.0 for name in got.gradient_conventions)
    assert got.conventions


def test_no_graph_at_all_is_forward_only(server: InProcess) -> None:
    """It is no failure of a training run, and no pass."""
    got = verdict(server, PLAIN, lambda *a: RIGHT["none"](*a).detach())
    assert (got.verdict, got.reason) == ("unsupported", "forward only: no output requires grad")
    assert not got.findings
    assert not got.gradient_conventions


def test_a_forward_only_op_still_fails_for_its_y(server: InProcess) -> None:
    """What is wrong without any gradient is not excused."""
    got = verdict(server, PLAIN, lambda *a: 2 * RIGHT["none"](*a).detach())
    assert got.verdict == "fail"
    assert {check for check, _ in found(got)} == {"values", "statistics"} & {c for c, _ in found(got)}


def test_nothing_is_said_of_the_gradient_of_a_wrong_y(server: InProcess) -> None:
    """The gradient of something else is no second fault."""
    got = verdict(server, PLAIN, lambda *a: 2 * RIGHT["none"](*a))
    assert got.verdict == "fail"
    assert not {check for check, _ in found(got)} & {"dx", "dweight"}


@pytest.mark.parametrize("gradient", [None, 0.0])
def test_the_weight_needs_no_gradient_from_residual_out(server: InProcess, gradient: float | None) -> None:
    """It reaches y alone: None and zeros are right where residual_out's gradient alone arrives."""
    change = without(2) if gradient is None else lambda s, g: (*g[:2], torch.zeros_like(s.own_weight))
    assert verdict(server, ALONE, fused(returned=change)).verdict == "pass"


def test_a_backward_that_raises_is_refused_like_a_forward(server: InProcess) -> None:
    """Beside a twin that passed it is unsupported, and the reason says where it raised."""

    def raises(s):
        raise ValueError("not in this layout")

    run = training(rows=7, layouts={"dy": "row_slice"})
    got = verdict(server, run, plain(dx=raises))
    assert got.verdict == "unsupported"
    assert "not in this layout" in got.reason
    observation = server.observe(run, call(plain(dx=raises)))
    failed = judge(observation, "mine", REQUIREMENTS, "strict")
    assert failed.verdict == "fail"
    assert "in the backward" in failed.findings[0].message


def test_a_dx_that_cannot_tell_how_the_statistic_was_read_says_nothing(server: InProcess) -> None:
    """With one column the two terms of dx cancel, whatever the statistic was taken for."""
    run = replace(STATISTIC, shape=(7, 1))
    inverted = plain(statistic=lambda s: 1 / s.rrms, rrms=lambda s: 1 / s.saved)
    run = replace(run, gradients=("x",))
    assert verdict(server, run, inverted).verdict == "pass"
    assert found(verdict(server, STATISTIC, inverted)) == {("saved_statistic", "RRMS-RECIPROCAL")}


def test_dweight_tells_how_the_statistic_was_read(server: InProcess) -> None:
    """Where the weight alone requires a gradient."""
    run = replace(STATISTIC, gradients=("weight",))
    assert verdict(server, run, RIGHT["none"]).verdict == "pass"
    inverted = plain(statistic=lambda s: 1 / s.rrms, rrms=lambda s: 1 / s.saved)
    assert found(verdict(server, run, inverted)) == {("saved_statistic", "RRMS-RECIPROCAL")}


def test_plain_torch_saves_and_reads_its_statistic(server: InProcess) -> None:
    """Autograd of the formula keeps the reciprocal root, (n_rows, 1) in fp32, and multiplies by it."""

    def norm(x, weight, eps):
        x32 = x.float()
        return (x32 * torch.rsqrt(x32.square().mean(-1, keepdim=True) + eps) * weight).to(x.dtype)

    assert verdict(server, STATISTIC, norm).verdict == "pass"


def test_a_doubled_statistic_may_be_refused(server: InProcess) -> None:
    """The suite has doubled it: an op that notices is no worse for that."""
    calls = []

    def dx(s):
        calls.append(s)
        if len(calls) > 1:
            raise RuntimeError("this statistic is not that of x")
        return right_dx(s)

    assert verdict(server, STATISTIC, plain(dx=dx)).verdict == "unsupported"
