"""Liger-Kernel, in its two casting modes: `llama` rounds x_hat, `gemma` computes in fp32 with weight + 1.

The add is done in x's dtype, so what is normalised is the rounded sum. The casting mode `none` computes all
in x's dtype; it is not declared here. `in_place` is about the gradient, the forward overwrites nothing. It is
left at the functions' own default, True, as callers have it: the backward writes dx over dy, where dy is
contiguous.
"""

from __future__ import annotations

from conformance.calling.packages import version_of
from conformance.errors import not_installed
from conformance.hookspecs import hookimpl
from conformance.model import Call, Implementation, Parameter

NAMES = ("liger", "liger_gemma")

DEVICES = ("cuda",)
"""Its kernels use libdevice, which Triton's interpreter has not: on a CPU there is nothing to ask."""

PACKAGE = "liger-kernel"
HOMEPAGE = "https://github.com/linkedin/Liger-Kernel"
ISSUES = "https://github.com/linkedin/Liger-Kernel/issues"


@hookimpl
def conformance_implementations() -> list[Implementation]:
    """Declare `liger` and `liger_gemma`; raises NotInstalled without the package."""
    try:
        from liger_kernel.transformers import functional
    except ModuleNotFoundError as error:
        raise not_installed(PACKAGE, error) from None

    def declared(name: str, mode: str, offset: float) -> Implementation:
        scaling = (
            Parameter("eps", "eps"),
            Parameter("offset", "weight_offset", required=False, value=0.0),
            Parameter("casting_mode", "fixed", value=mode, keyword=True),
        )
        x, residual = Parameter("X", "x"), Parameter("R", "residual")
        return Implementation(
            name=name,
            calls={
                "none": Call(
                    functional.liger_rms_norm,
                    (x, Parameter("W", "weight", nullable=True), *scaling),
                    weight_offset=offset,
                    differentiable=True,
                    consumes_dy=True,
                ),
                "residual": Call(
                    functional.liger_fused_add_rms_norm,
                    (x, residual, Parameter("W", "weight"), *scaling),
                    returns=("y", "residual_out"),
                    weight_offset=offset,
                    differentiable=True,
                    consumes_dy=True,
                ),
            },
            version=version_of(PACKAGE),
            package=PACKAGE,
            homepage=HOMEPAGE,
            issues=ISSUES,
            devices=DEVICES,
            recognised=(
                f'liger_rms_norm and liger_fused_add_rms_norm, casting_mode="{mode}", offset={offset:g}',
                "backward: in_place=True, the default, writes dx over dy",
            ),
        )

    return [declared("liger", "llama", 0.0), declared("liger_gemma", "gemma", 1.0)]
