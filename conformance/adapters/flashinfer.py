"""FlashInfer: the plain norm returns y or fills out=; the fused add overwrites x and residual.

It is for inference: no output ever requires grad.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from conformance.calling.packages import version_of
from conformance.errors import not_installed
from conformance.hookspecs import hookimpl
from conformance.model import Call, Implementation, Parameter

NAMES = ("flashinfer", "flashinfer_gemma")

PACKAGE = "flashinfer-python"
HOMEPAGE = "https://github.com/flashinfer-ai/flashinfer"
ISSUES = "https://github.com/flashinfer-ai/flashinfer/issues"


@hookimpl
def conformance_implementations() -> list[Implementation]:
    """Declare `flashinfer` and `flashinfer_gemma`; raises NotInstalled without the package."""
    try:
        from flashinfer import norm
    except ModuleNotFoundError as error:
        raise not_installed(PACKAGE, error) from None

    return [
        _declared("flashinfer", norm.rmsnorm, norm.fused_add_rmsnorm, 0.0),
        _declared("flashinfer_gemma", norm.gemma_rmsnorm, norm.gemma_fused_add_rmsnorm, 1.0),
    ]


def _declared(
    name: str, plain: Callable[..., Any], fused: Callable[..., Any], offset: float
) -> Implementation:
    x, weight = Parameter("input", "x"), Parameter("weight", "weight")
    eps = Parameter("eps", "eps", required=False, value=1e-6)
    out = Parameter("out", "out", required=False, nullable=True)
    return Implementation(
        name=name,
        calls={
            "none": Call(plain, (x, weight, eps, out), weight_offset=offset, differentiable=False),
            "residual_in_place": Call(
                fused,
                (x, Parameter("residual", "residual"), weight, eps),
                returns=(),
                mutates={"x": "y", "residual": "residual_out"},
                weight_offset=offset,
                differentiable=False,
            ),
        },
        version=version_of(PACKAGE),
        package=PACKAGE,
        homepage=HOMEPAGE,
        issues=ISSUES,
        dtypes=("float16", "bfloat16"),
        devices=("cuda",),
        recognised=(
            f"none: flashinfer.norm.{plain.__name__}",
            f"residual_in_place: flashinfer.norm.{fused.__name__}, which overwrites input and residual",
        ),
    )
