"""A tiny Llama-style decoder, trained 50 steps with the bundled kernels and again with norms of plain torch.

    python docs/examples/decoder_block.py

Both start from the same parameters and see the same tokens, so their losses must follow each other. The norms
are used as in a serving stack: the residual stream travels beside the activations, and the sum of the two is
written by the same kernel that normalises it. The last norm's residual_out is dropped, so its gradient never
arrives; those of the others do. On a GPU the kernels are compiled; where there is none they run through
Triton's interpreter.

`--break=dweight` clears the gradients of the norms' weights, as a backward that returns zeros would. The
losses then part, and the exit code says so: 0 where they follow each other, 1 where they do not.

Tolerance: the two trainings differ by rounding alone. An x_hat in fp32 is within
B = (4 * sqrt(HIDDEN) + 8) * 2**-24 = 2.1e-6 of the exact one (docs/accuracy.md). Where the input and output
of every norm, on the way forward and back, are wrong by exactly B, a plain training leaves the right one by
2e-6 if the signs are random, and by 3e-5 if every element errs to the same side
(tests/test_decoder_block.py makes such a one). 1e-4 is allowed. Without dweight the losses part by 0.18.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when triton is imported, just below

from reference_kernels import fused_add_rms_norm, rms_norm

VOCABULARY, HIDDEN, HEADS, MLP = 32, 48, 4, 96
BATCH, LENGTH, STEPS = 4, 16, 50
EPS = 1e-5
TOLERANCE = 1e-4


@dataclass(frozen=True)
class Norms:
    """The two ops of a pre-norm decoder.

    plain: (x, weight, eps) -> y. fused: (x, residual, weight, eps) -> (y, x + residual).
    """

    plain: Callable[[Tensor, Tensor, float], Tensor]
    fused: Callable[[Tensor, Tensor, Tensor, float], tuple[Tensor, Tensor]]


def torch_rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """RMSNorm as a model writes it, differentiated by autograd."""
    x32 = x.float()
    y = x32 * torch.rsqrt(x32.square().mean(-1, keepdim=True) + eps)
    return (y * weight.float()).to(x.dtype)


def torch_fused_add_rms_norm(
    x: Tensor, residual: Tensor, weight: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    """Add, then norm: two ops where the bundled kernel is one."""
    total = x + residual
    return torch_rms_norm(total, weight, eps), total


BUNDLED = Norms(rms_norm, fused_add_rms_norm)
PLAIN = Norms(torch_rms_norm, torch_fused_add_rms_norm)


class Attention(nn.Module):
    """Causal self-attention with rotary positions."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(HIDDEN, 3 * HIDDEN, bias=False)
        self.out = nn.Linear(HIDDEN, HIDDEN, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        scores = _rotate(q) @ _rotate(k).transpose(-1, -2) / math.sqrt(q.shape[-1])
        later = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        mixed = scores.masked_fill(later, -math.inf).softmax(-1) @ v
        return self.out(mixed.transpose(1, 2).reshape(batch, length, HIDDEN))


def _rotate(x: Tensor) -> Tensor:
    """Turn the pairs of each head by angles that grow with the position."""
    half = x.shape[-1] // 2
    frequencies = 100.0 ** -(torch.arange(half, device=x.device) / half)
    angles = torch.arange(x.shape[-2], device=x.device)[:, None] * frequencies
    left, right = x.chunk(2, dim=-1)
    return torch.cat(
        (left * angles.cos() - right * angles.sin(), left * angles.sin() + right * angles.cos()), dim=-1
    )


class SwiGLU(nn.Module):
    """The gated MLP of a Llama block."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(HIDDEN, MLP, bias=False)
        self.up = nn.Linear(HIDDEN, MLP, bias=False)
        self.down = nn.Linear(MLP, HIDDEN, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))


class Decoder(nn.Module):
    """Embedding, one pre-norm block, final norm, head."""

    def __init__(self, norms: Norms) -> None:
        super().__init__()
        self.norms = norms
        self.embedding = nn.Embedding(VOCABULARY, HIDDEN)
        self.attention = Attention()
        self.mlp = SwiGLU()
        self.head = nn.Linear(HIDDEN, VOCABULARY, bias=False)
        self.before_attention = nn.Parameter(torch.ones(HIDDEN))
        self.before_mlp = nn.Parameter(torch.ones(HIDDEN))
        self.before_head = nn.Parameter(torch.ones(HIDDEN))

    @property
    def norm_weights(self) -> list[nn.Parameter]:
        return [self.before_attention, self.before_mlp, self.before_head]

    def forward(self, tokens: Tensor) -> Tensor:
        residual = self.embedding(tokens)
        x = self.norms.plain(residual, self.before_attention, EPS)
        x, residual = self.norms.fused(self.attention(x), residual, self.before_mlp, EPS)
        x, _ = self.norms.fused(self.mlp(x), residual, self.before_head, EPS)
        return self.head(x)


def sequences(generator: torch.Generator) -> Tensor:
    """A batch in which each token is one more than the token two places before: (BATCH, LENGTH + 1)."""
    tokens = torch.randint(0, VOCABULARY, (BATCH, LENGTH + 1), generator=generator)
    for i in range(2, LENGTH + 1):
        tokens[:, i] = (tokens[:, i - 2] + 1) % VOCABULARY
    return tokens


def train(norms: Norms, device: str, break_dweight: bool = False) -> tuple[list[float], float]:
    """Train one decoder from the fixed start.

    Returns:
        The loss of each step, and how far the norms' weights moved from 1 at most.
    """
    torch.manual_seed(0)
    model = Decoder(norms).to(device)
    if break_dweight:
        for weight in model.norm_weights:
            weight.register_hook(torch.zeros_like)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    generator = torch.Generator().manual_seed(1)
    losses = []
    for _ in range(STEPS):
        tokens = sequences(generator).to(device)
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    moved = max(float((weight.detach() - 1).abs().max()) for weight in model.norm_weights)
    return losses, moved


def main(arguments: list[str] | None = None) -> int:
    """Train both, print their losses, and say whether they follow each other."""
    parser = argparse.ArgumentParser(
        description="Trains a tiny decoder with the bundled kernels and without."
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--break", dest="broken", choices=("dweight",), help="clear a gradient of the norms")
    options = parser.parse_args(arguments)
    plain, _ = train(PLAIN, options.device)
    losses, moved = train(BUNDLED, options.device, options.broken == "dweight")
    apart = max(abs(a - b) for a, b in zip(losses, plain, strict=True))
    print(f"{'step':>4}  {'bundled':>10}  {'plain':>10}")
    for step in (*range(0, STEPS, 10), STEPS - 1):
        print(f"{step:>4}  {losses[step]:>10.6f}  {plain[step]:>10.6f}")
    follows = apart <= TOLERANCE and losses[-1] < losses[0] and moved > 0
    print(f"norm weights moved by up to {moved:.2g}")
    print(f"largest difference {apart:.2g}, allowed {TOLERANCE:.2g}: {'follows' if follows else 'LEAVES'}")
    return 0 if follows else 1


if __name__ == "__main__":
    sys.exit(main())
