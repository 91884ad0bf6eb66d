"""Check dweight: the sum over all rows, whose allowed error grows with their number, by one convention.

Where it does not hold, the known wrong formulas are tried, as for dx.
"""

from conformance.checks.dx import asked, wrong
from conformance.diagnosing.diagnosis import Diagnosis
from conformance.diagnosing.gradient_explained import explained, problem_of
from conformance.diagnosing.gradients import diagnose_dweight
from conformance.model import Finding
from conformance.seen import Seen

NAME = "dweight"
REQUIREMENTS = (
    "DWEIGHT-XHAT", "DWEIGHT-AXES", "DWEIGHT-ROWS", "DWEIGHT-ZERO-ROWS", "DWEIGHT-ZERO-WEIGHTS",
    "DWEIGHT-ACCUMULATION", "DWEIGHT-ACCURACY", "GRADMODE-COMBINATION", "MEM-READ",
)  # fmt: skip


def applies(seen: Seen) -> bool:
    return asked(seen, "weight")


def check(seen: Seen) -> list[Finding]:
    view = seen.backwards[0]
    found, values = explained(view, "weight"), view.gradient_values("weight")
    if found is None or values is None:
        return []
    if found.conventions:
        return [Finding(NAME, "DWEIGHT-ACCURACY", "info", f"dweight: {note}") for note in found.notes]
    if not view.n_rows:
        message = f"with 0 rows dweight should be zeros, but dweight[0] is {float(values[0]):.9g}"
        return [Finding(NAME, "DWEIGHT-ZERO-ROWS", "fail", message, {"tensor": NAME})]
    diagnosis = Diagnosis()
    if not seen.observation.outside_matters:
        diagnosis = diagnose_dweight(problem_of(view, "weight"), values, found, seen.run.shape[:-1])
    return [wrong(seen, view, "weight", "DWEIGHT-ACCURACY", found, diagnosis)]
