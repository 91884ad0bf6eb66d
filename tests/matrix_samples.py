"""A small matrix made by hand, and pieces to make others of."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

from conformance.matrix.lines import Block, Closing, Header, Matrix, RunLine, Session, encode, encode_block

HEADER = Header(
    "2026-01-02T03:04:05Z", "0.1.0", "sha256:0", "cpu", "2.6.0", "3.2.0", "1.26.0", "3.10.0", "",
    names=("mutant:a", "mutant:b"),
)  # fmt: skip

FAILED = {
    "p": (("values", "FORMULA-ROOT"),),
    "q": (("guards", "MEM-WRITE"), ("values", "FORMULA-ROOT")),
}
"""What fails in the runs of two cases."""


def run(spec: str, case: str, number: int, dtype: str, verdict: str) -> RunLine:
    """One run of a case `f/p` or `f/q`."""
    failed = FAILED[case] if verdict == "fail" else ()
    named = failed[0][1] if failed else ""
    return RunLine(spec, f"f/{case}[none,{dtype},h={number}]", dtype, verdict, named, failed, 0.5)


def block(name: str, verdicts: dict[str, str], **closing: object) -> Block:
    """A mutant of FORMULA-ROOT: case, run and dtype ("p1 fp16") -> verdict."""
    spec = f"mutant:{name}"
    asked = [(what.split(), verdict) for what, verdict in verdicts.items()]
    runs = tuple(run(spec, place[0], int(place[1:]), dtype, v) for (place, dtype), v in asked)
    values = {"named": ("FORMULA-ROOT",), "counts": dict(Counter(verdicts.values())), "seconds": 2.0}
    return Block(Closing(spec, "FORMULA-ROOT", **{**values, **closing}), runs)  # type: ignore[arg-type]


def right(name: str, verdicts: dict[str, str], **closing: object) -> Block:
    """A variant."""
    made = block(name, verdicts, named=(), **closing)
    spec = f"variant:{name}"
    return Block(
        replace(made.closing, spec=spec, expected=""), tuple(replace(r, spec=spec) for r in made.runs)
    )


def matrix(*blocks: Block, **header: object) -> Matrix:
    return Matrix(replace(HEADER, **header), {b.closing.spec: b for b in blocks}, (Session(60.0, 2),))  # type: ignore[arg-type]


WIDE = {"p1 fp16": "fail", "p2 bf16": "fail", "q1 fp16": "fail", "q2 bf16": "fail"}
"""Killed in every run."""

HAND_MADE = matrix(
    block("everywhere", WIDE),
    block("twin", WIDE, named=("FORMULA-WEIGHT",)),
    block("one_dtype", {"p1 fp16": "fail", "p2 bf16": "pass", "q1 fp16": "pass", "q2 fp32": "unsupported"}),
    block("crashes", {"p1 fp16": "pass", "p2 bf16": "crash", "q1 fp16": "pass"}),
    block("compared", {"p1 fp16": "pass", "q2 bf16": "pass"}, overall=(("refusal", "REFUSE-ALIKE"),)),
    block("unloaded", {}, error="ImportFailed"),
    block("survivor", {"p1 fp16": "pass", "q2 bf16": "broken"}, named=()),
    right("well", {"p1 fp16": "pass", "q2 bf16": "warn"}),
    right("accused", {"p1 fp16": "pass", "q2 bf16": "fail"}),
    right("silent", {"p1 fp16": "pass"}, unwarned=("RRMS-READ",)),
)


def write(path: Path, made: Matrix) -> Path:
    path.write_text(
        encode(made.header) + "".join(map(encode_block, made.blocks.values())) + encode(made.sessions[0])
    )
    return path
