"""Variant: the parameter names of model code, in an order of their own: gamma first, the residual last."""

from conformance.mutants import _formula

CONVENTION = {"none": "two roundings", "residual": "two roundings, rounded sum"}
REFUSES = ()


def rms_norm(hidden_states, gamma, variance_epsilon=1e-6):
    _formula.check(hidden_states, gamma, variance_epsilon)
    h = hidden_states.float()
    x_hat = _formula.scale(h, _formula.rrms(h, variance_epsilon), None, hidden_states.dtype)
    return _formula.scale(x_hat, 1.0, gamma, hidden_states.dtype)


def fused_add_rms_norm(gamma, epsilon, inp, res):
    _formula.check(inp, gamma, epsilon, res)
    summed = (inp.float() + res.float()).to(res.dtype)
    h = summed.float()
    x_hat = _formula.scale(h, _formula.rrms(h, epsilon), None, inp.dtype)
    return _formula.scale(x_hat, 1.0, gamma, inp.dtype), summed
