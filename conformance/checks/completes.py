"""Check that a call neither kills its process nor hangs."""

from conformance.model import Finding
from conformance.seen import Seen

NAME = "completes"
REQUIREMENTS = ("RUN-COMPLETES",)


def applies(seen: Seen) -> bool:
    return seen.observation.status in ("crash", "hang")


def check(seen: Seen) -> list[Finding]:
    o = seen.observation
    said = f"; it printed, last: {o.output.strip()[-400:]}" if o.output.strip() else ""
    return [Finding(NAME, "RUN-COMPLETES", "fail", f"{o.status}: {o.detail}{said}")]
