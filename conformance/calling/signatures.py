"""Reads how something is called: functions, operators, autograd functions, partials, callable objects.

`read(subject, name)` gives a `Signature`. Nothing is called here, and torch is looked at only where it has
been imported already.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from conformance.calling.roles import Argument
from conformance.errors import NotRecognised


@dataclass(frozen=True)
class Signature:
    """How one function is called, before any meaning is given to its parameters."""

    name: str  # as the user wrote it; read only for the word `gemma`
    function: Callable[..., Any]
    arguments: tuple[Argument, ...]
    schema: bool = False  # an operator schema says what is overwritten: `Argument.written`
    returns: int | None = None  # how many tensors come back, where a schema says so
    compiled: bool = False

    @property
    def says_gemma(self) -> bool:
        """Whether the function's or class's own name has the word; its module and package do not count."""
        parts = self.name.rpartition(":")[2].split(".")
        own = [part for part in parts if part not in ("apply", "forward", "default")]
        return bool(own) and "gemma" in own[-1].lower()


class ByPosition:
    """A function that takes its arguments by position only, made callable by name as well."""

    def __init__(self, function: Callable[..., Any], signature: inspect.Signature) -> None:
        self.function = function
        self.signature = signature

    def __call__(self, *positional: Any, **named: Any) -> Any:
        bound = self.signature.bind(*positional, **named)
        bound.apply_defaults()
        return self.function(*bound.arguments.values())


def read(subject: Any, name: str) -> Signature:
    """Return the signature of `subject`. Raises NotRecognised where there is none to read."""
    operator = _operator(subject)
    if operator is not None:
        return _from_schema(operator, subject, name)
    owner = _autograd_function(subject)
    if owner is not None:
        return _from_forward(owner, name)
    if hasattr(subject, "run") and hasattr(subject, "arg_names") and hasattr(subject, "params"):
        raise NotRecognised(
            f"{name} is a Triton kernel: it takes pointers and a grid, and no suite can guess those.",
            "Name the Python function that allocates y and launches it, with --impl=module:function.",
        )
    if inspect.isclass(subject):
        raise NotRecognised(
            f"{name} is the class {subject.__name__!r}, neither a function nor a torch.nn.Module.",
            "Name a function, a torch.nn.Module class or an autograd function, as module:function.",
        )
    if not callable(subject):
        raise NotRecognised(
            f"{name} is a {type(subject).__name__}, which cannot be called.",
            "Name a function, a torch.nn.Module class or an autograd function, as module:function.",
        )
    try:
        signature = inspect.signature(subject)
    except (TypeError, ValueError) as error:
        raise NotRecognised(
            f"{name} shows no signature ({error}).",
            "Wrap it in a Python function with named parameters (x, residual, weight, eps), and name that.",
        ) from None
    return _from_python(signature, subject, name)


def is_compiled(subject: Any) -> bool:
    """Return whether `subject` is what torch.compile gives: a compiled function, method or module."""
    while isinstance(subject, functools.partial):
        subject = subject.func
    if hasattr(subject, "_torchdynamo_orig_callable") or hasattr(subject, "_orig_mod"):
        return True
    return hasattr(getattr(subject, "forward", None), "_torchdynamo_orig_callable")


def _from_python(signature: inspect.Signature, function: Any, name: str) -> Signature:
    kinds = inspect.Parameter
    shown = list(signature.parameters.values())
    named = [p for p in shown if p.kind not in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD)]
    if any(p.kind is kinds.POSITIONAL_ONLY for p in named):
        by_name = [
            p.replace(kind=kinds.POSITIONAL_OR_KEYWORD) if p.kind is kinds.POSITIONAL_ONLY else p
            for p in named
        ]
        if all(p.kind is kinds.POSITIONAL_OR_KEYWORD for p in by_name):
            function = ByPosition(function, inspect.Signature(by_name))
        named = by_name
    arguments = tuple(_argument(p) for p in named)
    return Signature(name, function, arguments, compiled=is_compiled(function))


def _argument(parameter: inspect.Parameter) -> Argument:
    required = parameter.default is inspect.Parameter.empty
    annotation = str(parameter.annotation)
    return Argument(
        name=parameter.name,
        required=required,
        keyword=parameter.kind is inspect.Parameter.KEYWORD_ONLY,
        default=None if required else parameter.default,
        nullable=(not required and parameter.default is None)
        or "None" in annotation
        or "Optional" in annotation,
    )


# --- torch.ops -----------------------------------------------------------------------------------------


def _operator(subject: Any) -> Any:
    """Return the overload with the schema, for torch.ops objects and torch.library.custom_op."""
    if hasattr(subject, "_opoverload"):  # torch.library.custom_op
        return subject._opoverload
    if hasattr(subject, "_schema") and hasattr(subject, "overloadpacket"):
        return subject
    if hasattr(subject, "overloads") and hasattr(subject, "_qualified_op_name"):
        names = subject.overloads()
        return getattr(subject, "default" if "default" in names else names[0])
    return None


def _from_schema(operator: Any, function: Any, name: str) -> Signature:
    schema = operator._schema
    arguments = []
    for shown in schema.arguments:
        required = not shown.has_default_value()
        default = None if required else shown.default_value
        arguments.append(
            Argument(
                name=shown.name,
                required=required,
                keyword=shown.kwarg_only,
                default=default,
                nullable=str(shown.type).startswith("Optional"),
                written=shown.alias_info is not None and shown.alias_info.is_write,
            )
        )
    tensors = sum("Tensor" in str(shown.type) for shown in schema.returns)
    return Signature(name, function, tuple(arguments), schema=True, returns=tensors)


# --- torch.autograd.Function ---------------------------------------------------------------------------


def _autograd_function(subject: Any) -> Any:
    """Return the class whose `apply`, or which itself, was named; None for anything else."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    owner = subject if inspect.isclass(subject) else getattr(subject, "__self__", None)
    if not (inspect.isclass(owner) and issubclass(owner, torch.autograd.Function)):
        return None
    return owner if owner is subject or subject.__name__ == "apply" else None


def _from_forward(owner: Any, name: str) -> Signature:
    """`apply` itself shows only (*args, **kwargs): the names are those of `forward`, without ctx."""
    torch = sys.modules["torch"]
    signature = inspect.signature(owner.forward)
    shown = list(signature.parameters.values())
    if owner.setup_context is torch.autograd.Function.setup_context:
        shown = shown[1:]  # forward(ctx, ...): the older of torch's two forms
    kinds = inspect.Parameter
    named = [
        p.replace(kind=kinds.POSITIONAL_OR_KEYWORD)
        for p in shown
        if p.kind not in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD)
    ]
    apply = ByPosition(owner.apply, inspect.Signature(named))
    read_as = _from_python(apply.signature, apply, name)
    return replace(read_as, function=apply)
