"""The keys of a training run: which inputs require a gradient, and the gradients of which outputs arrive.

`gradients` and `upstream` become `Run.gradients` and `Run.upstream`; what cannot be asked of a backward is
an error here, as `conformance.loading.combinations` has it for the forward.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from conformance.loading.value_readers import At, Reader, entries, word
from conformance.model import GRADIENT_OF, UPSTREAM_OF, Run

Problem = tuple[str, str, str]
"""(key, what is wrong, what to write instead)"""

ALL = "all"
TRAINING_MODES = ["none", "residual"]
TRAINING_PROFILES = ("training", "full")
FORWARD_PROFILES = ("inference", "full")
TRAINING_SCENARIOS = ("once", "repeat", "new_contents", "retained", "interleaved", "saved_statistic")
BACKWARD_SCENARIOS = ("retained", "interleaved", "saved_statistic")

PASSES = {"once": 2, "repeat": 6, "new_contents": 4, "retained": 3, "interleaved": 4, "saved_statistic": 4}
"""Forward and backward passes of each scenario of a training run, for `Run.cost`."""


def _some_of(known: Sequence[str]) -> Reader:
    """A reader of the word all, or of some known words: a tuple in the order of `known`, or "all"."""
    each = entries(word(known), unique=True)

    def read(value: Any, at: At) -> tuple[str, ...] | str:
        if value == ALL:
            return ALL
        if isinstance(value, str):
            raise at.bad(f"is '{value}', but should be a list", f"Write [{known[0]}], or the word all.")
        chosen = each(value, at)
        return tuple(name for name in known if name in chosen)

    return read


gradients = _some_of(tuple(GRADIENT_OF))
upstream = _some_of(tuple(UPSTREAM_OF))


def trains(values: Mapping[str, Any]) -> bool:
    """Whether a case, with its matrix and its rows of include, asks for gradients anywhere."""
    rows = [values, values.get("matrix", {}), *values.get("include", [])]
    return any("gradients" in row for row in rows)


def gradients_of(values: Mapping[str, Any], dtypes: Mapping[str, str]) -> tuple[str, ...]:
    """The inputs of one run that require a gradient; all is every input that it has."""
    wanted = values.get("gradients", ())
    return tuple(name for name in GRADIENT_OF if name in dtypes) if wanted == ALL else tuple(wanted)


def upstream_of(values: Mapping[str, Any], mode: str) -> tuple[str, ...]:
    """The outputs of one run whose gradient arrives; left out, or all, every output of the mode."""
    wanted = values.get("upstream", ALL if values.get("gradients") else ())
    outputs = ("y",) if mode == "none" else ("y", "residual_out")
    return outputs if wanted == ALL else tuple(wanted)


def upstream_dtypes(upstream: Sequence[str], dtypes: Mapping[str, str]) -> dict[str, str]:
    """The dtype of every gradient that arrives: dy has x's, dresidual_out residual's."""
    like = {"y": dtypes["x"], "residual_out": dtypes.get("residual", dtypes["x"])}
    return {UPSTREAM_OF[output]: like[output] for output in upstream}


def impossible_backward(run: Run) -> Iterator[Problem]:
    """What is wrong with a run as a training run, or with a forward run that has keys of one."""
    if not run.trains:
        if run.upstream:
            yield "upstream", "a gradient arrives, but none is asked for", "Write gradients: all."
        if run.scenario in BACKWARD_SCENARIOS:
            yield "scenario", f"{run.scenario} without gradients", "Write gradients: all."
        return
    if run.mode == "residual_in_place":
        yield (
            "modes",
            "gradients in mode residual_in_place: what is overwritten cannot be differentiated",
            "Write modes: [none, residual].",
        )
    if run.scenario not in TRAINING_SCENARIOS:
        yield (
            "scenario",
            f"scenario {run.scenario} with gradients",
            f"Write one of {', '.join(TRAINING_SCENARIOS)}, or remove gradients.",
        )
    if run.out:
        yield "out", "an out tensor with gradients", "Remove out, or gradients."
    if {"smoke", "inference"} & set(run.profiles):
        yield "profiles", "gradients in a profile of forward runs", "Write profiles: [training, full]."
    yield from _wanted(run)
    yield from _statistic(run)


def _wanted(run: Run) -> Iterator[Problem]:
    if run.mode == "none" and "residual_out" in run.upstream:
        yield (
            "upstream",
            "the gradient of residual_out arrives, but mode none has no residual_out",
            "Write modes: [residual], or upstream: [y].",
        )
    if "residual" in run.gradients and "residual" not in run.dtypes:
        yield (
            "gradients",
            "residual is in gradients, but mode none has no residual",
            "Write gradients: all, or exclude mode none there.",
        )
    if "weight" in run.gradients and "weight" not in run.dtypes:
        yield (
            "gradients",
            "weight is in gradients, but the case has no weight",
            "Write gradients: all, or remove weight: none.",
        )
    if run.gradients == ("weight",) and run.upstream == ("residual_out",):
        yield (
            "gradients",
            "the weight's gradient alone is asked for, and residual_out does not depend on the weight",
            "Add y to upstream, or x to gradients.",
        )


def _statistic(run: Run) -> Iterator[Problem]:
    """The saved tensor is known by its number of elements, n_rows, so no other may have as many."""
    if run.scenario == "saved_statistic" and (run.n_rows < 2 or run.n_rows == run.hidden_size):
        yield (
            "scenario",
            f"saved_statistic with {run.n_rows} rows of {run.hidden_size}",
            "Take at least 2 rows, and not as many as columns.",
        )
    if run.scenario == "saved_statistic" and run.hidden_size == 1:
        yield (
            "scenario",
            "saved_statistic with hidden_size 1, where a row is as long as its statistic",
            "Take a wider row.",
        )
