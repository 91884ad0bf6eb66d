"""What became smaller, in words."""

from __future__ import annotations

from dataclasses import fields

from conformance.loading.run_ids import dtype_word, value_word
from conformance.model import Fill, Run

_PLAIN = Fill()


def in_short(run: Run) -> str:
    """One line: sizes, dtypes and what is special."""
    shape = " x ".join(map(str, run.shape))
    return ", ".join([f"{run.mode} {shape} {dtype_word(run.dtypes)}", *run.features, run.scenario])


def facts(run: Run) -> dict[str, str]:
    """What a run asks, label -> words; every label is always there, so that two runs can be compared."""
    told = {
        "rows": " x ".join(map(str, run.shape[:-1])) or "none (rank 1)",
        "width": str(run.hidden_size),
        "dtypes": dtype_word(run.dtypes),
        "layouts": ", ".join(f"{t} {layout}" for t, layout in run.layouts.items()) or "contiguous",
        "scenario": run.scenario if run.fault is None else f"{run.scenario}: {run.fault}",
        "gradients": ", ".join(run.gradients) or "none",
        "upstream": ", ".join(run.upstream) or "none",
        "eps": "left out" if run.eps is None else value_word(run.eps),
        "weight_offset": "not passed" if run.weight_offset is None else value_word(run.weight_offset),
        "out": "passed" if run.out else "not passed",
    }
    for tensor in ("x", "residual", "weight", "dy", "dresidual_out"):
        told[tensor] = fill_words(run.fills[tensor]) if tensor in run.fills else "none"
    return told


def fill_words(fill: Fill) -> str:
    """A fill: its kind, and what is not as usual."""
    shown = [f.name for f in fields(fill) if getattr(fill, f.name) != getattr(_PLAIN, f.name)]
    words = [f"{name} {_value(getattr(fill, name))}" for name in shown if name not in ("kind", "seed")]
    random = fill.kind in ("bell", "uniform")
    return ", ".join([fill.kind, *([f"seed {fill.seed}"] if random else []), *words])


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    return value_word(value) if isinstance(value, float) else str(value)


def changes(before: Run, after: Run) -> list[str]:
    """A line for each thing that became smaller: "rows: 4 -> 1"; what both lack is left out."""
    old, new = facts(before), facts(after)
    width = max(map(len, old))
    return [
        f"{label + ':':{width + 1}} {old[label]} -> {new[label]}"
        if old[label] != new[label]
        else f"{label + ':':{width + 1}} {old[label]}, as before"
        for label in old
        if old[label] != new[label] or label in ("rows", "width", "dtypes", "layouts")
    ]
