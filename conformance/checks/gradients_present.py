"""Check that a gradient comes back wherever one was asked for and something that arrives depends on it.

weight reaches y alone; x and residual reach both outputs. Where residual_out's gradient alone arrives, None
or zeros for the weight are right.
"""

from conformance.diagnosing.gradient_explained import explained
from conformance.model import GRADIENT_OF, Finding
from conformance.seen import Seen, View

NAME = "gradients_present"
REQUIREMENTS = (
    "DX-PRESENT", "DRESIDUAL-PRESENT", "DWEIGHT-PRESENT", "DRESIDUAL-ALONE", "DRESIDUAL-ADDED",
    "DWEIGHT-ZERO-ROWS",
)  # fmt: skip

_PRESENT = {"x": "DX-PRESENT", "residual": "DRESIDUAL-PRESENT", "weight": "DWEIGHT-PRESENT"}


def applies(seen: Seen) -> bool:
    return seen.trains and seen.returned and seen.differentiable


def check(seen: Seen) -> list[Finding]:
    for view in seen.backwards:
        findings = [*_graphs(seen, view), *_missing(seen, view)]
        if findings:
            return findings
    return []


def _graphs(seen: Seen, view: View) -> list[Finding]:
    """Outputs whose gradient should arrive, but that came back without a graph behind them."""
    graph = view.steps[-1].record["graph"]
    found = []
    for output in seen.run.upstream:
        wanted = [role for role in seen.run.gradients if output == "y" or role != "weight"]
        if not wanted or output in graph or view.output(output) is None:
            continue  # an output that is missing is told by the check `outputs`
        requirement = "DRESIDUAL-ADDED" if output == "residual_out" else _PRESENT[wanted[0]]
        verb = "does" if len(wanted) == 1 else "do"
        message = (
            f"{output} requires no grad, though {' and '.join(wanted)} {verb}: its gradient reaches no input"
        )
        found.append(Finding(NAME, requirement, "fail", message))
    return found


def _missing(seen: Seen, view: View) -> list[Finding]:
    run, record = seen.run, view.steps[-1].record
    found = []
    for role in run.gradients:
        reached_by = [o for o in run.upstream if (role != "weight" or o == "y") and o in record["graph"]]
        slot = record.get("gradients", {}).get(role, {"kind": "none"})
        name, arriving = GRADIENT_OF[role], " and ".join(reached_by)
        if not reached_by:
            continue
        if slot["kind"] == "none":
            message = f"{name} is None, though {role} requires a gradient and that of {arriving} arrives"
            found.append(Finding(NAME, _requirement(seen, role), "fail", message, {"tensor": name}))
        elif arrives_alone(seen) and is_zero(view, role):
            message = f"{name} is 0 everywhere, though the gradient of {arriving} arrives"
            found.append(Finding(NAME, "DRESIDUAL-ALONE", "fail", message, {"tensor": name}))
    return found


def _requirement(seen: Seen, role: str) -> str:
    if role == "weight" and seen.run.n_rows == 0:
        return "DWEIGHT-ZERO-ROWS"
    return "DRESIDUAL-ALONE" if arrives_alone(seen) else _PRESENT[role]


def arrives_alone(seen: Seen) -> bool:
    """Whether a fused op gets the gradient of one of its two outputs only."""
    return seen.run.mode != "none" and len(seen.run.upstream) == 1


def is_zero(view: View, role: str) -> bool:
    """Whether a gradient is 0 everywhere and should not be."""
    values, found = view.gradient_values(role), explained(view, role)
    return values is not None and found is not None and not found.conventions and not bool(values.any())
