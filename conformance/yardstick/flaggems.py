"""FlagGems: tests/test_norm_ops.py. rms_norm forward and backward, fused_add_rms_norm forward.

Plain: the reference rounds x_hat to x's dtype; atol of dweight is multiplied by hidden_size. Fused: the
reference is float64. atol is 1e-4 for all dtypes, rtol the resolution of the dtype.
"""

from __future__ import annotations

from conformance.yardstick.rules import Form, Rule, Suite, Tolerance, assert_close

_TOLERANCES = {
    "float32": Tolerance(1e-4, 1.3e-6),
    "float16": Tolerance(1e-4, 1e-3),
    "bfloat16": Tolerance(1e-4, 1.6e-2),
}

SUITE = Suite(
    name="flaggems",
    title="FlagGems tests/test_norm_ops.py",
    url="https://github.com/FlagOpen/FlagGems",
    commit="532ff438c70343d7aec9becdabb76a71225a0553",
    date="2025-11-21",
    cases="flaggems.yaml",
    rules={
        "flaggems/plain": Rule(Form(), _TOLERANCES, assert_close, dweight_by_width=True),
        "flaggems/fused": Rule(
            Form(work="float64", sum_in="float64", rounds_x_hat=False), _TOLERANCES, assert_close
        ),
    },
    elements=1 << 21,
    trains=True,
    differs=("The wider tolerances of one vendor's runtime, kunlunxin, are the same for these dtypes.",),
)
