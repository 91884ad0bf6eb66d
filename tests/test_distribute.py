"""Which runs stay on one process under pytest-xdist: those that one kernel is compiled for."""

from __future__ import annotations

import pytest
from small_runs import run, training

from conformance.distribute import compile_key
from conformance.model import Run


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (run(), run(rows=7), True),
        (run(), run(width=33), False),
        (run(), run(dtype="bfloat16"), False),
        (run(), run(mode="residual"), False),
        (run(), training(), False),
        (training(), training(gradients=("x",), scenario="retained"), True),
        (training(), training(width=33), False),
    ],
)
def test_runs_of_one_kernel_share_a_key(one: Run, other: Run, same: bool) -> None:
    """Mode, dtypes and width decide, and whether there is a backward to compile."""
    assert (compile_key(one) == compile_key(other)) == same
