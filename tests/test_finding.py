"""From what is typed after --impl= to an implementation, and from there to JSON and back."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from signature_text import GIVEN, function_of

from conformance import hookspecs
from conformance.calling import targets
from conformance.calling.descriptions import describe, from_description
from conformance.calling.invoke import invoke, prepare_backward
from conformance.errors import ImportFailed, NoSuchImplementation, from_json, to_json
from conformance.model import Backward, Call, Implementation, Parameter


@pytest.fixture
def mypkg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Writes mypkg.py, importable and fresh."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(source: str) -> None:
        (tmp_path / "mypkg.py").write_text(source, encoding="utf-8")

    yield write
    sys.modules.pop("mypkg", None)


def test_hook_docstring_works(mypkg: Callable[[str], None]) -> None:
    """The module in the hook's documentation is found by name, and its declaration is used."""
    example = hookspecs.__doc__.split("declared call:\n\n")[1].split("\n\nA package that")[0]
    mypkg("\n".join(line[4:] for line in example.splitlines()))
    found = targets.load("mypkg:norm")
    assert [p.role for p in found.calls["none"].parameters] == ["x", "weight", "eps"]
    x = torch.tensor([[3.0, 4.0]])
    y = invoke(found.calls["none"], {"x": x, "weight": torch.ones(2), "eps": 0.0})
    assert (y - x / 12.5**0.5).abs().max() < 1e-6


def test_declaration_wins_over_recognition(mypkg: Callable[[str], None]) -> None:
    """A declaration is found by its own name and by the function that it calls."""
    mypkg(
        "from conformance.hookspecs import hookimpl\n"
        "from conformance.model import Call, Implementation, Parameter\n"
        "def rms_norm(x, weight, eps): return x\n"
        "@hookimpl\n"
        "def conformance_implementations():\n"
        "    call = Call(rms_norm, (Parameter('x', 'x'), Parameter('weight', 'weight'),\n"
        "                           Parameter('eps', 'eps')), rounds_x_hat=True)\n"
        "    return [Implementation('locked', {'none': call})]\n"
    )
    for spec in ("mypkg:locked", "mypkg:rms_norm"):
        found = targets.load(spec)
        assert found.name == "locked"
        assert found.calls["none"].rounds_x_hat is True
    assert targets.load("mypkg:locked", weight_offset=1.0).calls["none"].weight_offset == 1.0


def test_shadowed_module_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package may rebind a submodule's name to a function; the module is imported all the same."""
    package = tmp_path / "shadowing"
    package.mkdir()
    (package / "__init__.py").write_text("from .norm import norm\n")
    (package / "norm.py").write_text(
        "def norm(x, weight, eps): return x\ndef norm_forward(x, weight): return x\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    found = targets.load("shadowing.norm:norm_forward")
    assert [p.role for p in found.calls["none"].parameters] == ["x", "weight"]


def test_what_cannot_be_found(mypkg: Callable[[str], None]) -> None:
    """Each way not to be there has its own sentence, with what to type instead."""
    mypkg("def rms_norm(x, weight, eps): return x\n")
    with pytest.raises(NoSuchImplementation, match="no module 'nowhere_to_be_found'"):
        targets.load("nowhere_to_be_found:f")
    with pytest.raises(NoSuchImplementation, match=r"no attribute 'rmsnorm'[\s\S]*rms_norm"):
        targets.load("mypkg:rmsnorm")
    with pytest.raises(NoSuchImplementation, match="Did you mean --impl=torch"):
        targets.load("torhc")
    with pytest.raises(NoSuchImplementation, match="no adapter"):
        targets.load("mutant:no_such_mutant")


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("raise SystemExit(0)", "SystemExit"),
        ("import not_there_at_all", "needs the module"),
    ],
)
def test_import_that_fails(mypkg: Callable[[str], None], source: str, says: str) -> None:
    """A module that raises at import is told apart from one that is not there."""
    mypkg(source)
    with pytest.raises(ImportFailed, match=says):
        targets.load("mypkg:f")


@pytest.mark.parametrize(
    ("spec", "modes"),
    [
        ("variant:module", ["none", "residual"]),
        ("variant:in_place", ["residual_in_place"]),
        ("variant:two_roundings_rounded_sum", ["residual", "residual_in_place"]),
        ("variant:promotes_declared", ["none"]),
        ("mutant:residual_not_written_in_place", ["residual_in_place"]),
    ],
)
def test_bundled(spec: str, modes: list[str]) -> None:
    """Mutants and variants are found by name, recognised like a user's, and named by what was typed."""
    found = targets.load(spec)
    assert list(found.calls) == modes
    assert found.name == spec


def test_a_hook_that_raises(mypkg: Callable[[str], None]) -> None:
    """A declaration that raises, or gives something else, is refused in words."""
    head = "from conformance.hookspecs import hookimpl\n@hookimpl\ndef conformance_implementations():\n    "
    mypkg(head + "return 1 / 0")
    with pytest.raises(ImportFailed, match="ZeroDivisionError"):
        targets.load("mypkg:f")
    sys.modules.pop("mypkg")
    mypkg(head + "return ['f', 1, 2, 3]")
    with pytest.raises(ImportFailed, match="gave a str"):
        targets.load("mypkg:f")


def test_errors_cross_as_json() -> None:
    """Every error comes back as what it was."""
    with pytest.raises(NoSuchImplementation) as raised:
        targets.load("torhc")
    back = from_json(json.loads(json.dumps(to_json(raised.value))))
    assert type(back) is NoSuchImplementation
    assert str(back) == str(raised.value)
    assert "SomethingElse" in str(from_json({"error": "SomethingElse", "args": ["x"]}))


def test_description_crosses_as_json() -> None:
    """An implementation comes back equal but for its functions; strange defaults become text."""
    made = targets.recognise(function_of("x, residual=None, weight=object(), eps=float('inf')"), "pkg:f")
    text = json.dumps(describe(made), allow_nan=False)
    back = from_description(json.loads(text))
    assert back.name == made.name
    assert back.recognised == made.recognised
    assert set(back.calls) == {"none", "residual"}
    for mode, call in back.calls.items():
        assert call.function is None
        assert [(p.name, p.role, p.keyword) for p in call.parameters] == [
            (p.name, p.role, p.keyword) for p in made.calls[mode].parameters
        ]
        assert call.parameter("eps").value == "inf"
    with pytest.raises(ValueError, match="load it again"):
        invoke(back.calls["none"], GIVEN)


def test_what_a_call_says_of_its_gradients_crosses_as_json() -> None:
    """An explicit backward comes back with its parameters and slots; differentiable and consumes_dy too."""
    backward = Backward(invoke, (Parameter("dout", "dy"), Parameter("eps", "eps", value=1e-6)), ("", "dx"))
    made = Call(invoke, (Parameter("x", "x"),), backward=backward, differentiable=False, consumes_dy=True)
    text = json.dumps(describe(Implementation("mine", {"none": made})), allow_nan=False)
    (back,) = from_description(json.loads(text)).calls.values()
    assert back == replace(made, function=None, backward=replace(backward, function=None))
    with pytest.raises(ValueError, match="load it again"):
        prepare_backward(back, GIVEN)
    with pytest.raises(ValueError, match="no explicit backward"):
        prepare_backward(replace(back, backward=None), GIVEN)


def test_describing_imports_no_torch() -> None:
    """The suite's side reads descriptions and capabilities without torch."""
    modules = "conformance.calling.descriptions, conformance.calling.capability, conformance.errors"
    code = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
