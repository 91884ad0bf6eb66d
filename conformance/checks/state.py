"""Check that a call leaves torch, numpy and the clock as they were (conformance.watch says what is watched)."""

from conformance.model import Finding
from conformance.seen import Seen

NAME = "state"
REQUIREMENTS = ("HONEST-STATE",)


def applies(seen: Seen) -> bool:
    return seen.observation.status == "completed"


def check(seen: Seen) -> list[Finding]:
    drift = [sentence for step in seen.steps for sentence in step.record.get("drift", [])]
    return [
        Finding(NAME, "HONEST-STATE", "fail", f"after the call {sentence}; it was put back")
        for sentence in dict.fromkeys(drift)
    ]
