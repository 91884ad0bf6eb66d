"""Says in words how a call was read, so that a user sees it before any verdict."""

from __future__ import annotations

from conformance.calling.readings import Candidate, Evidence
from conformance.model import Call


def sentences(mode: str, candidate: Candidate, call: Call, evidence: Evidence | None) -> tuple[str, ...]:
    """Return how the call of one fusion mode was read, then what a trial call showed beside it."""
    found = [f"{mode}: {reading(call)}"]
    if evidence is None:
        return tuple(found)
    if evidence.error:
        found.append(f"{mode}: read by name and order; a trial call raised {evidence.error}")
        return tuple(found)
    for role in sorted(set(evidence.changed) - set(call.mutates)):
        parameter = call.parameter(role)
        name = parameter.name if parameter else role
        found.append(
            f"{mode}: a trial call overwrote {name}, and nothing in the signature says so; "
            "if that is meant, declare it (mutates)"
        )
    if evidence.weight_offset is not None and evidence.weight_offset != call.weight_offset:
        found.append(
            f"{mode}: a trial call multiplied by weight + {evidence.weight_offset:g}; if that is meant, "
            f"say --rn-weight-offset={evidence.weight_offset:g}"
        )
    return tuple(found)


def reading(call: Call) -> str:
    """Return one sentence: the parameters, what comes back, what is overwritten."""
    shown = ", ".join(
        f"{p.name}={p.value}" if p.role == "fixed"
        else p.name if p.name.lower() == p.role
        else f"{p.name} is {p.role}"
        for p in call.parameters
    )  # fmt: skip
    slots = [name or "(ignored)" for name in call.returns]
    if not slots:
        back = "returns nothing"
    elif len(slots) == 1:
        back = f"returns {slots[0]}"
    else:
        back = f"returns ({', '.join(slots)})"
    names = {p.role: p.name for p in call.parameters}
    written = " and ".join(f"{names.get(role, role)} with {output}" for role, output in call.mutates.items())
    over = f"overwrites {written}" if written else "overwrites nothing"
    offset = f"; multiplies by weight + {call.weight_offset:g}" if call.weight_offset else ""
    return f"{shown}; {back}; {over}{offset}"
