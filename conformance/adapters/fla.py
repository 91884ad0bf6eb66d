"""flash-linear-attention. One function for all: `residual=` adds, `prenorm=True` makes the sum come back.

The package `fla-core` is enough. Gradients are autograd's: one backward kernel takes those of both outputs.
"""

from __future__ import annotations

from conformance.calling.packages import version_of
from conformance.errors import not_installed
from conformance.hookspecs import hookimpl
from conformance.model import Call, Implementation, Parameter

NAMES = ("fla",)

DEVICES = ("cuda",)
"""Its kernels are autotuned, which needs a driver: Triton's interpreter has none."""

PACKAGE = "fla-core"
HOMEPAGE = "https://github.com/fla-org/flash-linear-attention"
ISSUES = "https://github.com/fla-org/flash-linear-attention/issues"


@hookimpl
def conformance_implementations() -> list[Implementation]:
    """Declare `fla`; raises NotInstalled without the package."""
    try:
        from fla.modules.layernorm import rms_norm
    except ModuleNotFoundError as error:
        raise not_installed(PACKAGE, error) from None

    x = Parameter("x", "x")
    weight = Parameter("weight", "weight", nullable=True)
    bias = Parameter("bias", "bias", nullable=True)
    eps = Parameter("eps", "eps", required=False, keyword=True, value=1e-5)
    return [
        Implementation(
            name="fla",
            calls={
                "none": Call(rms_norm, (x, weight, bias, eps), differentiable=True),
                "residual": Call(
                    rms_norm,
                    (
                        x,
                        weight,
                        bias,
                        Parameter("residual", "residual", keyword=True),
                        eps,
                        Parameter("prenorm", "fixed", keyword=True, value=True),
                    ),
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
                "none: fla.modules.layernorm.rms_norm with bias=None",
                "residual: the same with residual= and prenorm=True",
            ),
        )
    ]
