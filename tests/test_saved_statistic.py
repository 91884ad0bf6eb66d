"""Retained graphs, and the statistic that a forward saves for its backward."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from in_process import InProcess, call
from small_runs import training
from training_calls import EPS, expected, function_of, norm, right, values, writes_dy

from conformance.run import Observation, gradient_bits
from conformance.seen import Seen, to_float64


def test_a_retained_graph_is_gone_through_twice(worker: InProcess) -> None:
    """The second step has gradients and no forward, and starts from what the first left behind."""
    shown = worker.observe(training(scenario="retained"), call(function_of(right)))
    first, second = shown.steps
    assert (first.forward, second.forward) == (True, False)
    assert (gradient_bits(first, "x") == gradient_bits(second, "x")).all()
    assert "returns" not in second.record
    assert (second.after_data[0] == first.data[0]).all()
    assert set(second.before) == set(first.before)
    assert (second.before["x"] == first.after["x"]).all()
    views = Seen(shown, "strict").views
    assert [v.has_forward for v in views] == [True, False]
    assert views[1].output("y") is None
    assert views[1].gradient("weight").name == "dweight"  # type: ignore[union-attr]
    torch.testing.assert_close(views[1].gradient_values("weight"), values(first, "weight"))


def test_two_graphs_are_alive_at_a_time(worker: InProcess) -> None:
    """Forward of A, all of B, backward of A: each with its own contents, and what B gave stays."""
    shown = worker.observe(training(scenario="interleaved"), call(function_of(right)))
    first, between, last = shown.steps
    assert [(s.forward, s.backward) for s in shown.steps] == [(True, False), (True, True), (False, True)]
    assert not first.gradient_data
    for index, step in ((1, between), (2, last)):
        wanted = expected(shown, index)
        torch.testing.assert_close(values(step, "x"), wanted["x"], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(values(step, "weight"), wanted["weight"], rtol=1e-5, atol=1e-5)
    assert (first.bits["x"] == last.bits["x"]).all()
    assert (first.bits["x"] != between.bits["x"]).any()
    assert all(np.array_equal(between.kept_data[r], between.gradient_data[r]) for r in ("x", "weight"))


def test_dy_arrives_again_whole(worker: InProcess) -> None:
    """A backward that may overwrite dy finds the right one the second time."""
    shown = worker.observe(training(scenario="retained"), call(function_of(writes_dy), consumes_dy=True))
    first, second = shown.steps
    assert (gradient_bits(first, "x") == gradient_bits(second, "x")).all()


def test_a_backward_that_overwrites_what_it_saved_differs_the_second_time(worker: InProcess) -> None:
    """The second step shows it."""

    def consumes(ctx, dy):
        gradients = right(ctx, dy)
        ctx.saved_tensors[2].data.mul_(2)
        return gradients

    first, second = worker.observe(training(scenario="retained"), call(function_of(consumes))).steps
    assert (gradient_bits(first, "x") != gradient_bits(second, "x")).any()


@pytest.mark.parametrize("scenario", ["retained", "saved_statistic"])
def test_a_compiled_op_can_be_asked_the_same(worker: InProcess, scenario: str) -> None:
    """By default torch.compile refuses a second backward; hooks see what its graph saves."""
    compiled = torch.compile(norm, backend="aot_eager")
    first, second = worker.observe(training(scenario=scenario), call(compiled, compiled=True)).steps
    assert (first.record["status"], second.record["status"]) == ("returned", "returned")
    same = (gradient_bits(first, "weight") == gradient_bits(second, "weight")).all()
    assert same == (scenario == "retained")


# --- the saved statistic --------------------------------------------------------------------------------


class OnCtx(torch.autograd.Function):
    """Keeps its statistic as an attribute of ctx, and nothing through save_for_backward."""

    @staticmethod
    def forward(ctx, x, weight, eps):
        ctx.tensors = x, weight
        ctx.rstd = torch.rsqrt(x.float().square().mean(-1) + eps)
        return norm(x, weight, eps)

    @staticmethod
    def backward(ctx, dy):
        class Held:
            saved_tensors = (*ctx.tensors, ctx.rstd)

        return *right(Held, dy), None


def recomputes(ctx, dy):
    x, weight, _ = ctx.saved_tensors

    class Held:
        saved_tensors = (x, weight, torch.rsqrt(x.float().square().mean(-1) + EPS))

    return right(Held, dy)


def exact_rrms(shown: Observation) -> torch.Tensor:
    x = to_float64(shown.steps[0].bits["x"], "float32", "cpu")
    return torch.rsqrt(x.square().mean(-1) + EPS)


@pytest.mark.parametrize(
    ("function", "name"), [(function_of(right), "saved tensor 3"), (OnCtx.apply, "ctx.rstd")]
)
def test_the_saved_statistic_is_found_and_handed_on_doubled(
    worker: InProcess, function: Any, name: str
) -> None:
    """Through save_for_backward or as an attribute of ctx: its values, and a dx that follows the double."""
    shown = worker.observe(training(scenario="saved_statistic"), call(function))
    first, second = shown.steps
    (found,) = first.record["saved"]
    assert (found["name"], found["dtype"], found["shape"]) == (name, "float32", [3])
    saved = torch.from_numpy(first.saved_data[0].view(np.float32)).double()
    torch.testing.assert_close(saved, exact_rrms(shown), rtol=1e-6, atol=0.0)
    assert second.record["doubled"] == 1
    torch.testing.assert_close(values(first, "x"), expected(shown)["x"], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(values(second, "weight"), 2 * values(first, "weight"))
    assert (first.data[0] == second.data[0]).all()  # y is what it was


def test_plain_torch_saves_its_statistic_too(worker: InProcess) -> None:
    """What torch's own operations keep goes through the same hooks."""
    first, second = worker.observe(training(scenario="saved_statistic"), call(norm)).steps
    assert [s["shape"] for s in first.record["saved"]] == [[3, 1]]
    assert second.record["doubled"] == 1
    assert (gradient_bits(first, "x") != gradient_bits(second, "x")).any()


def test_a_backward_that_recomputes_does_not_follow(worker: InProcess) -> None:
    """What is saved and not read changes nothing when it is doubled."""
    first, second = worker.observe(training(scenario="saved_statistic"), call(function_of(recomputes))).steps
    assert second.record["doubled"] == 1
    assert (gradient_bits(first, "x") == gradient_bits(second, "x")).all()


def test_inputs_and_outputs_are_no_statistic(worker: InProcess) -> None:
    """A saved weight with as many elements as there are rows is an input, and stays as it is."""
    first, second = worker.observe(training(4, 4, scenario="saved_statistic"), call(function_of(right))).steps
    assert [s["name"] for s in first.record["saved"]] == ["saved tensor 3"]
    assert second.record["doubled"] == 1


# --- one element ----------------------------------------------------------------------------------------


def test_one_element_is_copied_whatever_its_stride(worker: InProcess) -> None:
    """Torch calls it contiguous, and gives no bytes of it: what is returned, saved, and each gradient."""

    def stepped(tensor):
        return (
            torch.zeros(tensor.numel(), 2)[:, :1]
            .copy_(tensor.reshape(-1, 1))
            .as_strided(tensor.shape, (2,) * tensor.ndim)
        )

    class Norm(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight, eps):
            ctx.save_for_backward(x, weight, stepped(torch.rsqrt(x.square().mean(-1) + eps)))
            return stepped(norm(x, weight, eps))

        @staticmethod
        def backward(ctx, dy):
            dx, dweight = right(ctx, dy)
            return stepped(dx), stepped(dweight), None

    shown = worker.observe(training(1, 1, scenario="saved_statistic"), call(Norm.apply))
    first, _ = shown.steps
    assert first.record["returns"][0]["strides"] == [2, 2]
    assert [s["shape"] for s in first.record["saved"]] == [[1]]
    for role in ("x", "weight"):
        torch.testing.assert_close(values(first, role), expected(shown)[role])
