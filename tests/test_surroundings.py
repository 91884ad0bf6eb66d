"""Whether memory around the inputs took part: which result has a NaN from nowhere, and which one changed."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from in_process import InProcess, call
from small_runs import run, training

from conformance import run as stage
from conformance.model import Call, Fill, Run
from conformance.run import Observation
from conformance.surroundings import FINITE_WORD, nan_appears, outside_matters


def before(tensor: torch.Tensor) -> torch.Tensor:
    """The same tensor, read one element too early."""
    return torch.as_strided(tensor, tensor.shape, tensor.stride(), tensor.storage_offset() - 1)


def norm(x, weight, eps):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


class ReadsBeforeDy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, eps):
        ctx.save_for_backward(weight)
        return norm(x, weight, eps)

    @staticmethod
    def backward(ctx, dy):
        return before(dy) * ctx.saved_tensors[0], dy.sum(0), None


def reads_before_x(x, weight, eps):
    return norm(before(x), weight, eps)


def both(worker: InProcess, asked: Run, one: Call) -> tuple[Observation, Observation]:
    """The run with canaries around its tensors, and with finite numbers there."""
    first = worker.observe(asked, one)
    again = stage.execute(asked, one, worker, worker.arena, "cpu", 0.0, FINITE_WORD)  # type: ignore[arg-type]
    return first, again


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> InProcess:
    return InProcess(monkeypatch)


@pytest.mark.parametrize(
    ("asked", "function", "changed"),
    [
        (run(), norm, ""),
        (run(), reads_before_x, "y"),
        (training(), norm, ""),
        (training(), ReadsBeforeDy.apply, "dx"),
    ],
)
def test_the_first_result_that_changed_is_named(
    worker: InProcess, asked: Run, function: object, changed: str
) -> None:
    """y in a forward run, and a gradient in a training run; nothing where nothing outside is read."""
    first, again = both(worker, asked, call(function))  # type: ignore[arg-type]
    assert nan_appears(first) == bool(changed)
    assert outside_matters(first, again) == (("MEM-READ", changed) if changed else ("", ""))


def test_what_is_read_between_rows_is_named_for_the_layout(worker: InProcess) -> None:
    """Where the run asks about a layout, its requirement is the one that is violated."""
    asked = replace(
        training(), layouts={"dy": "row_slice"}, requirements=("DX-ACCURACY", "GRADMODE-DY-LAYOUT")
    )
    assert outside_matters(*both(worker, asked, call(ReadsBeforeDy.apply))) == ("GRADMODE-DY-LAYOUT", "dx")


def test_a_nan_that_arrives_is_from_somewhere(worker: InProcess) -> None:
    """Where dy has a NaN itself, one in a gradient says nothing about the memory around it."""
    asked = training()
    asked = replace(asked, fills={**asked.fills, "dy": Fill(put=((0, 0, "nan"),))})
    assert not nan_appears(worker.observe(asked, call(ReadsBeforeDy.apply)))


def test_a_call_that_raised_has_no_result(worker: InProcess) -> None:
    """Nothing came back, so nothing can have a NaN."""

    def refuses(x, weight, eps):
        raise ValueError("no")

    assert not nan_appears(worker.observe(training(), call(refuses)))
