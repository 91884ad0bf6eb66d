"""Check what was raised: cleanly, before anything was written, and for a reason that may be refused.

An implementation may refuse a dtype, a dtype mix, a rank or a layout. It may not refuse a size, a value or a
repeat: where it raises, the run's neutral twin (same sizes and values, everything else plain) must pass.
"""

from conformance.checks.gradients_form import invalid_gradient
from conformance.model import Finding
from conformance.seen import Seen

NAME = "refusal"
REQUIREMENTS = (
    "RUN-COMPLETES",
    "REFUSE-CLEAN",
    "REFUSE-ALIKE",
    "REFUSE-SHAPE",
    "REFUSE-EPS",
    "REFUSE-INTEGER",
    "DWEIGHT-ZERO-ROWS",
    "DRESIDUAL-ALONE",
    "GRADMODE-RETAINED",
    "GRADMODE-REPEAT",
    "GRADMODE-GRAPHS",
)

_MUST = {
    "weight_too_long": ("REFUSE-SHAPE", "a weight that is longer than hidden_size"),
    "weight_too_short": ("REFUSE-SHAPE", "a weight that is shorter than hidden_size"),
    "weight_2d": ("REFUSE-SHAPE", "a 2-D weight that cannot broadcast"),
    "residual_rows": ("REFUSE-SHAPE", "a residual with another number of rows"),
    "residual_width": ("REFUSE-SHAPE", "a residual of another width"),
}
_SHOULD = {
    "eps_zero": ("REFUSE-EPS", "eps = 0"),
    "eps_negative": ("REFUSE-EPS", "a negative eps"),
    "integer_x": ("REFUSE-INTEGER", "an integer x"),
}


_LATER = {
    "retained": "GRADMODE-RETAINED",
    "repeat": "GRADMODE-REPEAT",
    "interleaved": "GRADMODE-GRAPHS",
}
"""What a later backward violates that raises, by the scenario."""


def applies(seen: Seen) -> bool:
    return seen.observation.status == "completed"


def check(seen: Seen) -> list[Finding]:
    if not seen.returned:
        return _raised(seen)
    fault = seen.run.fault
    if fault in _MUST:
        requirement, what = _MUST[fault]
        return [Finding(NAME, requirement, "fail", f"{what} was accepted; it should raise, e.g. ValueError")]
    if fault in _SHOULD:
        requirement, what = _SHOULD[fault]
        return [Finding(NAME, requirement, "warn", f"{what} was accepted silently; it should raise or warn")]
    return []


def _raised(seen: Seen) -> list[Finding]:
    last = seen.steps[-1]
    if invalid_gradient(seen.run, last.record) is not None:
        return []  # no refusal, and named by the check `gradients_form`
    exception = last.record["exception"]
    backward = last.record.get("phase") == "backward"
    text = f"{exception['text']}, in the backward" if backward else exception["text"]
    if last.record["status"] != "raised":
        kind = exception["type"]
        message = f"left by {kind}, which is no Exception ({text}); raise a ValueError or TypeError"
        ended = exception["type"] in ("SystemExit", "KeyboardInterrupt")
        return [Finding(NAME, "RUN-COMPLETES" if ended else "REFUSE-CLEAN", "fail", message)]
    findings = []
    written = [r for r, image in last.after.items() if (image != last.before[r]).any()]
    if written:
        message = f"raised {text} after writing to {', '.join(written)}; refuse before anything is written"
        findings.append(Finding(NAME, "REFUSE-CLEAN", "fail", message))
    if len(seen.steps) > 1:
        if seen.run.scenario == "saved_statistic":
            return findings  # a statistic that the suite has doubled may be refused
        number = len(seen.steps)
        message = f"call {number} raised {text}, though call 1 with the same kind of arguments returned"
        requirement = _LATER.get(seen.run.scenario, "REFUSE-ALIKE") if backward else "REFUSE-ALIKE"
        return [*findings, Finding(NAME, requirement, "fail", message)]
    if seen.run.scenario == "refuse":
        return findings
    if seen.observation.twin != "pass":
        told = seen.observation.twin_detail
        message = f"raised {text}. Nothing here may be refused: {told}"
        requirement = _of_backward(seen) if backward else ""
        asked = [r for r in seen.run.requirements if r.startswith(("SIZE-", "RANGE-", "SPECIAL-"))]
        requirement = requirement or (asked[0] if asked else "REFUSE-ALIKE")
        findings.append(Finding(NAME, requirement, "fail", message))
    return findings


def _of_backward(seen: Seen) -> str:
    """The requirement on what only a backward can be asked, or ""."""
    if not seen.run.n_rows:
        return "DWEIGHT-ZERO-ROWS"
    alone = seen.run.mode != "none" and len(seen.run.upstream) == 1
    return "DRESIDUAL-ALONE" if alone else ""
