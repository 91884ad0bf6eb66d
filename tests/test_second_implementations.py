"""Second implementations of the mutants' faults: in other forms, each wrong as labelled, and how they are
measured."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from interpreted_second_implementations import inputs

from conformance import mutants, mutants_again
from conformance.calling import targets
from conformance.errors import ConformanceError
from conformance.model import Finding, Verdict
from conformance.mutants_again import _backward, _norm
from conformance.mutants_again._measure import Named, _alone, good, table

ENTRIES = mutants_again.entries()
EPS = 1e-3


def exact(h: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    h = h.double()
    return h / (h.square().mean(-1, keepdim=True) + EPS).sqrt() * weight.double()


def test_there_are_enough_and_every_arithmetic_family_has_some() -> None:
    """Of every fault whose requirement is one of arithmetic and shows in numbers; their labels exist."""
    families = {mutants.label(a.mutant).breaks.split("-")[0] for a in ENTRIES}
    assert families >= set(mutants_again.FAMILIES)
    assert len({a.mutant for a in ENTRIES}) >= 110
    assert all(mutants_again.implementation(i, "c").calls for i in range(len(ENTRIES)))


@pytest.mark.parametrize("order", _norm.ORDERS)
@pytest.mark.parametrize("roundings", [1, 2])
def test_the_forms_of_the_forward_are_right(order: str, roundings: int) -> None:
    """So that an implementation is wrong by its fault alone."""
    x, residual, weight = inputs()
    functions = _norm.op(order, roundings, stored=roundings == 2)
    y = functions["rms_norm"](x, weight, EPS)
    assert torch.allclose(y.double(), exact(x, weight), rtol=1e-5, atol=1e-7)
    y, residual_out = functions["fused_add_rms_norm"](x, residual, weight, EPS)
    assert torch.allclose(y.double(), exact(x + residual, weight), rtol=1e-5, atol=1e-7)
    assert torch.equal(residual_out, x + residual)


@pytest.mark.parametrize("form", ["blocks", "rounded", "float64"])
def test_the_forms_of_the_backward_are_right(form: str) -> None:
    """Against autograd in float64, with gradients on both outputs."""
    x, residual, weight = (t.requires_grad_() for t in inputs())
    dy, d = torch.ones_like(x) + x.detach().sign(), torch.ones_like(x) * 0.5
    outputs = _backward.op(form)["fused_add_rms_norm"](x, residual, weight, EPS)
    found = torch.autograd.grad(outputs, (x, residual, weight), (dy, d))
    h = (x.detach().double() + residual.detach().double()).requires_grad_()
    w = weight.detach().double().requires_grad_()
    right = torch.autograd.grad((exact_graph(h, w), h), (h, w), (dy.double(), d.double()))
    for one, other in zip(found, (right[0], right[0], right[1]), strict=True):
        assert torch.allclose(one.double(), other, rtol=1e-4, atol=1e-4)


def exact_graph(h: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return h / (h.square().mean(-1, keepdim=True) + EPS).sqrt() * weight


def test_modules_have_neutral_names_and_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the report shows of an implementation does not say what is wrong with it."""
    number = next(i for i, a in enumerate(ENTRIES) if a.mutant == "residual_added_twice")
    spec = mutants_again.write(number, tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert spec == f"candidate_{number:03d}:norm"
    found = targets.load(spec)
    assert found.name == spec
    assert set(found.calls) == {"residual"}
    assert "residual_added_twice" not in (tmp_path / f"candidate_{number:03d}.py").read_text()


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ConformanceError, match="no_such_fault"):
        mutants_again.numbers(["no_such_fault"])
    assert len(mutants_again.numbers([])) == len(ENTRIES)


def verdict(*candidates: tuple[str, str, str]) -> Verdict:
    finding = Finding("values", candidates[0][1], "fail", "y is wrong", {}, candidates)
    return Verdict(
        run="r", case="c", implementation="c", mode="none", dtypes={}, verdict="fail", findings=(finding,)
    )


OMITTED = ("eps_omitted", "FORMULA-EPS-HONOURED", "eps is left out")
OUTSIDE = ("eps_outside", "FORMULA-EPS-INSIDE", "eps is added to the root")


def test_a_wrong_formula_alone_is_seen() -> None:
    """One that stands beside the true one is none; nor is a report that states no formula."""
    told = ("eps is left out, in 2 of 2 failing runs",)
    runs = [verdict(OMITTED, OUTSIDE)]
    assert _alone(r"added to the root", told, runs, "FORMULA-EPS-INSIDE")
    assert _alone("", told, runs, "FORMULA-EPS-INSIDE")
    assert not _alone(r"left out", told, runs, "FORMULA-EPS-HONOURED")
    assert not _alone(r"added to the root", (*told, "eps is added to the root"), runs, "FORMULA-EPS-INSIDE")
    assert not _alone(r"added to the root", ("the values are wrong",), runs, "FORMULA-EPS-INSIDE")


def named(number: int, *requirements: str, alone: tuple[str, ...] = (), error: str = "") -> Named:
    return Named(number, "eps_outside", "FORMULA-EPS-INSIDE", requirements, ("why",), True, alone, (), 5, 3,
                 1.0, error)  # fmt: skip


def test_what_counts_as_good() -> None:
    """85 % among the first three, no wrong formula alone, nothing unmeasured."""
    right = [named(i, "A", "B", "FORMULA-EPS-INSIDE") for i in range(17)]
    wrong = [named(20 + i, "A", "B", "C", "FORMULA-EPS-INSIDE") for i in range(4)]
    assert good([*right, *wrong[:3]])
    assert not good([*right, *wrong])
    assert not good([*right, named(30, "FORMULA-EPS-INSIDE", alone=("X: y",))])
    assert not good([*right, named(30, "FORMULA-EPS-INSIDE", error="died")])
    assert not good([])
    assert "NOT AMONG THE FIRST THREE" in table(wrong)
    assert "21 second implementations of 1 faults" in table([*right, *wrong])
