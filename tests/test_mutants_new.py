"""The mutants as a collection: enough of each kind, and one for each sentence that can be broken.

The kinds are read off labels and sources: which requirement is broken, whether there is a kernel, and
whether the fault waits for a size, a dtype or a later call.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from conformance import mutants

ROOT = Path(__file__).resolve().parents[1]

MEMORY_OR_LAYOUT = (
    "MEM-", "STRIDE-", "ALIGN-", "INPUTS-UNCHANGED", "INPLACE-STORAGE", "OUTPUT-STRIDE", "OUTPUT-ALIAS",
    "GRADMODE-DY-LAYOUT", "GRADMODE-DY-UNTOUCHED", "GRADMODE-OUTPUTS-UNTOUCHED",
)  # fmt: skip
"""How the requirements begin that speak of where tensors lie and who may write there."""

SIZES = {"shape", "numel", "hidden_size", "n_rows", "len"}
"""Names by which a source speaks of a size."""

DTYPES = {"float16", "bfloat16", "float32"}


@pytest.fixture(scope="module")
def labels() -> list[mutants.Label]:
    """All labels, read once."""
    return [mutants.label(n) for n in mutants.names()]


def _source(name: str) -> str:
    return (mutants.FOLDER / f"{name}.py").read_text(encoding="utf-8")


def _words(node: ast.AST) -> set[str]:
    """The names and attributes in an expression."""
    found = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return found | {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}


def _fixed(node: ast.AST) -> bool:
    """Whether an operand is a size that the source chose: a number above 2, or a constant of the module."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int) and node.value > 2
    return isinstance(node, ast.Name) and node.id.isupper() and len(node.id) > 1


def _keeps(value: ast.expr | None) -> bool:
    """Whether a value of the module can hold what one call leaves for the next."""
    made = isinstance(value, ast.Call) and ast.unparse(value.func) in ("set", "dict", "list")
    return made or isinstance(value, (ast.List, ast.Dict, ast.Set))


def _waits_for(text: str) -> Iterator[str]:
    """What the behaviour of a source changes with: "size", "dtype", "call", each as often as it is found.

    A size or dtype that is compared with a fixed one, or module state that a call leaves for the next. The
    checks of arguments compare tensors with each other, so they do not count.
    """
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Compare):
            continue
        sides = [node.left, *node.comparators]
        for left, right in pairwise(sides):
            if (_fixed(left) or _fixed(right)) and SIZES & (_words(left) | _words(right)):
                yield "size"
            if "dtype" in _words(left) | _words(right) and DTYPES & (_words(left) | _words(right)):
                yield "dtype"
    for node in tree.body:
        if not isinstance(node, ast.AnnAssign):
            continue
        if _keeps(node.value) and ast.unparse(node.target).startswith("_"):
            yield "call"


def test_enough_have_a_kernel(labels: list[mutants.Label]) -> None:
    """At least 40 in Triton, kernels with a fault of memory among them."""
    in_triton = [label for label in labels if "@triton.jit" in _source(label.name)]
    assert len(in_triton) >= 40
    assert sum(label.breaks.startswith(MEMORY_OR_LAYOUT) for label in in_triton) >= 15


def test_enough_are_of_memory_or_layout(labels: list[mutants.Label]) -> None:
    """At least 25, in the forward and in the backward."""
    found = [label for label in labels if label.breaks.startswith(MEMORY_OR_LAYOUT)]
    assert len(found) >= 25
    assert {label.backward for label in found} == {True, False}


def test_enough_wait_for_a_size_a_dtype_or_a_call() -> None:
    """At least 15, and some of each kind: these are right on most inputs."""
    found = {n: set(_waits_for(_source(n))) for n in mutants.names()}
    waiting = [n for n, kinds in found.items() if kinds]
    assert len(waiting) >= 15
    for kind in ("size", "dtype", "call"):
        assert sum(kind in kinds for kinds in found.values()) >= 5, kind


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("def f(x):\n    return 0 if x.shape[-1] > 4096 else 1", ["size"]),
        ("MANY = 9\ndef f(s):\n    return len(s.dy) > MANY", ["size"]),
        ("def f(x):\n    if x.dtype == torch.float16:\n        pass", ["dtype"]),
        ("_last: list = []\ndef f(x):\n    pass", ["call"]),
        ("_tuned: set = set()", ["call"]),
        ("def f(x, out):\n    if out.shape != x.shape or out.dtype != x.dtype:\n        raise", []),
        ("ROWS = 4\ndef f(x):\n    return rows < n_rows", []),
    ],
)  # fmt: skip
def test_what_a_source_waits_for(text: str, kinds: list[str]) -> None:
    """The rule that counts, on sources that do and do not depend on a size, dtype or call."""
    assert list(_waits_for(text)) == kinds


def test_every_sentence_that_can_be_broken_is(labels: list[mutants.Label]) -> None:
    """Each requirement that must hold and that outputs can show has a mutant."""
    text = (ROOT / "cases" / "requirements.yaml").read_text(encoding="utf-8")
    entries = yaml.safe_load(text)["requirements"]
    must = {e["id"] for e in entries if e["level"] == "MUST" and e.get("needs") != "structural"}
    assert must - {label.breaks for label in labels} == set()
