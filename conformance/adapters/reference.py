"""The bundled reference kernels: all three fusion modes, each held to the convention that it teaches.

The two functional ones are differentiable through y and residual_out; the statistic that comes back beside y
is not. The one in place is for inference.
"""

from conformance import __version__
from conformance.hookspecs import hookimpl
from conformance.model import Call, Implementation, Parameter

NAMES = ("reference",)

X, RESIDUAL = Parameter("x", "x"), Parameter("residual", "residual")
EPS = Parameter("eps", "eps", required=False, value=1e-6)


@hookimpl
def conformance_implementations() -> list[Implementation]:
    """Declare the three wrappers; rrms is asked for, so that the saved statistic is judged as well."""
    import reference_kernels

    fused = (X, RESIDUAL, Parameter("weight", "weight", nullable=True), EPS)
    plain = (
        X,
        Parameter("weight", "weight", required=False, nullable=True),
        EPS,
        Parameter("return_rrms", "fixed", keyword=True, value=True),
    )
    return [
        Implementation(
            name="reference",
            calls={
                "none": Call(
                    reference_kernels.rms_norm,
                    plain,
                    returns=("y", "rrms"),
                    rounds_x_hat=False,
                    differentiable=True,
                ),
                "residual": Call(
                    reference_kernels.fused_add_rms_norm,
                    fused,
                    returns=("y", "residual_out"),
                    norm_input="exact_sum",
                    rounds_x_hat=False,
                    differentiable=True,
                ),
                "residual_in_place": Call(
                    reference_kernels.fused_add_rms_norm_,
                    fused,
                    returns=(),
                    mutates={"x": "y", "residual": "residual_out"},
                    norm_input="exact_sum",
                    rounds_x_hat=False,
                    differentiable=False,
                ),
            },
            version=__version__,
            package="rmsnorm-conformance",
            recognised=("declared by the suite's own adapter",),
        )
    ]
