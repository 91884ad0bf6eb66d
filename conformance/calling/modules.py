"""Calls an nn.Module class: builds one instance of the width, gives it the weight, and calls its forward.

A module under test is its class, because width, eps and weight change from run to run. `ModuleCall` stands
where a function stands elsewhere: it is called with forward's own parameters plus `weight`, `eps` and,
where the constructor has them, an offset or a switch for it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from conformance.calling.roles import ROLE_OF, Argument
from conformance.calling.signatures import Signature, is_compiled, read
from conformance.errors import NotRecognised

WIDTHS = (
    "hidden_size", "normalized_shape", "normalised_shape", "dim", "size", "hidden_dim", "hidden", "d_model",
    "embed_dim", "embedding_dim", "n_embd", "width", "features", "num_features", "in_features", "ndim", "d",
    "n",
)  # fmt: skip
"""What constructors call the hidden size; a first required parameter of another name is taken as well."""

WEIGHT_SWITCHES = ("elementwise_affine", "has_weight", "has_weights", "include_weight")
"""Constructor parameters that, when False, leave the weight out."""

WEIGHT_NAMES = ("weight", "gamma", "scale", "w", "g")

_TRIAL_WIDTH = 8


class ModuleCall:
    """A module class as something to call; see the module docstring."""

    def __init__(
        self, module: type[torch.nn.Module], width: Argument, constructor: dict[str, Argument]
    ) -> None:
        self.module = module
        self.width = width
        self.constructor = constructor  # role, or "affine", -> the constructor's parameter
        self.weight_name = ""

    def build(self, hidden_size: int, settings: dict[str, Any]) -> torch.nn.Module:
        """Return an instance; `settings` are constructor values by role. The generators stay as they were."""
        named = {self.constructor[role].name: value for role, value in settings.items()}
        with torch.random.fork_rng(devices=[]):
            if self.width.keyword:
                return self.module(**{self.width.name: hidden_size}, **named)
            return self.module(hidden_size, **named)

    def prepare(self, x: torch.Tensor, named: dict[str, Any]) -> torch.nn.Module:
        """Take the constructor's part out of `named` and return an instance for it, ready to be called."""
        settings = {role: named.pop(role) for role in tuple(self.constructor) if role in named}
        weight = named.pop("weight", None)
        if weight is None and "affine" in self.constructor:
            settings["affine"] = False
        instance = self.build(x.shape[-1], settings).to(x.device)
        if weight is not None:
            if not isinstance(weight, torch.nn.Parameter):  # a given one is asked for its gradient later
                weight = torch.nn.Parameter(weight, requires_grad=False)
            setattr(instance, self.weight_name, weight)
        return instance

    def __call__(self, x: torch.Tensor, *positional: Any, **named: Any) -> Any:
        return self.prepare(x, named)(x, *positional, **named)


def read_module(subject: type[torch.nn.Module] | torch.nn.Module, name: str) -> Signature:
    """Return the signature of a module class. Raises NotRecognised for an instance, or without a weight."""
    if not isinstance(subject, type):
        raise _refuse_instance(subject, name)
    call = _constructor(subject, name)
    forward = read(subject.forward, name)
    arguments = list(forward.arguments[1:])  # without self
    taken = {a.name for a in arguments} & {"weight", *call.constructor}
    if taken:
        raise NotRecognised(
            f"{name}: forward and the constructor both have {sorted(taken)}.",
            "Wrap the module in a function (x, weight, eps) that builds it, and name that.",
        )
    call.weight_name = _weight_name(call, name)
    affine = "affine" in call.constructor
    if call.weight_name:
        arguments.append(Argument("weight", required=True, keyword=True, nullable=affine))
    arguments.extend(
        replace(argument, name=role, keyword=True)
        for role, argument in call.constructor.items()
        if role != "affine"
    )
    compiled = is_compiled(subject.forward)
    return Signature(name, call, tuple(arguments), compiled=compiled)


def _constructor(module: type[torch.nn.Module], name: str) -> ModuleCall:
    """Find the width, eps, offset and weight switch among the constructor's parameters."""
    shown = read(module.__init__, name).arguments[1:]
    by_role: dict[str, Argument] = {}
    width = next((a for a in shown if a.name.lower() in WIDTHS), None)
    for argument in shown:
        lower = argument.name.lower()
        role = "affine" if lower in WEIGHT_SWITCHES else ROLE_OF.get(lower, "")
        if role in ("eps", "weight_offset", "zero_centered", "affine"):
            by_role.setdefault(role, argument)
    if width is None:
        width = next((a for a in shown if a.required and a not in by_role.values()), None)
    unknown = [a.name for a in shown if a.required and a is not width and a not in by_role.values()]
    if width is None or unknown:
        problem = f"requires {', '.join(unknown)}" if unknown else "has no parameter for the width"
        raise NotRecognised(
            f"{name}: the constructor {problem}; expected (hidden_size, eps=…).",
            "Wrap the module in a function (x, weight, eps) that builds it, and name that.",
        )
    first = shown[0] is width and not width.keyword
    return ModuleCall(module, replace(width, keyword=not first), by_role)


def _weight_name(call: ModuleCall, name: str) -> str:
    """Build a small instance and find the parameter that is the weight, "" where there is none."""
    settings = {"eps": 1e-6} if "eps" in call.constructor else {}
    try:
        instance = call.build(_TRIAL_WIDTH, settings)
    except Exception as error:
        raise NotRecognised(
            f"{name}: building it with {call.width.name}={_TRIAL_WIDTH} raised "
            f"{type(error).__name__}: {error}",
            "Wrap the module in a function (x, weight, eps) that builds it, and name that.",
        ) from error
    tensors = {**dict(instance.named_buffers()), **dict(instance.named_parameters())}
    own = {n: t for n, t in tensors.items() if t.shape == (_TRIAL_WIDTH,)}
    found = next((n for n in WEIGHT_NAMES if n in own), "") or (next(iter(own)) if len(own) == 1 else "")
    if own and not found:
        raise NotRecognised(
            f"{name} has the parameters {sorted(own)}, and none is called weight.",
            "Wrap the module in a function (x, weight, eps) that sets the right one, and name that.",
        )
    if "." in found:
        raise NotRecognised(
            f"{name}: the weight is in a submodule ({found}).",
            "Name the class of the submodule, or wrap it in a function (x, weight, eps).",
        )
    return found


def _refuse_instance(subject: torch.nn.Module, name: str) -> NotRecognised:
    original = type(getattr(subject, "_orig_mod", subject))
    return NotRecognised(
        f"{name} is an instance of {original.__name__}, built for one width and one eps already.",
        f"Name its class instead (--impl={original.__module__}:{original.__qualname__}), or a function:\n\n"
        "    def norm(x, weight, eps):\n"
        f"        module = {original.__qualname__}(x.shape[-1], eps=eps).to(x.device)\n"
        '        return torch.func.functional_call(module, {"weight": weight}, (x,))',
    )
