"""Training runs through a real worker: a crash in a backward, its replacement, what a failure is asked."""

from __future__ import annotations

import pytest
from small_runs import Tried, failing, training

from conformance.model import Verdict

SOURCE = """
import os

WIDTHS = {33: os.abort, 34: lambda: os._exit(0)}


class Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, eps):
        ctx.save_for_backward(x, weight, torch.rsqrt(x.float().square().mean(-1, keepdim=True) + eps))
        return norm(x, weight, eps)

    @staticmethod
    def backward(ctx, dy):
        x, weight, rrms = ctx.saved_tensors
        WIDTHS.get(x.shape[-1], lambda: None)()
        dy = dy.float()
        if x.shape[-1] == 48:  # one element before the first of each row
            dy = torch.as_strided(dy, dy.shape, dy.stride(), dy.storage_offset() - 1)
        x_hat = x.float() * rrms
        a = dy * weight.float()
        dx = rrms * (a - x_hat * (a * x_hat).mean(-1, keepdim=True))
        return dx.to(x.dtype), (dy * x_hat).sum(0).to(weight.dtype), None


def rms_norm(x, weight, eps=1e-6):
    return Norm.apply(x, weight, eps)
"""


@pytest.fixture(scope="module")
def spec(tried: Tried) -> str:
    return tried.write("dies_in_its_backward", SOURCE)


def right(verdict: Verdict) -> None:
    assert verdict.verdict in ("pass", "warn"), verdict


@pytest.mark.parametrize(("width", "told"), [(33, "SIGABRT"), (34, "exit code 0")])
def test_a_crash_in_a_backward_costs_one_run(tried: Tried, spec: str, width: int, told: str) -> None:
    """The run is a crash that says how; the next one passes in another process."""
    dead = tried.verdict(spec, training(width))
    assert dead.verdict == "crash"
    assert told in failing(dead, "RUN-COMPLETES").message
    right(tried.verdict(spec, training(32)))


def test_a_later_worker_is_told_what_the_first_found_out(tried: Tried, spec: str) -> None:
    """Whether there are gradients is tried once, not again by each replacement."""
    implementation = tried.bench.load(spec).implementation
    assert implementation is not None
    assert implementation.calls["none"].differentiable is True
    assert "none: differentiable through autograd" in implementation.recognised
    assert tried.bench._load_request(spec, True)["differentiable"] == {"none": True}


def test_a_gradient_that_reads_memory_outside_is_named_so(tried: Tried, spec: str) -> None:
    """A NaN from before dy's start goes when there are finite numbers: memory outside dy was read."""
    verdict = tried.verdict(spec, training(48))
    assert verdict.verdict == "fail"
    assert any(f.requirement == "MEM-READ" for f in verdict.failed), verdict.failed
