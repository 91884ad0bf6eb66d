"""A training run: leaves, gradients, scenarios, and what the checks look at."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from in_process import InProcess, call
from small_runs import run, training
from training_calls import expected, fused, norm, only, values

from conformance.seen import Seen


@pytest.mark.parametrize("layout", ["contiguous", "expanded", "row_slice", "column_step", "transposed"])
@pytest.mark.parametrize("mode", ["none", "residual"])
def test_gradients_come_back_by_input(worker: InProcess, mode: str, layout: str) -> None:
    """dx, dresidual and dweight are those of the supplied bits, whatever the layout of what arrives."""
    asked = training(mode=mode)
    asked = replace(asked, layouts={r: layout for r in ("dy", "dresidual_out") if r in asked.fills})
    shown = worker.observe(asked, call(norm if mode == "none" else fused, mode))
    step = only(shown)
    assert (step.record["status"], step.record["phase"]) == ("returned", "backward")
    assert step.record["graph"] == list(asked.upstream)
    for role, right in expected(shown).items():
        torch.testing.assert_close(values(step, role), right, rtol=1e-5, atol=1e-5)
    assert step.record["unasked"] == step.record["drift"] == []


@pytest.mark.parametrize("layout", ["contiguous", "row_slice", "expanded", "odd_base", "column_offset"])
def test_inputs_of_any_layout_are_leaves(worker: InProcess, layout: str) -> None:
    """x and residual can be views of wider memory and still be what the gradient is asked of."""
    asked = replace(training(mode="residual"), layouts={"x": layout, "residual": layout})
    shown = worker.observe(asked, call(fused, "residual"))
    for role, right in expected(shown).items():
        torch.testing.assert_close(values(only(shown), role), right, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("wanted", [("x",), ("residual",), ("weight",), ("x", "weight")])
@pytest.mark.parametrize("arrives", [("y",), ("residual_out",)])
def test_only_what_is_wanted_requires_a_gradient(
    worker: InProcess, wanted: tuple[str, ...], arrives: tuple[str, ...]
) -> None:
    """The other inputs are constants, and the other output's gradient does not arrive."""
    required: list[set[str]] = []

    def watching(x, residual, weight, eps):
        named = {"x": x, "residual": residual, "weight": weight}
        required.append({role for role, tensor in named.items() if tensor.requires_grad})
        assert all(tensor.is_leaf for tensor in named.values())
        return fused(x, residual, weight, eps)

    shown = worker.observe(
        training(mode="residual", gradients=wanted, upstream=arrives), call(watching, "residual")
    )
    step = only(shown)
    assert required == [set(wanted)]
    assert set(step.gradient_data) == set(wanted)
    for role, right in expected(shown).items():
        if right is None:
            assert step.record["gradients"][role]["kind"] == "none"
        else:
            torch.testing.assert_close(values(step, role), right, rtol=1e-5, atol=1e-5)


def test_a_forward_run_requires_no_gradient(worker: InProcess) -> None:
    """Without gradients nothing requires any, and the record says nothing of a backward."""
    seen: list[bool] = []

    def watching(x, weight, eps):
        seen.append(x.requires_grad or weight.requires_grad)
        return norm(x, weight, eps)

    step = only(worker.observe(run(), call(watching)))
    assert seen == [False]
    assert not {"graph", "gradients", "unasked", "returns_after"} & set(step.record)


@pytest.mark.parametrize(("scenario", "calls"), [("once", 1), ("repeat", 3), ("new_contents", 2)])
def test_scenarios_make_their_calls(worker: InProcess, scenario: str, calls: int) -> None:
    """repeat is three forward and backward calls; new_contents has another dy too in its second."""
    shown = worker.observe(training(scenario=scenario), call(norm))
    assert len(shown.steps) == calls
    for index, step in enumerate(shown.steps):
        torch.testing.assert_close(values(step, "x"), expected(shown, index)["x"], rtol=1e-5, atol=1e-5)
    same = (shown.steps[0].bits["dy"] == shown.steps[-1].bits["dy"]).all()
    assert same == (scenario != "new_contents")


def test_zero_rows_are_asked(worker: InProcess) -> None:
    """With no rows dx is empty and dweight comes back."""
    step = only(worker.observe(training(rows=0), call(norm)))
    assert values(step, "x").shape == (0, 32)
    assert values(step, "weight").tolist() == [0.0] * 32


class Module(torch.nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight, self.eps = torch.nn.Parameter(torch.ones(hidden_size)), eps

    def forward(self, x):
        return norm(x, self.weight, self.eps)


@pytest.mark.parametrize("wanted", [("x", "weight"), ("x",), ("weight",)])
def test_a_modules_own_parameter_is_asked(worker: InProcess, wanted: tuple[str, ...]) -> None:
    """The weight is the module's Parameter; it requires a gradient only where that is wanted."""
    from conformance.calling import targets

    one = targets.recognise(Module, "pkg:Module").calls["none"]
    shown = worker.observe(training(gradients=wanted), one)
    for role, right in expected(shown).items():
        torch.testing.assert_close(values(only(shown), role), right, rtol=1e-5, atol=1e-5)
    assert only(shown).record["unasked"] == []


# --- what the checks look at ----------------------------------------------------------------------------


@pytest.mark.parametrize("arrives", [("y", "residual_out"), ("y",), ("residual_out",)])
def test_a_view_has_the_backwards_question(worker: InProcess, arrives: tuple[str, ...]) -> None:
    """dy, dresidual_out, the dtypes of the gradients, and the forward's problem."""
    asked = training(
        mode="residual",
        upstream=arrives,
        dtypes={"x": "bfloat16", "residual": "float32", "weight": "float32"},
    )
    seen = Seen(worker.observe(asked, call(fused, "residual")), "strict")
    (view,) = seen.views
    problem = view.gradient_problem
    assert (problem.dy is None, problem.dresidual_out is None) == (
        "y" not in arrives,
        "residual_out" not in arrives,
    )
    assert (problem.dx_dtype, problem.dresidual_dtype, problem.dweight_dtype) == (
        "bfloat16",
        "float32",
        "float32",
    )
    assert problem.forward.x.shape == (3, 32)
    assert seen.trains
    assert seen.differentiable
    dx = view.gradient_values("x")
    assert dx is not None
    assert dx.shape == (3, 32)
    assert view.gradient("x").dtype == "bfloat16"  # type: ignore[union-attr]
