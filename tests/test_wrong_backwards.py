"""What the record says where a backward is wrong, and what is watched while it runs."""

from __future__ import annotations

from typing import Any

import torch
from in_process import InProcess, call
from small_runs import training
from training_calls import (
    changes_the_default_dtype,
    expected,
    function_of,
    leaves_without_exception,
    norm,
    only,
    raises,
    right,
    values,
    writes_dy,
    writes_grad,
    writes_y,
)

from conformance.run import Step, gradient_bits
from conformance.seen import Seen


def backward(worker: InProcess, wrong: Any, **changes: Any) -> Step:
    return only(worker.observe(training(**changes), call(function_of(wrong))))


def test_a_right_backward_leaves_nothing_to_say(worker: InProcess) -> None:
    """The function that the wrong ones are made of gives right gradients, and touches nothing."""
    shown = worker.observe(training(), call(function_of(right)))
    step = only(shown)
    for role, wanted in expected(shown).items():
        torch.testing.assert_close(values(step, role), wanted, rtol=1e-5, atol=1e-5)
    assert step.record["unasked"] == []
    assert (step.before["dy"] == step.after["dy"]).all()
    assert (step.data[0] == step.after_data[0]).all()


def test_a_missing_gradient_is_a_slot_without_a_tensor(worker: InProcess) -> None:
    """None for the weight is kind `none`, and the other gradient is there."""
    step = backward(worker, lambda ctx, dy: (right(ctx, dy)[0], None))
    assert step.record["gradients"]["weight"]["kind"] == "none"
    assert gradient_bits(step, "weight") is None
    assert gradient_bits(step, "x") is not None


def test_a_written_dy_is_seen(worker: InProcess) -> None:
    """dy is in a guarded buffer: what the backward writes into it is in the image afterwards."""
    step = backward(worker, writes_dy)
    assert (step.before["dy"] != step.after["dy"]).any()
    assert (step.before["x"] == step.after["x"]).all()


def test_an_output_that_the_backward_writes_is_seen(worker: InProcess) -> None:
    """y is copied after the forward and again after the backward."""
    step = backward(worker, writes_y)
    first, second = step.data[0], step.after_data[0]
    assert first is not None
    assert second is not None
    assert first.any()
    assert not second.any()


def test_a_written_grad_is_told(worker: InProcess) -> None:
    """torch.autograd.grad writes no .grad, so one that is there was written by the backward."""
    assert backward(worker, writes_grad).record["unasked"] == ["weight.grad was written"]


def test_requires_grad_that_was_switched_is_told(worker: InProcess) -> None:
    """A frozen weight that requires a gradient afterwards is told of."""

    def switches(x, weight, eps):
        weight.requires_grad_()
        return norm(x, weight, eps)

    step = only(worker.observe(training(gradients=("x",)), call(switches)))
    assert step.record["unasked"] == ["weight.requires_grad was switched on"]
    assert set(step.record["gradients"]) == {"x"}


def test_a_backward_that_raises_says_where(worker: InProcess) -> None:
    """The forward's output is kept; the phase is backward."""
    step = backward(worker, raises)
    assert (step.record["status"], step.record["phase"]) == ("raised", "backward")
    assert "no backward here" in step.record["exception"]["text"]
    assert step.data[0] is not None
    assert step.record["graph"] == ["y"]


class UnreadableError(ValueError):
    """An exception whose own code is wrong."""

    def __str__(self):
        raise KeyError("no text")


def raises_unreadably(ctx, dy):
    raise UnreadableError


def test_an_exception_without_a_message_is_told(worker: InProcess) -> None:
    """What it says cannot be read: that is the implementation's fault, and no reason to stop."""
    step = backward(worker, raises_unreadably)
    assert step.record["status"] == "raised"
    assert "cannot be read" in step.record["exception"]["text"]


def test_a_backward_that_leaves_without_an_exception(worker: InProcess) -> None:
    """SystemExit in a backward is the implementation's, not the worker's end."""
    step = backward(worker, leaves_without_exception)
    assert (step.record["status"], step.record["phase"]) == ("left by no Exception", "backward")


def test_state_that_a_backward_changes_is_told(worker: InProcess) -> None:
    """Another default dtype is drift, and put back."""
    step = backward(worker, changes_the_default_dtype)
    assert "the default dtype was changed from torch.float32 to torch.float64" in step.record["drift"]
    assert torch.get_default_dtype() == torch.float32


def test_a_gradient_that_autograd_refuses_is_told_by_input(worker: InProcess) -> None:
    """A scalar dweight is refused by autograd itself: which input's gradient that was is in the record."""
    step = backward(worker, lambda ctx, dy: (right(ctx, dy)[0], right(ctx, dy)[1].sum()))
    assert (step.record["status"], step.record["phase"]) == ("raised", "backward")
    assert step.record["invalid_gradient"]["role"] == "weight"
    assert "got []" in step.record["invalid_gradient"]["said"]


def test_a_gradient_in_another_dtype_is_cast_by_autograd(worker: InProcess) -> None:
    """What comes back has the input's dtype, since autograd casts what a function returns."""
    step = backward(worker, lambda ctx, dy: tuple(g.double() for g in right(ctx, dy)), dtype="bfloat16")
    assert {slot["dtype"] for slot in step.record["gradients"].values()} == {"bfloat16"}


def test_an_op_without_a_graph_is_not_asked(worker: InProcess) -> None:
    """Outputs that require no gradient: no backward is made, and none is said to have failed."""

    @torch.no_grad()
    def forward_only(x, weight, eps):
        return norm(x, weight, eps)

    shown = worker.observe(training(), call(forward_only))
    step = only(shown)
    assert (step.record["status"], step.record["phase"]) == ("returned", "forward")
    assert step.record["graph"] == []
    assert "gradients" not in step.record
    assert not Seen(shown, "strict").differentiable


@torch.library.custom_op("conformance_training_tests::norm", mutates_args=())
def operator(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return norm(x, weight, eps)


def test_an_operator_registered_without_a_backward_has_no_graph(worker: InProcess) -> None:
    """torch puts a node behind it that only raises: nobody promised a gradient."""
    step = only(worker.observe(training(), call(operator)))
    assert (step.record["status"], step.record["graph"]) == ("returned", [])
    assert "exception" not in step.record


def test_an_output_of_another_size_is_not_asked(worker: InProcess) -> None:
    """dy cannot be given for a y of another size; what is wrong with y is said elsewhere."""
    step = only(worker.observe(training(), call(lambda x, weight, eps: norm(x, weight, eps)[:1])))
    assert step.record["status"] == "returned"
    assert {slot["kind"] for slot in step.record["gradients"].values()} == {"none"}


def test_unwritten_elements_and_stray_stores_of_a_backward_are_guarded(worker: InProcess) -> None:
    """What a backward allocates lies between canaries and starts as poison, as in a forward."""

    def unwritten(ctx, dy):
        dx, dweight = right(ctx, dy)
        made = torch.empty_like(dx)
        made[:-1] = dx[:-1]
        return made, dweight

    step = backward(worker, unwritten)
    slot = step.record["gradients"]["x"]
    assert slot["poisonable"]
    assert slot["allocation"] is not None
    bits = gradient_bits(step, "x")
    assert bits is not None
    assert (bits[-1] == 0xFFD3FFD3).all()
    assert len(step.bands) == len(step.record["allocations"]) > 0
