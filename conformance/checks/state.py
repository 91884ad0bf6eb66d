"""Check that import and call leave torch, numpy and the clock as they were.

`conformance.processes.watch` says what is watched.
"""

from conformance.model import Finding
from conformance.seen import Seen

NAME = "state"
REQUIREMENTS = ("HONEST-STATE",)


def applies(seen: Seen) -> bool:
    return seen.observation.status == "completed"


def check(seen: Seen) -> list[Finding]:
    told = [f"after the import {sentence}" for sentence in seen.observation.import_drift]
    told += [f"after the call {sentence}" for step in seen.steps for sentence in step.record.get("drift", [])]
    return [
        Finding(NAME, "HONEST-STATE", "fail", f"{sentence}; it was put back")
        for sentence in dict.fromkeys(told)
    ]
