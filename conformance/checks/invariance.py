"""Check that the same question gets the same answer: a second call, and the same rows in a larger batch.

Both calls are right already (the check `values` judges each); other bits are a property worth a warning,
because they make a model's output depend on scheduling or on the batch it came in.
"""

import numpy as np

from conformance.model import Finding
from conformance.seen import Seen, View

NAME = "invariance"
REQUIREMENTS = ("INVARIANCE-REPEAT", "INVARIANCE-BATCH")


def applies(seen: Seen) -> bool:
    return seen.returned and seen.run.scenario in ("repeat", "batch") and len(seen.views) > 1


def check(seen: Seen) -> list[Finding]:
    findings = []
    for name in seen.expected_outputs:
        pairs = (_rows(seen.views[0], later, name) for later in seen.views[1:])
        differing = next((p for p in pairs if p is not None and (p[0] != p[1]).any()), None)
        if differing is None:
            continue
        a, b = differing
        at = [int(i) for i in np.argwhere(a != b)[0]]
        told = f"{int((a != b).sum())} of {a.size} elements of {name} differ, the first is {name}{at}"
        if seen.run.scenario == "repeat":
            message = f"the same call twice gives other bits: {told}"
            findings.append(Finding(NAME, "INVARIANCE-REPEAT", "warn", message))
        else:
            message = f"a row's bits depend on how many rows are in the call: {told}"
            findings.append(Finding(NAME, "INVARIANCE-BATCH", "warn", message))
    return findings


def _rows(first: View, later: View, name: str) -> tuple[np.ndarray, np.ndarray] | None:
    """The bits of the rows of an output that two calls share, (rows, hidden_size); None where none can be."""
    one, other = first.output(name), later.output(name)
    if one is None or other is None or one.dtype != other.dtype:
        return None
    a = one.bits.reshape(-1, one.bits.shape[-1])
    b = other.bits.reshape(-1, other.bits.shape[-1])[: len(a)]
    return None if a.shape != b.shape else (a, b)
