"""One case entry to its runs: fusion modes x dtypes x matrix, less `exclude`, plus `include`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from conformance.loading.combinations import impossible
from conformance.loading.fills import fills_of, not_there
from conformance.loading.gradients import (
    FORWARD_PROFILES,
    PASSES,
    TRAINING_MODES,
    TRAINING_PROFILES,
    gradients_of,
    trains,
    upstream_dtypes,
    upstream_of,
)
from conformance.loading.run_ids import run_id
from conformance.loading.value_readers import At
from conformance.model import MODES, Run

CALLS = {"once": 1, "repeat": 2, "new_contents": 2, "batch": 2, "chain": 64, "refuse": 1}
"""How often a scenario calls the implementation, for `Run.cost` of a forward run."""

_DEFAULT_EPS = 1e-6

Combination = tuple[str, dict[str, str], dict[str, Any]]
"""A mode, the dtypes as written, and the matrix keys with their values."""


@dataclass(frozen=True)
class Entry:
    """One case of a file, its keys read and its defaults filled in.

    values: the keys as `conformance.loading.read_entry` returns them. places: key -> where it was written.
    """

    id: str  # "eps/near"
    at: At
    values: Mapping[str, Any]
    places: Mapping[str, At]

    def place(self, key: str) -> At:
        """Where `key` was written; the case itself for a key that is left out."""
        return self.places.get(key.split(".")[0], self.at)


def expand(entry: Entry) -> tuple[Run, ...]:
    """All runs of one case, in the order of the file.

    Raises:
        BadCase: a combination cannot be, nothing is left, or two runs would have one id.
    """
    runs: dict[str, Run] = {}
    for mode, dtypes, row in _combinations(entry):
        run = _run(entry, mode, dtypes, row)
        problem = impossible(run)
        if problem:
            key, message, hint = problem
            varied = "matrix" if "matrix" in entry.places else "include"
            raise entry.place(varied if key in row else key).bad(f"{message} (in {run.id})", hint)
        if run.id in runs:
            raise entry.place("include").bad(f"{run.id} comes out twice", "Remove one of the two.")
        runs[run.id] = run
    if not runs:
        raise entry.at.bad("expands to no run", "Exclude less, or remove the case.")
    for tensor in ("residual", "dy", "dresidual_out"):
        if tensor in entry.values and not any(tensor in run.fills for run in runs.values()):
            raise not_there(tensor, entry.place)
    return tuple(runs.values())


def _combinations(entry: Entry) -> Iterator[Combination]:
    values = entry.values
    modes = values.get("modes", TRAINING_MODES if trains(values) else list(MODES))
    dtypes = values.get("dtypes", [{"x": "bfloat16"}])
    if "matrix" in values or "include" not in values:
        yield from _product(entry, modes, dtypes)
    elif "exclude" in values:
        raise entry.place("exclude").bad("there is no matrix to exclude from", "Remove it.")
    for row in values.get("include", []):
        below = {key: value for key, value in row.items() if key not in ("mode", "dtype")}
        row_modes = [row["mode"]] if "mode" in row else modes
        row_dtypes = [row["dtype"]] if "dtype" in row else dtypes
        for mode, dtype in itertools.product(row_modes, row_dtypes):
            yield mode, dtype, below


def _product(entry: Entry, modes: list[str], dtypes: list[dict[str, str]]) -> Iterator[Combination]:
    matrix = entry.values.get("matrix", {})
    excludes = entry.values.get("exclude", [])
    idle = list(excludes)
    for mode, dtype, *picked in itertools.product(modes, dtypes, *matrix.values()):
        row = dict(zip(matrix, picked, strict=True))
        combination = {"mode": mode, "dtype": dtype, **row}
        hits = [exclude for exclude in excludes if _fits(exclude, combination)]
        idle = [exclude for exclude in idle if exclude not in hits]
        if not hits:
            yield mode, dtype, row
    if idle:
        raise entry.place("exclude").bad(f"{idle[0]} excludes nothing", "Correct or remove it.")


def _fits(exclude: dict[str, Any], combination: dict[str, Any]) -> bool:
    return all(key in combination and combination[key] == want for key, want in exclude.items())


def _run(entry: Entry, mode: str, dtypes: dict[str, str], row: dict[str, Any]) -> Run:
    varied = {key for key in row if "." in key}
    values = {**entry.values, **{key: value for key, value in row.items() if key not in varied}}
    if "shape" in row:
        values.pop("n_rows", None)
        values.pop("hidden_size", None)
    below: dict[str, dict[str, Any]] = {}
    for key in varied:
        tensor, name = key.split(".")
        below.setdefault(tensor, {})[name] = row[key]
    full_dtypes = _dtypes(entry, mode, dtypes, values)
    shape = _shape(entry, values)
    scenario = values.get("scenario", "once")
    gradients, upstream = gradients_of(values, full_dtypes), upstream_of(values, mode)
    supplied = {**full_dtypes, **upstream_dtypes(upstream, full_dtypes)}
    return Run(
        id=run_id(entry.id, mode, full_dtypes, row),
        case=entry.id,
        file=entry.at.file,
        about=values["about"],
        mode=mode,
        shape=shape,
        dtypes=full_dtypes,
        eps=_eps(values),
        fills=fills_of(values, below, supplied, entry.place),
        layouts={**values.get("layouts", {}), **below.get("layouts", {})},
        requirements=tuple(values["requirements"]),
        scenario=scenario,
        weight_offset=values.get("weight_offset"),
        out=values.get("out", False),
        fault=values.get("fault"),
        profiles=tuple(values.get("profiles", TRAINING_PROFILES if gradients else FORWARD_PROFILES)),
        core=values.get("core", False),
        flags=tuple(values.get("flags", ())),
        cost=_elements(shape) * (PASSES if gradients else CALLS).get(scenario, 1),
        needs=tuple(values.get("needs", ())),
        gradients=gradients,
        upstream=upstream,
    )


def _eps(values: Mapping[str, Any]) -> float | None:
    eps = values.get("eps", _DEFAULT_EPS)
    if values.get("fault") == "eps_zero":
        return 0.0
    if eps == "omitted":
        return None
    return -float(eps) if values.get("fault") == "eps_negative" else float(eps)


def _shape(entry: Entry, values: Mapping[str, Any]) -> tuple[int, ...]:
    if "shape" in values:
        if "n_rows" in values or "hidden_size" in values:
            raise entry.place("shape").bad(
                "shape stands beside n_rows or hidden_size", "Give either shape or the other two."
            )
        return tuple(values["shape"])
    if "n_rows" not in values or "hidden_size" not in values:
        raise entry.at.bad("the case has no shape", "Give shape: [3, 257], or both n_rows and hidden_size.")
    return (values["n_rows"], values["hidden_size"])


def _elements(shape: tuple[int, ...]) -> int:
    total = 1
    for length in shape:
        total *= length
    return total


def _dtypes(entry: Entry, mode: str, dtypes: dict[str, str], values: Mapping[str, Any]) -> dict[str, str]:
    if mode == "none" and "residual" in dtypes:
        raise entry.place("dtypes").bad(
            "names a residual, but mode none has none",
            "Write modes: [residual, residual_in_place].",
        )
    if values.get("weight") == "none" and "weight" in dtypes:
        raise entry.place("dtypes").bad("names a weight, but there is none", "Remove weight there.")
    tensors = ["x"]
    tensors += ["residual"] if mode != "none" else []
    tensors += ["weight"] if values.get("weight") != "none" else []
    return {tensor: dtypes.get(tensor, dtypes["x"]) for tensor in tensors}
