"""Mutant: returns (n_rows, H) for an input with more leading dimensions.

Right for every 2-D test; a (batch, tokens, H) input loses its batch dimension.
"""

from conformance.mutants import _formula

BREAKS = "OUTPUT-SHAPE"
SOURCE = "specification: flattens leading dims; they must come back"
TRIGGER = "fp32, x of (2, 3, 8)"
NEEDS = "cpu"


def fused_add_rms_norm(x, residual, weight, eps=1e-6):
    y, residual_out = _formula.fused_add_rms_norm(x, residual, weight, eps)
    n_rows, hidden_size = x.numel() // x.shape[-1], x.shape[-1]
    return y.reshape(n_rows, hidden_size), residual_out.reshape(n_rows, hidden_size)
