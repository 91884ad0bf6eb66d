"""Whether an output has a graph behind it: more than torch's stand-in for a backward that nobody wrote.

torch gives an operator that was registered without a backward a node of its own: one that warns, one that
raises, or (torch.library.custom_op) a Python function that raises. Its author promised no gradient, so such
an operator is forward only.
"""

from __future__ import annotations

from typing import Any

import torch

_PLAIN = (torch.Tensor, torch.nn.Parameter)
_STAND_INS = ("WarnNotImplemented", "NotImplemented")
_NO_FORMULA = "no autograd formula was registered"
_CUSTOM_OP = "GeneratedBackwardFor_"


def has_graph(value: Any) -> bool:
    """Whether a tensor requires grad, and not just through a stand-in that has no backward."""
    if type(value) not in _PLAIN or not value.requires_grad:  # a subclass would run its own code
        return False
    return not any(node.name().rpartition("::")[2] in _STAND_INS for node in _chain(value))


def behind_custom_op(value: torch.Tensor) -> bool:
    """Whether an operator of torch.library.custom_op is behind a tensor; only its backward tells more."""
    return any(node.name().startswith(_CUSTOM_OP) for node in _chain(value))


def says_no_formula(error: BaseException, value: torch.Tensor) -> bool:
    """Whether a backward raised since the operator behind `value` was registered without one."""
    return _NO_FORMULA in said_by(error) and behind_custom_op(value)


def said_by(error: BaseException) -> str:
    """The message of an exception; its own code may be wrong, and then that is said."""
    try:
        return str(error)
    except Exception as second:
        return f"(its message cannot be read: __str__ raised {type(second).__name__})"


def _chain(value: torch.Tensor) -> list[Any]:
    """The nodes behind a tensor up to the first with several inputs: casts and views, then an operator."""
    found = []
    node = value.grad_fn
    while node is not None:
        found.append(node)
        following = [n for n, _ in node.next_functions if n is not None]
        node = following[0] if len(following) == 1 else None
    return found
