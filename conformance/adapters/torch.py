"""torch.nn.functional.rms_norm, eager. Torch has no fused add: the sum is stored, then normalised."""

from __future__ import annotations

import torch

from conformance.hookspecs import hookimpl
from conformance.model import Call, Implementation, Parameter

NAMES = ("torch",)

HOMEPAGE = "https://pytorch.org"
ISSUES = "https://github.com/pytorch/pytorch/issues"


def add_then_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None = None, eps: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (y, residual_out): the sum in the residual's dtype, and its norm in x's dtype."""
    residual_out = (x + residual).to(residual.dtype)
    wide = residual_out.to(torch.promote_types(x.dtype, residual.dtype))
    y = torch.nn.functional.rms_norm(wide, wide.shape[-1:], weight, eps).to(x.dtype)
    return y, residual_out


@hookimpl
def conformance_implementations() -> list[Implementation]:
    """Declare the plain norm and the functional fused add."""
    weight = Parameter("weight", "weight", required=False, nullable=True)
    eps = Parameter("eps", "eps", required=False, nullable=True)
    return [
        Implementation(
            name="torch",
            calls={
                "none": Call(
                    torch.nn.functional.rms_norm,
                    (
                        Parameter("input", "x"),
                        Parameter("normalized_shape", "normalized_shape"),
                        weight,
                        eps,
                    ),
                    differentiable=True,
                ),
                "residual": Call(
                    add_then_rms_norm,
                    (Parameter("x", "x"), Parameter("residual", "residual"), weight, eps),
                    returns=("y", "residual_out"),
                    differentiable=True,
                ),
            },
            version=torch.__version__,
            package="torch",
            homepage=HOMEPAGE,
            issues=ISSUES,
            recognised=(
                "none: F.rms_norm(input, normalized_shape, weight, eps)",
                "residual: x + residual, stored, then F.rms_norm of the stored sum",
            ),
        )
    ]
