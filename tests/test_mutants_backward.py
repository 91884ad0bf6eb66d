"""The backward of mutants and variants: mutants wrong as labelled, variants right, and enough of both.

The calls are made by gradient_calls.py in a process of its own; what the suite makes of them is the score's
question.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from conformance import mutants, variants

ROOT = Path(__file__).resolve().parents[1]

BACKWARD = [n for n in mutants.names() if mutants.label(n).backward]

WRONG = {
    "DX-PRESENT": "dx: None", "DRESIDUAL-PRESENT": "dresidual: None", "DWEIGHT-PRESENT": "dweight: None",
    "DX-FORM": "dx: .* torch.float32", "DRESIDUAL-FORM": "dresidual: .* torch.bfloat16",
    "DWEIGHT-SHAPE": "invalid gradient|dweight: .1, 33", "DWEIGHT-DTYPE": "dweight: .* torch.bfloat16",
    "DRESIDUAL-AFTER": "dx: other", "DRESIDUAL-ADDED": "(dx|dresidual): other",
    "DRESIDUAL-SAME": "dresidual: other", "DRESIDUAL-ALONE": "residual_out alone",
    "DRESIDUAL-ACCURACY": "dresidual: other", "DX-": "dx: other", "DWEIGHT-ZERO-ROWS": "no rows",
    "DWEIGHT-ZERO-WEIGHTS": "weights of zero.* dweight: other", "DWEIGHT-": "dweight: other",
    "RRMS-SAVED": "dx: other", "SPECIAL-NONFINITE": "Inf in dy.* dx: other",
    "GRADMODE-ALIKE": "no graph", "GRADMODE-UNASKED": "was (written|switched on)",
    "GRADMODE-DY-UNTOUCHED": "that arrived was changed", "GRADMODE-OUTPUTS-UNTOUCHED": "output was changed",
    "GRADMODE-DY-LAYOUT": "(transposed|expanded) dy", "GRADMODE-COMBINATION": "frozen",
    "GRADMODE-RETAINED": "retained", "GRADMODE-REPEAT": "three times", "INVARIANCE-FRESH": "three times",
    "GRADMODE-GRAPHS": "two graphs",
}  # fmt: skip
"""What is wrong about a mutant by the requirement that it breaks, or the start of it: the first that fits."""


@pytest.fixture(scope="module")
def seen() -> dict[str, dict[str, str]]:
    """What was wrong about each mutant and variant on the small questions, from one process."""
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(ROOT / "tests" / "gradient_calls.py")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", [n for n in BACKWARD if not mutants.label(n).breaks.startswith("MEM-")])
def test_mutant_is_wrong_as_its_label_says(name: str, seen: dict[str, dict[str, str]]) -> None:
    """On one of the questions, in the gradient and in the way that the requirement speaks of."""
    breaks = mutants.label(name).breaks
    expected = next(words for start, words in WRONG.items() if breaks.startswith(start))
    assert re.search(expected, seen["mutants"][name]), seen["mutants"][name] or "right everywhere"


@pytest.mark.parametrize("name", variants.names())
def test_variant_is_right(name: str, seen: dict[str, dict[str, str]]) -> None:
    """The gradients agree with float64, nothing is touched, or no output requires a gradient."""
    assert not seen["variants"][name]


def test_what_is_right_passes_at_the_tolerance_of_the_mutants(seen: dict[str, dict[str, str]]) -> None:
    """So that a mutant is wrong by its fault alone."""
    assert seen["control"]
    assert not any(seen["control"].values()), seen["control"]


def test_there_are_enough() -> None:
    """Mutants of the backward, those in Triton, and a family for each kind of requirement."""
    in_triton = [n for n in BACKWARD if "@triton.jit" in (mutants.FOLDER / f"{n}.py").read_text()]
    families = {mutants.label(n).breaks.split("-")[0] for n in BACKWARD}
    assert len(BACKWARD) >= 36
    assert len(in_triton) >= 6
    assert families >= {"DX", "DRESIDUAL", "DWEIGHT", "GRADMODE"}


def test_every_requirement_of_the_backward_has_a_mutant() -> None:
    """Each that must hold; what only should hold has a right variant that is warned for it."""
    text = (ROOT / "cases" / "requirements.yaml").read_text(encoding="utf-8")
    families = ("DX", "DRESIDUAL", "DWEIGHT", "GRADMODE")
    known = {r["id"]: r["level"] for r in yaml.safe_load(text)["requirements"]}
    must = {i for i, level in known.items() if i.split("-")[0] in families and level == "MUST"}
    assert must <= {mutants.label(n).breaks for n in BACKWARD}
    warned = {w for n in variants.names() for w in variants.warns(n)}
    assert warned == {"DWEIGHT-REPEAT", "RRMS-READ", "RRMS-RECIPROCAL", "INVARIANCE-BATCH"}
    assert all(known[w] == "SHOULD" for w in warned)


def test_an_unknown_piece_is_refused() -> None:
    """A fault in a piece that is none would be no fault."""
    from conformance.mutants import _gradient

    with pytest.raises(KeyError, match="known: statistic"):
        _gradient.op(projektion=_gradient.projection)


def test_an_unknown_variant_is_refused() -> None:
    """By name."""
    with pytest.raises(KeyError, match="no_such"):
        variants.warns("no_such")
