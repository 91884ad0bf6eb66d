"""Makes bfloat16 exact in Triton's interpreter, so that a machine without a GPU can judge a kernel.

The stock interpreter keeps bfloat16 as 16-bit integers and gets most of it wrong: float32 to bfloat16
truncates (a NaN can become Inf), subnormals are converted wrongly, arithmetic works on the bit patterns
(1 * 1 = 2), and sums of 16-bit tensors are added up in float32 or as integers. A right kernel then looks
wrong and a low-precision one right. `repair` replaces those operations:

    casts        round to nearest even, once, from every dtype; NaN stays NaN; "rtz" truncates
    arithmetic   each operation in float32, then rounded to bfloat16. float32 has more than 2 * 8 + 2 bits,
                 so the second rounding changes nothing for + - * / (Figueroa, "When is double rounding
                 innocuous?", 1995). fma is exact before its one rounding.
    sums         float16 and bfloat16 sums round after every addition, pairwise. Compiled code adds in an
                 order of its own, but it rounds as often.

float8 is left as it is. torch and triton are imported only when a function here is called; the functions
that are put in place are in `conformance.processes.interpreter_patch`, the roundings in
`conformance.processes.bfloat16`.
"""

from __future__ import annotations

import os

import numpy as np

from conformance.errors import ConformanceError

TESTED_VERSIONS = ((3, 6), (3, 7), (3, 8), (3, 9))
"""Triton versions whose interpreter internals `repair` is proved on (tests/test_interpreter_bf16.py)."""

_REPAIRED = "_conformance_bf16_is_exact"


class InterpreterUnsupported(ConformanceError):  # noqa: N818 - named like the others in errors.py
    """bfloat16 cannot be interpreted exactly here: another Triton version, or an operation not covered."""


def interpreting() -> bool:
    """Say whether TRITON_INTERPRET asks for the interpreter in this process."""
    return os.environ.get("TRITON_INTERPRET", "").lower() in ("1", "true", "yes", "on", "y")


def unsupported_reason() -> str | None:
    """Say in one sentence why bfloat16 cannot be repaired with the installed Triton, or None."""
    try:
        import triton
    except ImportError:
        return "Triton is not installed: pip install triton"
    if _major_minor(triton.__version__) in TESTED_VERSIONS:
        return None
    tested = ", ".join(f"{major}.{minor}" for major, minor in TESTED_VERSIONS)
    return (
        f"bfloat16 is wrong in the stock Triton interpreter and its repair is proved for Triton {tested}"
        f" only, but {triton.__version__} is installed: install one of these, or use a GPU"
    )


def supported() -> bool:
    """Say whether `repair` knows the installed Triton."""
    return unsupported_reason() is None


def needs_repair() -> bool:
    """Say, by trying, whether this process interprets kernels and bfloat16 is still wrong in it."""
    if not interpreting():
        return False
    from triton.runtime import interpreter as stock

    tl, builder = stock.tl, stock.interpreter_builder
    just_over_a_tie = stock.TensorHandle(np.array([1.00390637], dtype=np.float32), tl.float32)
    one = stock.TensorHandle(np.array([0x3F80], dtype=np.uint16), tl.bfloat16)
    rounded = builder.create_fp_trunc(just_over_a_tie, tl.bfloat16).data
    return bool(rounded[0] != 0x3F81 or builder.create_fmul(one, one).data[0] != 0x3F80)


def repair() -> bool:
    """Patch Triton's interpreter so that bfloat16 is exact; say whether the patch is in force.

    Does nothing and returns False unless TRITON_INTERPRET=1; may be called any number of times. Raises
    InterpreterUnsupported for a Triton version that this was not proved on.
    """
    if not interpreting():
        return False
    reason = unsupported_reason()
    if reason is not None:
        raise InterpreterUnsupported(reason)
    from triton.runtime import interpreter as stock

    from conformance.processes import interpreter_patch

    if not getattr(stock.InterpreterBuilder, _REPAIRED, False):
        interpreter_patch.repair_casts(stock)
        interpreter_patch.repair_arithmetic(stock)
        interpreter_patch.repair_reductions(stock)
        setattr(stock.InterpreterBuilder, _REPAIRED, True)
    return True


def _major_minor(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
