"""vLLM: tests/kernels/core/test_layernorm.py. Forward only; plain and fused, also with weight + 1.

The reference is the layer's native path: the fp32 sum, x_hat rounded to the weight's dtype. The test without
weights has the tolerances that the operator declares (vllm/ir), the others one for all dtypes.
"""

from __future__ import annotations

from conformance.model import DTYPES
from conformance.yardstick.rules import Form, Rule, Suite, Tolerance, assert_close

_WIDE = Rule(Form(), dict.fromkeys(DTYPES, Tolerance(1e-2, 1e-2)), assert_close)
_DECLARED = Rule(
    Form(),
    {
        "float32": Tolerance(1e-5, 1.3e-6),
        "float16": Tolerance(1e-2, 2e-3),
        "bfloat16": Tolerance(1e-3, 1.6e-2),
    },
    assert_close,
)
_WEIGHTED = ("plain", "plain_strided", "fused", "fused_strided")

SUITE = Suite(
    name="vllm",
    title="vLLM tests/kernels/core/test_layernorm.py",
    url="https://github.com/vllm-project/vllm",
    commit="041b9f54fd26d63e61b3a24652d91b9ca3dc12e4",
    date="between 2026-06-24 and 2026-11-29; the exact day was not recorded",
    cases="vllm.yaml",
    rules={
        **{f"vllm/{case}": _WIDE for case in _WEIGHTED},
        **{f"vllm/gemma_{case}": _WIDE for case in _WEIGHTED},
        "vllm/weightless_plain": _DECLARED,
        "vllm/weightless_fused": _DECLARED,
    },
    elements=1 << 17,
    trains=False,
    differs=(
        "Left out are the tests of fp8 outputs and of an fp32 weight beside bf16 rows, and opcheck, which "
        "asks for an operator that is registered with torch.",
        "x is rounded once, not before and after it is scaled; rows of a wider tensor are not exactly twice "
        "as wide.",
    ),
)
