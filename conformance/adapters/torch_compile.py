"""torch.compile of the two eager functions of the adapter `torch`, by Inductor.

Inductor removes roundings inside a fused kernel, so whether the exact or the rounded sum is normalised is its
choice and may change with the shape: no convention is declared. Each call proves that compiled code ran.

By default a compiled backward reuses the memory of what was saved, and then torch refuses a second backward
over the same graph. The worker process sets the switch that its message names while it calls a compiled op,
so that a retained graph can be judged.
"""

from __future__ import annotations

import torch

from conformance.adapters.torch import HOMEPAGE, ISSUES, add_then_rms_norm
from conformance.calling.compiled import Compiled
from conformance.hookspecs import hookimpl
from conformance.model import Call, Implementation, Parameter

NAMES = ("torch_compile",)


def rms_norm(x: torch.Tensor, weight: torch.Tensor | None = None, eps: float | None = None) -> torch.Tensor:
    """Return torch's own norm over the last dimension."""
    return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps)


@hookimpl
def conformance_implementations() -> list[Implementation]:
    """Declare the compiled plain norm and the compiled fused add."""
    x, residual = Parameter("x", "x"), Parameter("residual", "residual")
    weight = Parameter("weight", "weight", required=False, nullable=True)
    eps = Parameter("eps", "eps", required=False, nullable=True)
    return [
        Implementation(
            name="torch_compile",
            calls={
                "none": Call(Compiled(rms_norm), (x, weight, eps), compiled=True, differentiable=True),
                "residual": Call(
                    Compiled(add_then_rms_norm),
                    (x, residual, weight, eps),
                    returns=("y", "residual_out"),
                    compiled=True,
                    differentiable=True,
                ),
            },
            version=torch.__version__,
            package="torch",
            homepage=HOMEPAGE,
            issues=ISSUES,
            recognised=(
                "none: torch.compile of F.rms_norm; every call ran compiled code, or it raises",
                "residual: torch.compile of x + residual, then F.rms_norm of the stored sum",
                "backward: torch._functorch.config.donated_buffer is off in its calls, for retained graphs",
            ),
        )
    ]
