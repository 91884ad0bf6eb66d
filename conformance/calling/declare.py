"""The lines that declare a call, for a signature that does not tell its meaning by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from conformance.calling.roles import ROLE_NAMES
from conformance.calling.signatures import Signature
from conformance.errors import NotRecognised

_HEAD = """\
from conformance.hookspecs import hookimpl
from conformance.model import Call, Implementation, Parameter


@hookimpl
def conformance_implementations():"""


def unknown_parameters(
    signature: Signature, roles: Mapping[str, str], unknown: Sequence[str]
) -> NotRecognised:
    """Return the refusal that names the parameters without a meaning and prints what would declare them."""
    names = ", ".join(repr(name) for name in unknown)
    roles = {name: role for name, role in roles.items() if name not in unknown}
    if "x" not in roles.values():
        known = ", ".join(ROLE_NAMES["x"][:4])
        message = f"{signature.name} has no parameter that is x (by name: {known}, …), but {names}."
    else:
        several = "s" if len(unknown) > 1 else ""
        message = (
            f"{signature.name} requires the parameter{several} {names}, and the name does not tell "
            "what to pass."
        )
    hint = (
        "Declare the call, in the same module or any other. Where a line below says `fixed`, give the value "
        "to pass, or a role instead: x, residual, weight, eps, out, residual_out, normalized_shape, "
        "weight_offset, zero_centered, bias.\n\n" + lines(signature, roles)
    )
    return NotRecognised(message, hint)


def lines(signature: Signature, roles: Mapping[str, str]) -> str:
    """Return Python source that declares `signature`, complete but for the values marked `fixed`."""
    short = signature.name.rpartition(":")[2]
    fused = "residual" in roles.values()
    mode, returns = ("residual", '("y", "residual_out")') if fused else ("none", '("y",)')
    shown = [
        f'                        Parameter("{a.name}", "{roles.get(a.name, "fixed")}"'
        + ("" if a.required else ", required=False")
        + (", keyword=True" if a.keyword else "")
        + (")," if a.name in roles else ", value=None),")
        for a in signature.arguments
        if a.required or a.name in roles
    ]
    body = f"""
    return [
        Implementation(
            name="{short}",
            calls={{
                "{mode}": Call(
                    function={short},
                    parameters=(
{chr(10).join(shown)}
                    ),
                    returns={returns},
                ),
            }},
        ),
    ]"""
    return _HEAD + body
