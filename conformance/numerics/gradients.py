"""Which rounding convention explains a gradient: the public names of the backward's numerics.

    gradient_conventions    the problem, and the conventions that correct backwards follow
    gradient_oracle         the formula in float64
    gradient_intervals      what each element may be, for right formulas and wrong ones
    gradient_parts          the right formula taken apart, for every convention
    gradient_dx, gradient_dweight    a gradient against the conventions

The whole tensor must be explained by one convention. docs/accuracy.md has the derivation.
"""

from conformance.numerics.gradient_conventions import (
    DweightConvention,
    DxConvention,
    GradientProblem,
    dweight_conventions,
    dx_conventions,
)
from conformance.numerics.gradient_dweight import dweight_interval, explain_dweight, wrong_dweight
from conformance.numerics.gradient_dx import dx_interval, explain_dx, wrong_dx
from conformance.numerics.gradient_explanation import GradientExplanation
from conformance.numerics.gradient_intervals import (
    DweightParts,
    DweightSums,
    DxParts,
    dweight_interval_of,
    dx_error,
    dx_interval_of,
)
from conformance.numerics.gradient_oracle import gradients
from conformance.numerics.gradient_parts import GradientRows

__all__ = [
    "DweightConvention", "DweightParts", "DweightSums", "DxConvention", "DxParts", "GradientExplanation",
    "GradientProblem", "GradientRows", "dweight_conventions", "dweight_interval", "dweight_interval_of",
    "dx_conventions", "dx_error", "dx_interval", "dx_interval_of", "explain_dweight", "explain_dx",
    "gradients", "wrong_dweight", "wrong_dx",
]  # fmt: skip
