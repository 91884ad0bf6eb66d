"""QuACK. One function for all: `residual=` adds, `prenorm=True` makes the sum come back.

Its kernels are written in NVIDIA's CuTe DSL. Gradients are autograd's.
"""

from __future__ import annotations

from conformance.calling.packages import version_of
from conformance.errors import not_installed
from conformance.hookspecs import hookimpl
from conformance.model import Call, Implementation, Parameter

NAMES = ("quack",)

PACKAGE = "quack-kernels"
HOMEPAGE = "https://github.com/Dao-AILab/quack"
ISSUES = "https://github.com/Dao-AILab/quack/issues"


@hookimpl
def conformance_implementations() -> list[Implementation]:
    """Declare `quack`; raises NotInstalled without the package."""
    try:
        # By the module's full name: the package rebinds its attribute `rmsnorm` to this very function.
        from quack.rmsnorm import rmsnorm
    except ModuleNotFoundError as error:
        raise not_installed(PACKAGE, error) from None

    x = Parameter("x", "x")
    weight = Parameter("weight", "weight", required=False, nullable=True)
    scaling = (
        Parameter("eps", "eps", required=False, keyword=True, value=1e-6),
        Parameter("weight_offset", "weight_offset", required=False, keyword=True, value=0.0),
    )
    return [
        Implementation(
            name="quack",
            calls={
                "none": Call(rmsnorm, (x, weight, *scaling), differentiable=True),
                "residual": Call(
                    rmsnorm,
                    (
                        x,
                        weight,
                        Parameter("residual", "residual", keyword=True),
                        Parameter("prenorm", "fixed", keyword=True, value=True),
                        *scaling,
                    ),
                    returns=("y", "residual_out"),
                    differentiable=True,
                ),
            },
            version=version_of(PACKAGE),
            package=PACKAGE,
            homepage=HOMEPAGE,
            issues=ISSUES,
            devices=("cuda",),
            recognised=(
                "none: quack.rmsnorm.rmsnorm",
                "residual: the same with residual= and prenorm=True",
            ),
        )
    ]
