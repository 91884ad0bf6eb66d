"""Variant: the module that a Llama-style decoder uses: variance_epsilon, x_hat rounded before the weight."""

import torch

from conformance.mutants import _formula

CONVENTION = {"none": "two roundings"}
REFUSES = ()


class LlamaStyleRMSNorm(torch.nn.Module):
    """Root mean square norm whose normalised row is rounded to the input's dtype before the weight."""

    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(hidden_size))
        self.variance_epsilon = eps

    def forward(self, hidden_states):
        _formula.check(hidden_states, self.weight, self.variance_epsilon)
        h = hidden_states.float()
        rrms = _formula.rrms(h, self.variance_epsilon)
        x_hat = _formula.scale(h, rrms, None, hidden_states.dtype)
        return _formula.scale(x_hat, 1.0, self.weight, hidden_states.dtype)


rms_norm = LlamaStyleRMSNorm
