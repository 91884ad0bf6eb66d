"""torchnorm: the Triton functions that its modules RMSNorm and FusedAddRMSNorm call on a GPU.

The modules themselves fall back to torch elsewhere, so that on a CPU they would say nothing of the kernels.
"""

from __future__ import annotations

from conformance.calling.packages import version_of
from conformance.errors import not_installed
from conformance.hookspecs import hookimpl
from conformance.model import Call, Implementation, Parameter

NAMES = ("torchnorm",)

DEVICES = ("cuda",)
"""A program a row, each with atomic adds: in Triton's interpreter a few thousand rows take minutes."""

PACKAGE = "torchnorm"
HOMEPAGE = "https://github.com/liodon-ai/torchnorm"
ISSUES = "https://github.com/liodon-ai/torchnorm/issues"


@hookimpl
def conformance_implementations() -> list[Implementation]:
    """Declare `torchnorm`; raises NotInstalled without the package."""
    try:
        from torchnorm._triton import fused_add_rms_norm, fused_rms_norm
    except ModuleNotFoundError as error:
        raise not_installed(PACKAGE, error) from None

    x, weight, eps = (Parameter(name, name) for name in ("x", "weight", "eps"))
    return [
        Implementation(
            name="torchnorm",
            calls={
                "none": Call(fused_rms_norm, (x, weight, eps), differentiable=True),
                "residual": Call(
                    fused_add_rms_norm,
                    (x, Parameter("residual", "residual"), weight, eps),
                    returns=("y", "residual_out"),
                    differentiable=True,
                ),
            },
            version=version_of(PACKAGE),
            package=PACKAGE,
            homepage=HOMEPAGE,
            issues=ISSUES,
            devices=DEVICES,
            recognised=(
                "none: torchnorm._triton.fused_rms_norm, what torchnorm.RMSNorm calls on a GPU",
                "residual: torchnorm._triton.fused_add_rms_norm, what FusedAddRMSNorm calls there",
            ),
        )
    ]
