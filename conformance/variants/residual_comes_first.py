"""Variant: model code's order: the residual first, the sum returned before the norm, names of their own."""

from conformance.model import Call, Implementation, Parameter
from conformance.mutants import _gradient

CONVENTION = {"residual": "one rounding, exact sum"}
REFUSES = ()

OP = _gradient.op()


def add_and_norm(skip, hidden_states, gamma=None, norm_eps=1e-6):
    y, residual_out = OP.fused_add_rms_norm(hidden_states, skip, gamma, norm_eps)
    return residual_out, y


IMPLEMENTATION = Implementation(
    name="residual_comes_first",
    calls={
        "residual": Call(
            add_and_norm,
            (
                Parameter("skip", "residual"),
                Parameter("hidden_states", "x"),
                Parameter("gamma", "weight", required=False, nullable=True),
                Parameter("norm_eps", "eps", required=False),
            ),
            returns=("residual_out", "y"),
        )
    },
)
