"""What a signature says about a call, what it leaves open, and how a probe closes that. Calls nothing.

`readings(signature)` gives one `Candidate` for the plain norm and one for the fused add, as far as the
parameters allow each. A candidate's `call` is the reading by name and order, which is judged if nothing
better is known. `choose(candidate, evidence)` may replace it by another reading that the signature allows
just as well: which slot is which output, and which arguments are overwritten. It never chooses between
right and wrong: what fits no reading is judged by name and order, and fails there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from conformance.calling.declare import unknown_parameters
from conformance.calling.roles import (
    IN_PLACE,
    OFF_WHEN_REQUIRED,
    SWITCHED_ON_WITH_RESIDUAL,
    Argument,
    assign,
)
from conformance.calling.signatures import Signature
from conformance.model import Call, Parameter

BUFFERS = {"out": "y", "residual_out": "residual_out"}
"""Parameters whose very name says that they are written, and with what."""


@dataclass(frozen=True)
class Candidate:
    """One fusion mode that a signature allows, read by name and order.

    may_write: roles that the signature itself says are overwritten: by schema, or a switch named in_place.
    only: the schema is complete, so that nothing but `may_write` can be overwritten.
    y_may_be_out: the parameter read as residual is called `y` and may be an output instead.
    """

    call: Call
    fused: bool
    may_write: frozenset[str] = frozenset()
    only: bool = False
    y_may_be_out: bool = False

    @property
    def outputs(self) -> tuple[str, ...]:
        return ("y", "residual_out") if self.fused else ("y",)


@dataclass(frozen=True)
class Evidence:
    """What one call on distinguishable tensors did. "" stands for "equals nothing known".

    returned: for each slot, what it equals: an output's name, "plain" (y without the residual), "none" or "".
    slots_alias: for each slot, the role of the argument whose memory it shares, or "".
    changed: the roles whose tensor changed, and what it holds now.
    error: the call raised; nothing else is known.
    """

    returned: tuple[str, ...] = ()
    slots_alias: tuple[str, ...] = ()
    changed: Mapping[str, str] = field(default_factory=dict)
    weight_offset: float | None = None  # the offset with which y matched
    error: str = ""

    def alias(self, slot: int) -> str:
        return self.slots_alias[slot] if slot < len(self.slots_alias) else ""


def readings(signature: Signature, weight_offset: float | None = None) -> tuple[Candidate, ...]:
    """Return the candidates, the plain norm first; NotRecognised where a required parameter has no role."""
    roles = assign(signature.arguments)
    unknown = [
        a.name for a in signature.arguments
        if a.required and a.name not in roles and a.name.lower() not in OFF_WHEN_REQUIRED
    ]  # fmt: skip
    if "x" not in roles.values():
        unknown = unknown or [a.name for a in signature.arguments] or ["x"]
    by_role = {role: name for name, role in roles.items()}
    required = {a.name: a.required for a in signature.arguments}
    residual = by_role.get("residual")
    if unknown:
        raise unknown_parameters(signature, roles, unknown)
    needs_buffer = required.get(by_role.get("residual_out", ""), False)
    if needs_buffer and residual is None:
        raise unknown_parameters(signature, roles, [by_role["residual_out"]])
    found = []
    if residual is None or not required[residual]:
        found.append(_candidate(signature, roles, False, weight_offset))
    if residual is not None:
        found.append(_candidate(signature, roles, True, weight_offset))
    return tuple(found)


def mode_of(call: Call) -> str:
    """Return the fusion mode of a call: in place as soon as x or residual is overwritten in a fused add."""
    if call.parameter("residual") is None:
        return "none"
    return "residual_in_place" if {"x", "residual"} & set(call.mutates) else "residual"


def in_place(candidate: Candidate) -> Candidate:
    """Return the candidate with the in-place reading as its default: x becomes y, residual the sum."""
    mutates = {"x": "y", "residual": "residual_out"} if candidate.fused else {"x": "y"}
    return replace(candidate, call=replace(candidate.call, returns=(), mutates=mutates))


def _candidate(
    signature: Signature, roles: Mapping[str, str], fused: bool, weight_offset: float | None
) -> Candidate:
    parameters = _parameters(signature, roles, fused)
    written = {roles[a.name] for a in signature.arguments if a.written and a.name in roles}
    switched = {
        a.name.lower() for a in signature.arguments if a.name.lower() in IN_PLACE and a.default is True
    }
    if switched:
        written |= {"x", "residual"} if fused else {"x"}
    if fused and any(p.role == "fixed" and p.name.lower() == "add_back" for p in parameters):
        written |= {"residual"}
    call = Call(
        function=signature.function,
        parameters=parameters,
        weight_offset=_offset(signature, roles, weight_offset),
        compiled=signature.compiled,
    )
    named_y = next((a for a in signature.arguments if a.name.lower() == "y"), None)
    candidate = Candidate(
        call=call,
        fused=fused,
        may_write=frozenset(written - set(BUFFERS)),
        only=signature.schema and bool(written),
        y_may_be_out=fused
        and named_y is not None
        and roles.get(named_y.name) == "residual"
        and "out" not in roles.values(),
    )
    return replace(candidate, call=_by_order(candidate, signature.returns))


def _parameters(signature: Signature, roles: Mapping[str, str], fused: bool) -> tuple[Parameter, ...]:
    found: list[Parameter] = []
    gap = False  # a parameter that is left at its default: what follows must be passed by name
    for argument in signature.arguments:
        parameter = _parameter(argument, roles.get(argument.name, ""), fused)
        if parameter is None:
            gap = True
        else:
            found.append(replace(parameter, keyword=gap or argument.keyword))
    return tuple(found)


def _parameter(argument: Argument, role: str, fused: bool) -> Parameter | None:
    name = argument.name.lower()
    if role in ("residual", "residual_out") and not fused:
        return None
    if role == "bias" and not argument.required:
        return None
    if role:
        required = argument.required or role == "residual"
        return Parameter(argument.name, role, required, value=argument.default, nullable=argument.nullable)
    if fused and name in SWITCHED_ON_WITH_RESIDUAL:
        return Parameter(argument.name, "fixed", value=True)
    if argument.required:
        return Parameter(argument.name, "fixed", value=OFF_WHEN_REQUIRED[name])
    return None


def _offset(signature: Signature, roles: Mapping[str, str], told: float | None) -> float:
    """`told` (--rn-weight-offset) wins, then a parameter's default, then the word gemma in the name."""
    if told is not None:
        return told
    for argument in signature.arguments:
        role = roles.get(argument.name)
        if role == "weight_offset":
            number = isinstance(argument.default, (int, float)) and not argument.required
            return float(argument.default) if number else 0.0
        if role == "zero_centered":
            return 1.0 if argument.default is True else 0.0
    return 1.0 if signature.says_gemma else 0.0


# --- which output is where -----------------------------------------------------------------------------


def _by_order(candidate: Candidate, returns: int | None) -> Call:
    """The reading by name and order, from the schema's count of returned tensors where there is one."""
    buffers = _buffers(candidate.call)
    if returns is None:
        returns = 0 if "out" in buffers else len(candidate.outputs) - len(buffers)
    return _complete(candidate, Evidence(returned=("",) * returns))


def _buffers(call: Call) -> dict[str, str]:
    return {p.role: BUFFERS[p.role] for p in call.parameters if p.role in BUFFERS and p.required}


def choose(candidate: Candidate, evidence: Evidence) -> Call:
    """Return the reading that the evidence supports, among those that the signature leaves open."""
    came_back = any(slot != "none" for slot in evidence.returned)
    if evidence.error or not (came_back or evidence.changed):
        return candidate.call
    if candidate.y_may_be_out and _wrote_plain(evidence):
        return _with_y_as_out(candidate.call)
    return _complete(candidate, evidence)


def _complete(candidate: Candidate, evidence: Evidence) -> Call:
    """Name the returned slots, then look for the outputs that did not come back in the arguments."""
    buffers = _buffers(candidate.call)
    returns = _name_slots(candidate, evidence)
    missing = [o for o in candidate.outputs if o not in returns and o not in buffers.values()]
    changed = evidence.changed
    if not any(returns) and not set(missing) <= set(changed.values()):
        changed = {}  # nothing came back, and not all of it is found: by name, x is y and residual the sum
    free = set(candidate.may_write)
    if missing and not candidate.only:  # fewer tensors come back than the op has outputs
        free |= {"x", "residual"} if candidate.fused else {"x"}
    mutates = dict(buffers)
    for output in missing:
        role = _holder(output, free - set(mutates), changed, by_name=candidate.only or not any(returns))
        if role:
            mutates[role] = output
    for slot, output in enumerate(returns):  # returned and overwritten, where both are the same memory
        if output and evidence.alias(slot) in free and evidence.alias(slot) in changed:
            mutates.setdefault(evidence.alias(slot), output)
    for role in sorted(candidate.may_write):
        if changed.get(role) in candidate.outputs:
            mutates.setdefault(role, changed[role])
    return replace(candidate.call, returns=returns, mutates=mutates)


def _holder(output: str, free: set[str], changed: Mapping[str, str], by_name: bool) -> str:
    """The argument that holds an output which did not come back, or "" where none does."""
    natural = {"y": "x", "residual_out": "residual"}[output]
    holders = sorted(role for role in free if changed.get(role) == output)
    if holders:
        return natural if natural in holders else holders[0]
    if natural in free and (by_name or natural in changed):
        return natural
    return min(free) if by_name and len(free) == 1 else ""


def _name_slots(candidate: Candidate, evidence: Evidence) -> tuple[str, ...]:
    """By value where values tell, the others by position; a slot that holds no output is ignored."""
    filled = _buffers(candidate.call).values()
    by_position = sorted(candidate.outputs, key=lambda output: output in filled)
    names = [r if r in (*candidate.outputs, "rrms") else "" for r in evidence.returned]
    names = ["" if name in names[:i] else name for i, name in enumerate(names)]
    kept = ("none",) if candidate.fused else ("none", "input")
    unnamed = [i for i, n in enumerate(names) if not n and evidence.returned[i] not in kept]
    y_elsewhere = "y" in names or "y" in filled or "y" in evidence.changed.values()
    if not unnamed and not y_elsewhere:  # y is nowhere: it is the first tensor that comes back, and wrong
        came_back = [i for i, r in enumerate(evidence.returned) if r != "none"]
        unnamed = [i for i in came_back if names[i] != "rrms"] or came_back
        names = [n if n == "rrms" and i not in unnamed else "" for i, n in enumerate(names)]
    for slot, output in zip(unnamed, [o for o in by_position if o not in names], strict=False):
        names[slot] = output
    return tuple(names)


# --- a parameter called y ------------------------------------------------------------------------------


def _wrote_plain(evidence: Evidence) -> bool:
    comes_back = [evidence.alias(slot) for slot, what in enumerate(evidence.returned) if what != "none"]
    return dict(evidence.changed) == {"residual": "plain"} and set(comes_back) <= {"residual"}


def _with_y_as_out(call: Call) -> Call:
    parameters = tuple(
        replace(p, role="out", required=True) if p.role == "residual" else p for p in call.parameters
    )
    return replace(call, parameters=parameters, returns=(), mutates={"out": "y"})
