"""requirements.yaml: ids and ranks are for ever, and every line of the specification is answered."""

from __future__ import annotations

import pytest

from conformance.load import requirements

RULES = requirements()

RANKS = {
    0: "RUN-COMPLETES", 1: "HONEST-STATE", 10: "MEM-WRITE", 11: "MEM-UNWRITTEN", 12: "MEM-READ",
    20: "INPUTS-UNCHANGED", 21: "INPLACE-STORAGE",
    22: "OUTPUT-TYPE", 23: "OUTPUT-SHAPE", 24: "OUTPUT-DTYPE", 25: "OUTPUT-DEVICE", 26: "OUTPUT-STRIDE",
    27: "OUTPUT-PARAMETER", 28: "OUTPUT-ALIAS",
    30: "REFUSE-CLEAN", 31: "REFUSE-ALIKE", 32: "REFUSE-SHAPE", 33: "REFUSE-DEVICE", 34: "REFUSE-EPS",
    35: "REFUSE-INTEGER",
    40: "RESIDUAL-WRITTEN", 41: "RESIDUAL-DTYPE", 42: "RESIDUAL-ADDED", 43: "RESIDUAL-ROUNDING",
    44: "RESIDUAL-EXACT",
    50: "FORMULA-EPS-INSIDE", 51: "FORMULA-EPS-HONOURED", 52: "FORMULA-EPS-DEFAULT", 53: "FORMULA-ROOT",
    54: "FORMULA-DIVISOR", 55: "FORMULA-NO-MEAN", 56: "FORMULA-NO-BIAS", 57: "FORMULA-WEIGHT",
    58: "FORMULA-WEIGHT-INDEX", 59: "FORMULA-WEIGHT-OFFSET", 60: "FORMULA-ROWS", 61: "TAIL-COLUMNS",
    70: "SPECIAL-ZERO-ROW", 71: "SPECIAL-NONFINITE", 72: "RANGE-LARGE", 73: "RANGE-SMALL",
    80: "STRIDE-X", 81: "STRIDE-RESIDUAL", 82: "STRIDE-WEIGHT", 83: "STRIDE-OUT", 84: "STRIDE-RANK",
    85: "ALIGN-X", 86: "ALIGN-RESIDUAL", 87: "ALIGN-WEIGHT", 88: "ALIGN-OUT", 89: "STRIDE-64BIT",
    90: "SIZE-ZERO-ROWS", 91: "SIZE-ONE-ROW", 92: "SIZE-MANY-ROWS", 93: "SIZE-WIDTH", 94: "DTYPE-MIXED",
    100: "INVARIANCE-FRESH", 101: "INVARIANCE-REPEAT", 102: "INVARIANCE-BATCH",
    110: "ACCURACY-SUM", 111: "ACCURACY-RRMS", 112: "ACCURACY-ROUNDING", 113: "ACCURACY-BIAS",
    114: "ACCURACY-GAIN", 115: "ACCURACY-CONVENTION", 116: "RRMS-SAVED", 120: "ACCURACY-INTERVAL",
    130: "GRADMODE-DY-UNTOUCHED", 131: "GRADMODE-OUTPUTS-UNTOUCHED", 132: "GRADMODE-UNASKED",
    133: "DX-PRESENT", 134: "DRESIDUAL-PRESENT", 135: "DWEIGHT-PRESENT", 136: "GRADMODE-ALIKE",
    137: "DX-FORM", 138: "DRESIDUAL-FORM", 139: "DWEIGHT-SHAPE", 140: "DWEIGHT-DTYPE",
    150: "DRESIDUAL-AFTER", 151: "DRESIDUAL-ADDED", 152: "DRESIDUAL-SAME", 153: "DRESIDUAL-ALONE",
    160: "DX-WEIGHT", 161: "DX-PROJECTION", 162: "DX-RRMS", 163: "DX-ROWS",
    164: "DWEIGHT-XHAT", 165: "DWEIGHT-AXES", 166: "DWEIGHT-ROWS", 167: "DWEIGHT-ZERO-ROWS",
    168: "DWEIGHT-ZERO-WEIGHTS", 169: "DWEIGHT-ACCUMULATION",
    170: "GRADMODE-COMBINATION", 171: "GRADMODE-DY-LAYOUT", 172: "GRADMODE-RETAINED",
    173: "GRADMODE-REPEAT", 174: "GRADMODE-GRAPHS",
    180: "DX-ACCURACY", 181: "DRESIDUAL-ACCURACY", 182: "DWEIGHT-ACCURACY",
    190: "DWEIGHT-REPEAT", 191: "RRMS-READ", 192: "RRMS-RECIPROCAL",
}  # fmt: skip

SHOULD = {
    "REFUSE-EPS", "REFUSE-INTEGER", "INVARIANCE-REPEAT", "INVARIANCE-BATCH", "ACCURACY-CONVENTION",
    "DWEIGHT-REPEAT", "RRMS-READ", "RRMS-RECIPROCAL",
    "KERNEL-PROGRAM-PER-ROW", "KERNEL-CONFIGURATION",
}  # fmt: skip

LINES = {
    # the text on RMSNorm kernels: correctness requirements, forward
    "mean denominator is H": ("FORMULA-DIVISOR",),
    "other=0.0 on the input load": ("MEM-READ", "KERNEL-LOAD-ZERO"),
    "squaring in fp32": ("RANGE-LARGE", "RANGE-SMALL", "KERNEL-CAST-FIRST"),
    "eps above 0, inside the root; reject or warn on eps <= 0": ("FORMULA-EPS-INSIDE", "REFUSE-EPS"),
    "weight per feature, not per row": ("FORMULA-WEIGHT-INDEX", "KERNEL-WEIGHT-POINTER"),
    "output store mask equals input load mask": ("MEM-WRITE", "MEM-UNWRITTEN", "KERNEL-SAME-MASK"),
    "the saved value is rrms, the scalar that was multiplied by": ("RRMS-SAVED", "KERNEL-RRMS-STORED"),
    "no mean subtraction": ("FORMULA-NO-MEAN",),
    # kernel design rules
    "BLOCK_SIZE a constexpr power of two, the smallest >= H": ("KERNEL-BLOCK-SIZE",),
    "cast to fp32 immediately after loading": ("KERNEL-CAST-FIRST", "RANGE-LARGE"),
    "fp32 accumulator": ("ACCURACY-SUM", "KERNEL-TWO-PASSES"),
    "eps inside: rsqrt(mean_sq + eps)": ("FORMULA-EPS-INSIDE", "FORMULA-ROOT", "KERNEL-EPS-INSIDE"),
    "never add row_idx * H to the weight": ("FORMULA-WEIGHT-INDEX", "KERNEL-WEIGHT-POINTER"),
    "no bias": ("FORMULA-NO-BIAS", "KERNEL-NO-BIAS"),
    "row_stride and out_stride as arguments": ("STRIDE-X", "STRIDE-OUT", "KERNEL-ROW-STRIDES"),
    "residual added in fp32 before squaring": ("RESIDUAL-ADDED", "RESIDUAL-EXACT", "KERNEL-RESIDUAL-FP32"),
    "weight not preloaded": ("KERNEL-WEIGHT-POINTER",),
    "identical loop bounds in both passes": ("KERNEL-TWO-PASSES", "TAIL-COLUMNS"),
    # required reasoning, inputs and output format, as far as they bind a forward
    "one program a row; (B, T, H) flattened": ("FORMULA-ROWS", "STRIDE-RANK", "KERNEL-PROGRAM-PER-ROW"),
    "the row stays in registers": ("KERNEL-ONE-READ",),
    "load with masking": ("KERNEL-LOAD-ZERO", "TAIL-COLUMNS"),
    "contiguous along H": ("STRIDE-X", "OUTPUT-STRIDE", "KERNEL-WRAPPER"),
    "weight dtype often x's, sometimes fp32": ("DTYPE-MIXED",),
    "eps 1e-5 or 1e-6": ("FORMULA-EPS-HONOURED",),
    "multiplied by the weight": ("FORMULA-WEIGHT", "KERNEL-FP32-MULTIPLY"),
    "one association, kept to": ("ACCURACY-CONVENTION", "ACCURACY-RRMS"),
    "argument names of the kernel": ("KERNEL-FORM",),
    "a fallback to two passes above the cap; warps by width": ("KERNEL-BLOCK-SIZE", "KERNEL-CONFIGURATION"),
    "a comparison in fp16, bf16, fp32, at a width like 4097": ("SIZE-WIDTH", "ACCURACY-INTERVAL"),
    "a comment block on conventions": ("KERNEL-COMMENT-BLOCK",),
    "bf16 is no substitute for fp32": ("ACCURACY-SUM", "ACCURACY-RRMS"),
    "mean_sq = 0": ("SPECIAL-ZERO-ROW",),
    # the backward of an RMSNorm
    "if backward is needed, save rrms": ("RRMS-READ", "RRMS-SAVED", "KERNEL-RRMS-STORED"),
    "do not save mean_sq or rms": ("RRMS-RECIPROCAL", "RRMS-SAVED", "KERNEL-BACKWARD-READS-RRMS"),
    "the same scalar the forward multiplied by": ("RRMS-SAVED", "DX-RRMS", "KERNEL-RRMS-STORED"),
    "dx must read the saved rrms": ("RRMS-READ", "KERNEL-BACKWARD-READS-RRMS"),
    "given upstream dy, dx": ("DX-PRESENT", "DX-FORM", "GRADMODE-DY-UNTOUCHED"),
    "rrms * (dy * w)": ("DX-WEIGHT", "DX-RRMS", "DX-ACCURACY"),
    "minus (x_normed * rrms / H) * the sum of dy * w * x_normed": ("DX-PROJECTION", "DX-ROWS"),
    "everything in fp32, times rrms once": ("DX-RRMS", "DX-ACCURACY", "KERNEL-BACKWARD-FORM"),
    "dweight = the sum over the batch of dy * x_normed": (
        "DWEIGHT-PRESENT", "DWEIGHT-XHAT", "DWEIGHT-ROWS", "DWEIGHT-ZERO-ROWS", "DWEIGHT-ACCURACY",
    ),
    "x_normed is x * rrms, whatever the weight": ("DWEIGHT-ZERO-WEIGHTS", "DWEIGHT-XHAT"),
    "reduced over batch and time, of shape (H,), no scalar": ("DWEIGHT-AXES", "DWEIGHT-SHAPE"),
    "a weight dtype of its own": ("DWEIGHT-DTYPE",),
    "an fp32 accumulator, across rows too": ("DWEIGHT-ACCUMULATION", "KERNEL-DWEIGHT-TWO-STAGES"),
    "a separate launch, because it crosses rows": ("KERNEL-DWEIGHT-TWO-STAGES", "DWEIGHT-REPEAT"),
    "no dbias": ("KERNEL-NO-DBIAS",),
    "one kernel for dx, per row, like the forward": ("KERNEL-BACKWARD-FORM", "DX-ROWS"),
    "a torch.autograd.Function": (
        "KERNEL-BACKWARD-FORM", "GRADMODE-ALIKE", "GRADMODE-COMBINATION", "GRADMODE-UNASKED",
        "GRADMODE-OUTPUTS-UNTOUCHED", "GRADMODE-DY-LAYOUT", "GRADMODE-RETAINED", "GRADMODE-REPEAT",
        "GRADMODE-GRAPHS",
    ),
    # the text on fused add + RMSNorm kernels
    "y = rmsnorm(x + residual)": ("RESIDUAL-ADDED",),
    "x + residual written back": ("RESIDUAL-WRITTEN", "RESIDUAL-DTYPE", "INPLACE-STORAGE"),
    "the write in the same pass": ("KERNEL-RESIDUAL-ONE-PASS",),
    "a residual of another dtype, layout or device": ("DTYPE-MIXED", "STRIDE-RESIDUAL", "REFUSE-DEVICE"),
    "a backward through both the add and the norm": (
        "DRESIDUAL-PRESENT", "DRESIDUAL-FORM", "DRESIDUAL-AFTER", "DRESIDUAL-ADDED", "DRESIDUAL-ALONE",
    ),
    "x and residual enter as x + residual": ("DRESIDUAL-SAME", "DRESIDUAL-ACCURACY"),
}  # fmt: skip
"""Every normative line of the specification, shortened, and what answers it.

Lines on speed (fractions of bandwidth, benchmarks against vendors) belong to the perf profile and are not
here."""


def test_ids_and_ranks_are_for_ever() -> None:
    """A report of last year names the same sentence."""
    assert {rule.rank: id_ for id_, rule in RULES.items() if rule.family != "KERNEL"} == RANKS


def test_every_requirement_of_the_backward_answers_a_line() -> None:
    """The backward half of the specification is short; each of our sentences stems from a line of it."""
    answers = {id_ for ids in LINES.values() for id_ in ids}
    assert {id_ for id_, rule in RULES.items() if 130 <= rule.rank < 200} <= answers


def test_ranks_differ() -> None:
    """A failure of several requirements is named for one."""
    assert len({rule.rank for rule in RULES.values()}) == len(RULES)


def test_levels() -> None:
    """What only warns is a closed list."""
    assert {id_ for id_, rule in RULES.items() if rule.level == "SHOULD"} == SHOULD


def test_structural_means_kernel() -> None:
    """What outputs cannot show is about the bundled kernels, and ranks last."""
    for id_, rule in RULES.items():
        assert (rule.needs == "structural") == (rule.family == "KERNEL") == (rule.rank >= 200), id_


@pytest.mark.parametrize("id_", RULES)
def test_sentences(id_: str) -> None:
    """One sentence, a reason, and where it comes from."""
    rule = RULES[id_]
    assert rule.text.endswith(".")
    assert rule.why.endswith(".")
    assert len(rule.text.split()) >= 4
    known = (
        "rmsnorm: ",
        "fused: ",
        "public report",
        "the contract of",
        "IEEE 754",
        "kernel evaluators'",
        "batch inv",
    )
    assert rule.source.startswith(known)


def test_every_line_of_the_specification_is_answered() -> None:
    """By a requirement that runs can show, or by one that structural tests stand for."""
    answers = {id_ for ids in LINES.values() for id_ in ids}
    assert answers <= set(RULES)
    quoting = {id_ for id_, rule in RULES.items() if "rmsnorm: " in rule.source or "fused: " in rule.source}
    beside = {"OUTPUT-TYPE", "OUTPUT-SHAPE", "OUTPUT-DTYPE", "OUTPUT-DEVICE", "REFUSE-CLEAN", "REFUSE-SHAPE"}
    assert quoting - answers <= {*beside, "REFUSE-INTEGER", "STRIDE-WEIGHT", "SIZE-ONE-ROW"}
