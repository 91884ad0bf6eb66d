"""Liger-Kernel: test/transformers/test_rms_norm.py and test_fused_add_rms_norm.py, the tests of the modules.

The reference is the Llama module: the sum rounded to x's dtype, the statistic in fp32, x_hat rounded before
the weight; with weight + 1 the Gemma module. y is compared after the backward, and so are all gradients.
"""

from __future__ import annotations

from conformance.yardstick.rules import Form, Rule, Suite, Tolerance, close_in_promoted_dtype

_RULE = Rule(
    Form(sum_in=""),
    {"float32": Tolerance(1e-4, 1e-6), "bfloat16": Tolerance(2e-1, 2e-2)},
    close_in_promoted_dtype,
    reads_grad=True,
)

SUITE = Suite(
    name="liger",
    title="Liger-Kernel test/transformers/test_rms_norm.py, test_fused_add_rms_norm.py",
    url="https://github.com/linkedin/Liger-Kernel",
    commit="ead96b618e5c67bddc6a6e9bcb99bfe6b5ab661c",
    date="2026-08-21",
    cases="liger.yaml",
    rules={f"liger/{case}": _RULE for case in ("plain", "fused", "weightless", "gemma_plain", "gemma_fused")},
    elements=1 << 18,
    trains=True,
    differs=(
        "The functional tests compare two entrances to one kernel with each other, which no other kernel can "
        "be put to; the casting mode `none` and the tests over several devices are left out.",
        "Up to three reruns of a failing test are not made: the inputs here are the same each time.",
    ),
)
