"""The two modules of Hugging Face's model code, written anew here from their published behaviour.

`huggingface_llama` (Llama, Qwen, Mistral): the normalised row is rounded to x's dtype, then multiplied by
the weight, so with an fp32 weight a 16-bit x gives an fp32 y. `huggingface_gemma`: all in fp32, the weight
counts from one, y has x's dtype. Neither has a fused add: the decoder block adds by itself. Gradients are
autograd's, through each of these operations, with a rounding where the forward rounds.
"""

from __future__ import annotations

import torch

from conformance import __version__
from conformance.hookspecs import hookimpl
from conformance.model import Implementation

NAMES = ("huggingface_llama", "huggingface_gemma")

HOMEPAGE = "https://github.com/huggingface/transformers"
ISSUES = "https://github.com/huggingface/transformers/issues"


def normalised(x: torch.Tensor, eps: float) -> torch.Tensor:
    """Return x_hat in fp32, over the last dimension."""
    wide = x.to(torch.float32)
    return wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)


class LlamaStyleRMSNorm(torch.nn.Module):
    """weight · round(x_hat): two roundings, and the dtype that the product promotes to."""

    def __init__(self, hidden_size: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(hidden_size))
        self.variance_epsilon = eps

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """Return y for hidden_states of any rank, the last dimension being hidden_size."""
        x_hat = normalised(hidden_states, self.variance_epsilon)
        return self.weight * x_hat.to(hidden_states.dtype)


class GemmaStyleRMSNorm(torch.nn.Module):
    """round(x_hat · (1 + weight)), the weight starting at zero."""

    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(dim))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return y for x of any rank, the last dimension being dim."""
        return (normalised(x, self.eps) * (1.0 + self.weight.to(torch.float32))).type_as(x)


@hookimpl
def conformance_implementations() -> list[Implementation]:
    """Declare both, each with its rounding convention."""
    from dataclasses import replace

    from conformance.calling.readings import readings
    from conformance.calling.targets import signature_of

    def declared(name: str, module: type[torch.nn.Module], said: str) -> Implementation:
        plain = readings(signature_of(module, name))[0].call
        llama = module is LlamaStyleRMSNorm
        return Implementation(
            name=name,
            calls={"none": replace(plain, rounds_x_hat=llama, promotes=llama, differentiable=True)},
            version=__version__,
            package="rmsnorm-conformance",
            homepage=HOMEPAGE,
            issues=ISSUES,
            recognised=(f"none: a module of this suite that behaves as published; {said}",),
        )

    return [
        declared("huggingface_llama", LlamaStyleRMSNorm, "x_hat is rounded before the weight"),
        declared("huggingface_gemma", GemmaStyleRMSNorm, "multiplies by weight + 1 in fp32"),
    ]
