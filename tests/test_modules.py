"""Modules under test: built for each width, given the very weight, read by constructor and forward."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from conformance.calling import targets
from conformance.calling.capability import can_ask
from conformance.errors import NotRecognised
from conformance.model import Run


def norm(x: torch.Tensor, weight: torch.Tensor | None, eps: float) -> torch.Tensor:
    y = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    return y if weight is None else y * weight


class LlamaStyle(torch.nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(hidden_size))
        self.variance_epsilon = eps

    def forward(self, hidden_states):
        return norm(hidden_states, self.weight, self.variance_epsilon)


class WithResidual(torch.nn.Module):
    def __init__(self, dim, epsilon):
        super().__init__()
        self.gamma = torch.nn.Parameter(torch.randn(dim))
        self.epsilon = epsilon

    def forward(self, x, residual=None, prenorm=False):
        s = x if residual is None else x + residual
        y = norm(s, self.gamma, self.epsilon)
        return (y, s) if prenorm else y


class TransformerEngineStyle(torch.nn.Module):
    def __init__(
        self, normalized_shape=None, eps=1e-5, *, zero_centered_gamma=False, hidden_size=None, **extra
    ):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(normalized_shape))
        self.eps, self.offset = eps, float(zero_centered_gamma)

    def forward(self, x):
        return norm(x, self.weight + self.offset, self.eps)


class KeywordWidth(torch.nn.Module):
    def __init__(self, *, hidden_size, eps, has_weights=True):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(hidden_size)) if has_weights else None
        self.eps = eps

    def forward(self, hidden_states):
        return norm(hidden_states, self.weight, self.eps)


class GemmaNorm(torch.nn.Module):
    def __init__(self, dim: int, eps: float = 1e-6):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(dim))
        self.eps = eps

    def forward(self, x):
        return norm(x, 1 + self.weight, self.eps)


X = torch.tensor([[3.0, 4.0], [1.0, -1.0]])
RESIDUAL = torch.tensor([[1.0, 0.0], [2.0, 5.0]])
WEIGHT = torch.tensor([0.5, -2.0])
ARGUMENTS = {"x": X, "weight": WEIGHT, "eps": 0.25}


@pytest.mark.parametrize(
    ("module", "offset"),
    [(LlamaStyle, 0), (WithResidual, 0), (TransformerEngineStyle, 0), (KeywordWidth, 0), (GemmaNorm, 1),
     (torch.nn.RMSNorm, 0)],
)  # fmt: skip
def test_plain(module: type[torch.nn.Module], offset: int) -> None:
    """Width, weight and eps reach the module, wherever its constructor wants them."""
    call = targets.recognise(module, f"pkg:{module.__name__}", "cpu").calls["none"]
    assert call.weight_offset == offset
    y = targets.invoke(call, ARGUMENTS)
    assert (y - norm(X, WEIGHT + offset, 0.25)).abs().max() < 1e-6
    assert not y.requires_grad


def test_fused() -> None:
    """A residual in forward claims a fused mode as well."""
    calls = targets.recognise(WithResidual, "pkg:WithResidual", "cpu").calls
    assert set(calls) == {"none", "residual"}
    y, s = targets.invoke(calls["residual"], {**ARGUMENTS, "residual": RESIDUAL})
    assert torch.equal(s, X + RESIDUAL)
    assert (y - norm(X + RESIDUAL, WEIGHT, 0.25)).abs().max() < 1e-6


def test_the_very_weight_is_used() -> None:
    """The module's parameter is the suite's tensor, strides and memory included, not a copy."""
    seen: list[torch.Tensor] = []

    class Spy(LlamaStyle):
        def forward(self, hidden_states):
            seen.append(self.weight)
            return super().forward(hidden_states)

    call = targets.recognise(Spy, "pkg:Spy").calls["none"]
    weight = torch.arange(8.0)[::4]
    targets.invoke(call, {**ARGUMENTS, "weight": weight})
    assert seen[-1].data_ptr() == weight.data_ptr()
    assert seen[-1].stride() == (4,)
    assert not seen[-1].requires_grad


def test_building_keeps_the_generators() -> None:
    """A constructor that draws random weights does not move the generator."""
    call = targets.recognise(WithResidual, "pkg:WithResidual").calls["none"]
    before = torch.get_rng_state()
    targets.invoke(call, ARGUMENTS)
    assert torch.equal(before, torch.get_rng_state())


def test_switches_of_the_constructor() -> None:
    """Without a weight, has_weights is turned off; a zero-centred weight is turned on where asked."""
    call = targets.recognise(KeywordWidth, "pkg:KeywordWidth").calls["none"]
    assert call.parameter("weight").nullable
    y = targets.invoke(call, {"x": X, "eps": 0.25})
    assert torch.equal(y, norm(X, None, 0.25))
    call = targets.recognise(TransformerEngineStyle, "pkg:T").calls["none"]
    y = targets.invoke(call, {**ARGUMENTS, "weight_offset": 1.0})
    assert torch.equal(y, norm(X, WEIGHT + 1, 0.25))


def test_eps_left_out() -> None:
    """The constructor's default is used, and a constructor without one cannot be asked."""

    def run(eps: float | None) -> Run:
        dtypes = {"x": "float32", "weight": "float32"}
        return Run("a", "a", "a.yaml", "", "none", (2, 2), dtypes, eps, {}, {}, ("FORMULA-EPS-DEFAULT",))

    call = targets.recognise(TransformerEngineStyle, "pkg:T").calls["none"]
    assert call.parameter("eps").value == 1e-5
    assert can_ask(call, run(None)) is None
    y = targets.invoke(call, {"x": X, "weight": WEIGHT})
    assert torch.equal(y, norm(X, WEIGHT, 1e-5))
    call = targets.recognise(WithResidual, "pkg:W").calls["none"]
    assert "cannot be left out" in (can_ask(call, run(None)) or "")


class TwoVectors(torch.nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.a, self.b = torch.nn.Parameter(torch.ones(dim)), torch.nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x


class NeedsMore(torch.nn.Module):
    def __init__(self, dim, table):
        super().__init__()

    def forward(self, x):
        return x


class NoWidth(torch.nn.Module):
    def forward(self, x):
        return x


class Fails(torch.nn.Module):
    def __init__(self, dim, eps=1e-6):
        raise RuntimeError("needs a GPU")

    def forward(self, x):
        return x


class Inside(torch.nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.inner = LlamaStyle(dim, eps)

    def forward(self, x):
        return self.inner(x)


@pytest.mark.parametrize(
    ("module", "says"),
    [
        (TwoVectors, "none is called weight"), (NeedsMore, "requires table"),
        (NoWidth, "no parameter for the width"),
        (Fails, "raised RuntimeError: needs a GPU"), (Inside, r"in a submodule \(inner.weight\)"),
    ],
)  # fmt: skip
def test_refused(module: Any, says: str) -> None:
    """What the constructor does not tell is refused, with a way round."""
    with pytest.raises(NotRecognised, match=says) as refused:
        targets.recognise(module, "pkg:M")
    assert refused.value.hint


def test_instance_is_refused_with_its_class() -> None:
    """An instance was built for one width; the message names the class, behind torch.compile too."""
    for instance in (LlamaStyle(4), torch.compile(LlamaStyle(4), backend="eager")):
        with pytest.raises(NotRecognised, match="instance of LlamaStyle") as refused:
            targets.recognise(instance, "pkg:m")
        assert "test_modules:LlamaStyle" in refused.value.hint
