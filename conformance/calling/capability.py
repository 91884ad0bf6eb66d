"""What a call has no way to be asked, answered without torch and without calling anything."""

from __future__ import annotations

from conformance.model import GRADIENT_OF, UPSTREAM_OF, Call, Run


def can_ask(call: Call, run: Run) -> str | None:
    """Return why `run` cannot be put to `call`, or None where it can.

    Only the parameters decide: a call without a parameter `out` cannot be asked to fill one. What the
    function does with the values is found out by calling it.
    """
    eps, weight = call.parameter("eps"), call.parameter("weight")
    if run.eps is None and eps is not None and eps.required:
        return f"the parameter {eps.name} is required: it cannot be left out"
    if run.eps is not None and eps is None:
        return f"there is no parameter for eps: it cannot be set to {run.eps!r}"
    if "weight" in run.dtypes and weight is None:
        return "there is no parameter for weight: it cannot be multiplied by one"
    if "weight" not in run.dtypes and weight is not None and weight.required and not weight.nullable:
        return f"the parameter {weight.name} is required: it cannot be left out"
    if (run.out or "out" in run.layouts) and call.parameter("out") is None:
        return "there is no parameter for out: it allocates y itself"
    if run.weight_offset is not None and not _takes_offset(call, run.weight_offset):
        return f"there is no parameter for weight_offset: it cannot be set to {run.weight_offset!r}"
    return _cannot_train(call, run) if run.trains else None


def _cannot_train(call: Call, run: Run) -> str | None:
    """Why no gradient can be asked, or None; `plan` has looked at `Call.differentiable`."""
    overwritten = [r for r in GRADIENT_OF if r in call.mutates]
    if overwritten:
        return f"{overwritten[0]} is overwritten: what is overwritten cannot be differentiated"
    backward = call.backward
    if backward is None:
        return None
    roles = {p.role for p in backward.parameters}
    required = {p.role for p in backward.parameters if p.required}
    for role in ("rrms", "residual_out"):
        if role in required and role not in (*call.returns, *call.mutates.values()):
            return f"the backward needs {role}, and the forward does not give it"
    for output in run.upstream:
        if UPSTREAM_OF[output] not in roles:
            return f"the backward has no parameter for {UPSTREAM_OF[output]}: it cannot be given"
    missing = [r for r in run.gradients if GRADIENT_OF[r] not in backward.returns and r != "residual"]
    if missing:
        return f"the backward returns no {GRADIENT_OF[missing[0]]}"
    one_for_both = run.mode == "residual" and "dresidual" not in backward.returns
    if one_for_both and run.dtypes["x"] != run.dtypes["residual"]:
        return "the backward returns one gradient for x and residual, and their dtypes differ"
    return None


def _takes_offset(call: Call, offset: float) -> bool:
    if call.parameter("weight_offset") is not None:
        return True
    return call.parameter("zero_centered") is not None and offset in (0.0, 1.0)
