"""The probe: it settles what a signature leaves open, and excuses nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from conformance.calling import targets
from conformance.calling.probe import SHAPES, gather_evidence
from conformance.calling.readings import Candidate, Evidence, choose, in_place, mode_of, readings
from conformance.calling.signatures import read
from conformance.model import Call

SWAPPED = {"x": "residual_out", "residual": "y"}
IN_PLACE = {"x": "y", "residual": "residual_out"}


def candidate(signature: str, fused: bool = True) -> Candidate:
    """The candidate of one mode for a function of this signature."""
    space: dict[str, Any] = {}
    exec(f"def f({signature}): pass", space)
    return next(c for c in readings(read(space["f"], "pkg:f")) if c.fused == fused)


# evidence -> (returns, mutates); the default reading is the first row
FUSED = [
    (Evidence(error="ValueError: no"), ("y", "residual_out"), {}),
    (Evidence(("y", "residual_out")), ("y", "residual_out"), {}),
    (Evidence(("residual_out", "y")), ("residual_out", "y"), {}),
    (Evidence(("", "")), ("y", "residual_out"), {}),
    (Evidence(("", "residual_out")), ("y", "residual_out"), {}),
    (Evidence(("residual_out", "")), ("residual_out", "y"), {}),
    (Evidence(("", "y")), ("residual_out", "y"), {}),
    (Evidence(("y", "y")), ("y", "residual_out"), {}),
    (Evidence(("y", "input")), ("y", "residual_out"), {}),
    (Evidence(("y", "plain")), ("y", "residual_out"), {}),
    (Evidence(("y", "residual_out", "rrms")), ("y", "residual_out", "rrms"), {}),
    (Evidence(("y", "rrms", "residual_out")), ("y", "rrms", "residual_out"), {}),
    (Evidence(("rrms", "", "")), ("rrms", "y", "residual_out"), {}),
    (Evidence(("y", "none", "residual_out")), ("y", "", "residual_out"), {}),
    (Evidence(("y", "residual_out", "")), ("y", "residual_out", ""), {}),
    # nothing comes back: overwritten, by value or by name
    (Evidence((), (), IN_PLACE), (), IN_PLACE),
    (Evidence((), (), SWAPPED), (), SWAPPED),
    (Evidence((), (), {"x": "y"}), (), IN_PLACE),
    (Evidence((), (), {"residual": "residual_out"}), (), IN_PLACE),
    (Evidence((), (), {"x": "residual_out"}), (), IN_PLACE),
    (Evidence((), (), {"x": "", "residual": ""}), (), IN_PLACE),
    (Evidence(("none",), ("",), IN_PLACE), ("",), IN_PLACE),
    (Evidence(), ("y", "residual_out"), {}),  # nothing at all: by name and order, and wrong
    (Evidence(("none",)), ("y", "residual_out"), {}),
    # one tensor comes back: the other output may be in an argument
    (Evidence(("y",), ("",), {"residual": "residual_out"}), ("y",), {"residual": "residual_out"}),
    (Evidence(("y",), ("",), {"x": "residual_out"}), ("y",), {"x": "residual_out"}),
    (Evidence(("y",), ("",), {"residual": "y"}), ("y",), {"residual": "residual_out"}),  # written, and wrong
    (Evidence(("y",), ("",), {"residual": ""}), ("y",), {"residual": "residual_out"}),
    (Evidence(("y",), ("",), {"x": ""}), ("y",), {}),
    (Evidence(("y",)), ("y",), {}),  # residual_out is nowhere: RESIDUAL fails
    (Evidence(("residual_out",)), ("y",), {}),
    (Evidence(("rrms",)), ("y",), {}),
    (Evidence(("residual_out",), ("",), {"x": "y"}), ("residual_out",), {"x": "y"}),
    (Evidence(("y",), ("x",), IN_PLACE), ("y",), IN_PLACE),  # x comes back
    (Evidence(("y",), ("",), IN_PLACE), ("y",), {"residual": "residual_out"}),  # x overwritten for nothing
    # both come back, and inputs changed although nothing says that they may
    (Evidence(("y", "residual_out"), ("x", "residual"), IN_PLACE), ("y", "residual_out"), {}),
    (Evidence(("y", "residual_out"), ("", ""), {"residual": "residual_out"}), ("y", "residual_out"), {}),
]  # fmt: skip


@pytest.mark.parametrize("row", range(len(FUSED)))
def test_fused(row: int) -> None:
    """Each kind of evidence leads to one reading of (x, residual, weight, eps)."""
    evidence, returns, mutates = FUSED[row]
    call = choose(candidate("x, residual, weight, eps"), evidence)
    assert (call.returns, dict(call.mutates)) == (returns, mutates), evidence


PLAIN = [
    ("x, weight, eps", Evidence(("y",)), ("y",), {}),
    ("x, weight, eps", Evidence(("",)), ("y",), {}),
    ("x, weight, eps", Evidence(("y", "rrms")), ("y", "rrms"), {}),
    ("x, weight, eps", Evidence(("rrms", "y")), ("rrms", "y"), {}),
    ("x, weight, eps", Evidence(("y", "input", "rrms")), ("y", "", "rrms"), {}),
    ("x, weight, eps", Evidence((), (), {"x": "y"}), (), {"x": "y"}),
    ("x, weight, eps", Evidence(), ("y",), {}),
    ("x, weight, eps", Evidence(("rrms",)), ("y",), {}),
    ("x, weight, eps", Evidence(("y",), ("x",), {"x": "y"}), ("y",), {}),  # undeclared: INPUTS-UNCHANGED
    ("x, weight, eps, in_place=True", Evidence(("y",), ("x",), {"x": "y"}), ("y",), {"x": "y"}),
    ("x, weight, eps, inplace=True", Evidence(("y",)), ("y",), {}),
    ("x, weight, eps, in_place=False", Evidence(("y",), ("x",), {"x": "y"}), ("y",), {}),
    ("out, x, weight, eps", Evidence((), (), {"out": "y"}), (), {"out": "y"}),
    ("out, x, weight, eps", Evidence(), (), {"out": "y"}),
    ("out, x, weight, eps", Evidence(("y",), ("out",), {"out": "y"}), ("y",), {"out": "y"}),
    ("out, x, weight, eps", Evidence((), (), {"x": "y"}), (), {"out": "y"}),
    ("x, weight, eps, out=None", Evidence(("y",)), ("y",), {}),
]


@pytest.mark.parametrize("row", range(len(PLAIN)))
def test_plain(row: int) -> None:
    """Each kind of evidence leads to one reading of a plain norm."""
    signature, evidence, returns, mutates = PLAIN[row]
    call = choose(candidate(signature, fused=False), evidence)
    assert (call.returns, dict(call.mutates)) == (returns, mutates), evidence


BUFFERED = [
    ("out, x, residual, residual_out, weight, eps", Evidence(), (),
     {"out": "y", "residual_out": "residual_out"}),
    ("out, x, residual, residual_out, weight, eps", Evidence(("y",), ("out",), {"out": "y"}), ("y",),
     {"out": "y", "residual_out": "residual_out"}),
    ("out, x, residual, weight, eps", Evidence((), (), {"out": "y", "residual": "residual_out"}), (),
     {"out": "y", "residual": "residual_out"}),
    ("out, x, residual, weight, eps", Evidence((), (), {"out": "y", "x": "residual_out"}), (),
     {"out": "y", "x": "residual_out"}),
    ("x, residual, residual_out, weight, eps",
     Evidence(("y",), ("",), {"residual_out": "residual_out"}), ("y",),
     {"residual_out": "residual_out"}),
    ("residual, x, weight, bias, eps, add_back=False",
     Evidence(("y",), ("",), {"residual": "residual_out"}), ("y",),
     {"residual": "residual_out"}),
    ("x, residual, weight, eps, in_place=True", Evidence(("y", "residual_out"), ("x", "residual"), IN_PLACE),
     ("y", "residual_out"), IN_PLACE),
]  # fmt: skip


@pytest.mark.parametrize("row", range(len(BUFFERED)))
def test_buffers_and_switches(row: int) -> None:
    """Parameters that announce overwriting are taken at their word."""
    signature, evidence, returns, mutates = BUFFERED[row]
    call = choose(candidate(signature), evidence)
    assert (call.returns, dict(call.mutates)) == (returns, mutates), evidence


def test_in_place_by_declaration() -> None:
    """A candidate that is in place by declaration stays so, whatever a faulty trial shows."""
    declared = in_place(candidate("x, residual, weight, eps"))
    for evidence in (Evidence(), Evidence(error="E"), Evidence((), (), {"x": "y"})):
        call = choose(declared, evidence)
        assert (call.returns, dict(call.mutates)) == ((), IN_PLACE)
        assert mode_of(call) == "residual_in_place"


def y_of(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps) * weight.float()).to(x.dtype)


def functional(x, residual, weight, eps):
    s = x + residual
    return y_of(s, weight, eps), s


def swapped(residual, x, weight, eps):
    y, s = functional(x, residual, weight, eps)
    return s, y


def in_place_void(x, residual, weight, eps):
    residual.add_(x)
    x.copy_(y_of(residual, weight, eps))


def half_in_place(x, y, weight, eps):
    x.add_(y)
    return y_of(x, weight, eps)


def add_back(residual, x, weight, bias, eps, add_back=False):
    s = x + residual
    if add_back:
        residual.copy_(s)
    return y_of(s, weight, eps)


def returns_its_arguments(x, residual, weight, eps):
    in_place_void(x, residual, weight, eps)
    return x, residual


def returns_x(x, residual, weight, eps):
    in_place_void(x, residual, weight, eps)
    return x


def triple(x1, x2, gamma, epsilon=1e-6):
    y, s = functional(x1, x2, gamma, epsilon)
    return y, torch.rsqrt(s.square().mean(-1, keepdim=True) + epsilon), s


def buffers(out, input, residual_in, residual_out, weight, epsilon):
    residual_out.copy_(input + residual_in)
    out.copy_(y_of(residual_out, weight, epsilon))


def output_called_y(x, y, weight, eps):
    y.copy_(y_of(x, weight, eps))


def residual_forgotten(x, residual, weight, eps):
    return y_of(x + residual, weight, eps)


def residual_kept(x, residual, weight, eps):
    return y_of(x + residual, weight, eps), residual


def fp16_only(x, residual, weight, eps):
    if x.dtype != torch.float16 or x.shape[-1] < 1024:
        raise NotImplementedError("fp16 and wide only")
    return functional(x, residual, weight, eps)


def leaves(x, residual, weight, eps):
    raise SystemExit(0)


def gemma(x, residual, weight, eps):
    s = x + residual
    return y_of(s, weight + 1, eps), s


CALLED = [
    (functional, "residual", ("y", "residual_out"), {}, ""),
    (swapped, "residual", ("residual_out", "y"), {}, ""),
    (in_place_void, "residual_in_place", (), IN_PLACE, ""),
    (half_in_place, "residual_in_place", ("y",), {"x": "residual_out"}, ""),
    (add_back, "residual_in_place", ("y",), {"residual": "residual_out"}, ""),
    (returns_its_arguments, "residual", ("y", "residual_out"), {}, "overwrote residual"),
    (returns_x, "residual_in_place", ("y",), IN_PLACE, ""),
    (triple, "residual", ("y", "rrms", "residual_out"), {}, ""),
    (buffers, "residual", (), {"out": "y", "residual_out": "residual_out"}, ""),
    (output_called_y, "none", (), {"out": "y"}, ""),
    (residual_forgotten, "residual", ("y",), {}, ""),
    (residual_kept, "residual", ("y", "residual_out"), {}, ""),
    (fp16_only, "residual", ("y", "residual_out"), {}, ""),
    (leaves, "residual", ("y", "residual_out"), {}, "raised SystemExit"),
    (gemma, "residual", ("y", "residual_out"), {}, "--rn-weight-offset=1"),
]


@pytest.mark.parametrize("row", CALLED, ids=lambda row: row[0].__name__)
def test_called(row: tuple[Callable[..., Any], str, tuple[str, ...], dict[str, str], str]) -> None:
    """Real functions of every family are called once and read as they behave."""
    function, mode, returns, mutates, said = row
    found = targets.recognise(function, "pkg:f", "cpu")
    assert list(found.calls) == [mode]
    call = found.calls[mode]
    assert (call.returns, dict(call.mutates)) == (returns, mutates)
    assert said in " ".join(found.recognised)
    assert call.weight_offset == 0.0


def test_an_output_called_y_can_then_be_called() -> None:
    """The chosen reading is one that can be called: y is given as out."""
    call = targets.recognise(output_called_y, "pkg:f", "cpu").calls["none"]
    x, out = torch.ones(2, 4), torch.zeros(2, 4)
    targets.invoke(call, {"x": x, "out": out, "weight": torch.ones(4), "eps": 3.0})
    assert torch.equal(out, torch.full((2, 4), 0.5))


def test_the_sentence_says_how_it_was_read() -> None:
    """What a user reads before any verdict."""
    found = targets.recognise(in_place_void, "pkg:f", "cpu")
    assert found.recognised == (
        "residual_in_place: x, residual, weight, eps; returns nothing; "
        "overwrites x with y and residual with residual_out",
    )
    (said,) = targets.recognise(triple, "pkg:f", "cpu").recognised
    assert said == (
        "residual: x1 is x, x2 is residual, gamma is weight, epsilon is eps; "
        "returns (y, rrms, residual_out); overwrites nothing"
    )


def test_probe_draws_no_random_numbers() -> None:
    """The generators are left as they were, and the tensors of a trial are the same each time."""
    before = torch.get_rng_state()
    first = candidate("x, residual, weight, eps")
    seen: list[torch.Tensor] = []

    def watch(call: Call, arguments: dict[str, Any]) -> Any:
        seen.append(arguments["x"])
        return arguments["x"], arguments["residual"]

    for _ in range(2):
        evidence = gather_evidence(first, run_call=watch)
        assert evidence.returned == ("input", "input")
    assert torch.equal(seen[0], seen[1])
    assert seen[0].shape == SHAPES[0]
    assert torch.equal(before, torch.get_rng_state())


def test_without_a_probe_the_reading_is_by_name_and_order() -> None:
    """No trial call is made where none is wanted."""
    calls = []

    def f(x, residual, weight, eps):
        calls.append(1)

    found = targets.recognise(f, "pkg:f", None)
    assert calls == []
    assert found.calls["residual"].returns == ("y", "residual_out")


def test_optional_residual_claims_both_modes() -> None:
    """prenorm makes the sum come back, in the fused mode only."""

    def f(x, weight, bias, residual=None, eps=1e-5, prenorm=False):
        s = x if residual is None else x + residual
        y = y_of(s, weight, eps)
        return (y, s) if prenorm else y

    found = targets.recognise(f, "pkg:f", "cpu")
    assert found.calls["none"].returns == ("y",)
    assert found.calls["residual"].returns == ("y", "residual_out")
