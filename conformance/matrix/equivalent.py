"""Mutants that are right for some dtypes of x, with a proof: what no output can show is no gap of the suite.

A mutant's file may have one more constant, a dictionary of plain strings:

    EQUIVALENT = {"fp16": "the range of fp16 ends before the fault begins: ..."}

It maps a dtype of x to a sentence that proves that every output there is one that the suite must accept. A
run of that dtype that fails all the same refutes the proof, and is told as an error.
"""

from __future__ import annotations

import ast
from pathlib import Path

from conformance import mutants
from conformance.matrix.lines import BadMatrix
from conformance.model import SHORT_DTYPE

DTYPES = tuple(SHORT_DTYPE[name] for name in ("float16", "bfloat16", "float32"))
"""The dtypes of x that are asked, in short."""


def proofs(name: str, folder: Path = mutants.FOLDER) -> dict[str, str]:
    """dtype of x -> the proof that the mutant is right there; {} for one that is wrong in all of them.

    Raises:
        BadMatrix: the constant is no dictionary of dtypes and sentences.
    """
    tree = ast.parse((folder / f"{name}.py").read_text("utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "EQUIVALENT":
            return _read(name, node.value)
    return {}


def _read(name: str, node: ast.expr) -> dict[str, str]:
    hint = f'Write EQUIVALENT = {{"fp16": "because ..."}}, with keys of {", ".join(DTYPES)}.'
    try:
        found = ast.literal_eval(node)
    except ValueError as error:
        raise BadMatrix(f"mutant {name}: EQUIVALENT is no plain dictionary", hint) from error
    good = isinstance(found, dict) and all(
        dtype in DTYPES and isinstance(proof, str) and proof.strip() for dtype, proof in found.items()
    )
    if not good:
        raise BadMatrix(f"mutant {name}: EQUIVALENT is {ast.unparse(node)[:80]}", hint)
    return found
