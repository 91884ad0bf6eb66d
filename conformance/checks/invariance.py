"""Check that the same question gets the same answer: a second call, and the same rows in a larger batch.

Both calls are right already (the check `values` judges each); other bits are a property worth a warning,
because they make a model's output depend on scheduling or on the batch it came in.
"""

import numpy as np

from conformance.model import Finding
from conformance.seen import Seen

NAME = "invariance"
REQUIREMENTS = ("INVARIANCE-REPEAT", "INVARIANCE-BATCH")


def applies(seen: Seen) -> bool:
    return seen.returned and seen.run.scenario in ("repeat", "batch") and len(seen.views) == 2


def check(seen: Seen) -> list[Finding]:
    findings = []
    for name in seen.expected_outputs:
        first, second = (view.output(name) for view in seen.views)
        if first is None or second is None or first.dtype != second.dtype:
            continue
        a = first.bits.reshape(-1, first.bits.shape[-1])
        b = second.bits.reshape(-1, second.bits.shape[-1])[: len(a)]
        if a.shape != b.shape or (a == b).all():
            continue
        at = [int(i) for i in np.argwhere(a != b)[0]]
        told = f"{int((a != b).sum())} of {a.size} elements of {name} differ, the first is {name}{at}"
        if seen.run.scenario == "repeat":
            message = f"the same call twice gives other bits: {told}"
            findings.append(Finding(NAME, "INVARIANCE-REPEAT", "warn", message))
        else:
            message = f"a row's bits depend on how many rows are in the call: {told}"
            findings.append(Finding(NAME, "INVARIANCE-BATCH", "warn", message))
    return findings
