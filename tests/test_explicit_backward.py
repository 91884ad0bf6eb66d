"""Explicit backward functions, called by role beside the forward."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from in_process import InProcess, call
from small_runs import training
from training_calls import expected, fused, norm, only, right, values

from conformance.model import Backward, Call, Parameter
from conformance.seen import Seen


@torch.no_grad()
def with_rrms(x, weight, eps):
    return norm(x, weight, eps), torch.rsqrt(x.float().square().mean(-1) + eps)


@torch.no_grad()
def fused_with_rrms(x, residual, weight, eps):
    y, total = fused(x, residual, weight, eps)
    return y, total, torch.rsqrt((x.float() + residual.float()).square().mean(-1) + eps)


def explicit(dy, x, weight, rrms):
    class Held:
        saved_tensors = (x, weight, rrms)

    return right(Held, dy)


def explicit_fused(dout, dres, s, weight, rstd):
    dx, dweight = explicit(dout, s, weight, rstd)
    return dx + dres, dweight


def declared(function: Any, roles: dict[str, str], returns: tuple[str, ...]) -> Backward:
    return Backward(function, tuple(Parameter(name, role) for name, role in roles.items()), returns)


PLAIN = call(
    with_rrms, returns=("y", "rrms"),
    backward=declared(explicit, {r: r for r in ("dy", "x", "weight", "rrms")}, ("dx", "dweight")),
)  # fmt: skip
FUSED = call(
    fused_with_rrms, "residual", returns=("y", "residual_out", "rrms"),
    backward=declared(
        explicit_fused,
        {"dout": "dy", "dres": "dresidual_out", "s": "residual_out", "weight": "weight", "rstd": "rrms"},
        ("dx", "dweight"),
    ),
)  # fmt: skip


@pytest.mark.parametrize(
    ("one", "mode", "arrives"),
    [
        (PLAIN, "none", ("y",)), (FUSED, "residual", ("y", "residual_out")), (FUSED, "residual", ("y",)),
        (FUSED, "residual", ("residual_out",)),
    ],
)  # fmt: skip
def test_an_explicit_backward_is_called_by_role(
    worker: InProcess, one: Call, mode: str, arrives: tuple[str, ...]
) -> None:
    """It gets what the forward returned; what does not arrive is zeros; one dx serves x and residual."""
    shown = worker.observe(training(mode=mode, upstream=arrives), one)
    step = only(shown)
    for role, wanted in expected(shown).items():
        wanted = torch.zeros(32, dtype=torch.float64) if wanted is None else wanted
        torch.testing.assert_close(values(step, role), wanted, rtol=1e-5, atol=1e-5)
    assert step.record["unasked"] == []
    assert Seen(shown, "strict").differentiable


def test_an_explicit_backward_is_given_the_doubled_statistic(worker: InProcess) -> None:
    """The statistic that it reads is the one that the forward returned."""
    first, second = worker.observe(training(scenario="saved_statistic"), PLAIN).steps
    assert [s["name"] for s in first.record["saved"]] == ["rrms"]
    assert second.record["doubled"] == 1
    torch.testing.assert_close(values(second, "weight"), 2 * values(first, "weight"))


def test_unasked_gradients_of_an_explicit_backward_are_kept(worker: InProcess) -> None:
    """It returns all it has; the record has them by input, asked for or not."""
    step = only(worker.observe(training(gradients=("x",)), PLAIN))
    assert set(step.record["gradients"]) == {"x", "weight"}


def test_a_gradient_of_another_size_has_no_values(worker: InProcess) -> None:
    """What an explicit backward returns can have any shape; only the right number of elements is read."""
    scalar = replace(PLAIN.backward, function=lambda **g: (explicit(**g)[0], explicit(**g)[1].sum()))
    named = tuple(replace(p, keyword=True) for p in PLAIN.backward.parameters)
    seen = Seen(
        worker.observe(training(), replace(PLAIN, backward=replace(scalar, parameters=named))), "strict"
    )
    (view,) = seen.views
    assert view.gradient_values("weight") is None
    assert view.gradient("weight").shape == ()  # type: ignore[union-attr]
    assert view.gradient_values("x") is not None
