"""One case entry to its runs: fusion modes x dtypes x matrix, less `exclude`, plus `include`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from conformance.loading.combinations import impossible
from conformance.loading.run_ids import run_id
from conformance.loading.value_readers import At
from conformance.model import MODES, Fill, Run

CALLS = {"once": 1, "repeat": 2, "new_contents": 2, "batch": 2, "chain": 64, "refuse": 1}
"""How often a scenario calls the implementation, for `Run.cost`."""

_SEEDS = {"x": 1, "residual": 2, "weight": 3}
_RESIDUAL_OVER_X = 2.4  # three times the mean magnitude of a bell: it matters, and the sum rounds
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
    return tuple(runs.values())


def _combinations(entry: Entry) -> Iterator[Combination]:
    values = entry.values
    modes = values.get("modes", list(MODES))
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
    return Run(
        id=run_id(entry.id, mode, full_dtypes, row),
        case=entry.id,
        file=entry.at.file,
        about=values["about"],
        mode=mode,
        shape=shape,
        dtypes=full_dtypes,
        eps=_eps(values),
        fills=_fills(entry, values, below, full_dtypes),
        layouts={**values.get("layouts", {}), **below.get("layouts", {})},
        requirements=tuple(values["requirements"]),
        scenario=scenario,
        weight_offset=values.get("weight_offset"),
        out=values.get("out", False),
        fault=values.get("fault"),
        profiles=tuple(values.get("profiles", ("inference", "full"))),
        core=values.get("core", False),
        flags=tuple(values.get("flags", ())),
        cost=_elements(shape) * CALLS[scenario],
        needs=tuple(values.get("needs", ())),
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


def _fills(
    entry: Entry,
    values: Mapping[str, Any],
    below: Mapping[str, Mapping[str, Any]],
    dtypes: Mapping[str, str],
) -> dict[str, Fill]:
    for tensor in ("residual", "weight"):
        written = tensor in below or (tensor == "residual" and tensor in values)
        if written and tensor not in dtypes and (tensor == "weight" or values.get("modes") == ["none"]):
            raise entry.place(tensor).bad(
                f"gives values to {tensor}, but the case has none",
                "Remove the key, or add a fused mode." if tensor == "residual" else "Remove the key.",
            )
    given = {t: dict(values[t]) for t in dtypes if t in values}
    x = {**given.get("x", {}), **below.get("x", {})}
    if "residual" in dtypes and "residual" not in given:
        given["residual"] = _residual_like(x)
    return {
        tensor: _fill(entry, tensor, {**given.get(tensor, {}), **below.get(tensor, {})}, dtype)
        for tensor, dtype in dtypes.items()
    }


def _residual_like(x: Mapping[str, Any]) -> dict[str, Any]:
    """The residual of a case that gives none: a bell over x's rows, 2.4 times as wide."""
    scale = x.get("scale", 1.0)
    if isinstance(scale, Mapping):
        wider: Any = {dtype: value * _RESIDUAL_OVER_X for dtype, value in scale.items()}
    else:
        wider = scale * _RESIDUAL_OVER_X
    fill = {"seed": x.get("seed", _SEEDS["x"]) + 1, "scale": wider}
    return {**fill, "row_scales": x["row_scales"]} if "row_scales" in x else fill


def _fill(entry: Entry, tensor: str, keys: dict[str, Any], dtype: str) -> Fill:
    keys = {"seed": _SEEDS[tensor], **keys}
    for name in ("scale", "mean", "last_column"):
        if isinstance(keys.get(name), Mapping):
            if dtype not in keys[name]:
                raise entry.place(tensor).bad(
                    f"{tensor}.{name} has no number for {dtype}", f"Add {dtype}: <number> to it."
                )
            keys[name] = keys[name][dtype]
    for name in ("row_scales", "zero_rows", "put"):
        if name in keys:
            keys[name] = tuple(keys[name])
    return Fill(**keys)
