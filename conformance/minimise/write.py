"""A run as the text of a case file with one case, which the loader reads back as the same question."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml

from conformance.errors import ConformanceError, HarnessBroken
from conformance.load import bundled, load
from conformance.loading.case_file import SCHEMA
from conformance.loading.fills import SEEDS
from conformance.minimise.simpler import EPS, question
from conformance.model import Fill, Run
from conformance.reporting.showing import visible

_PLAIN = Fill()


class CannotWriteError(ConformanceError):
    """The place of the new case file cannot be used."""


def place(run: Run, given: Path | None) -> Path:
    """Where the case file goes: as given, else minimised_<case>.yaml in this folder.

    Raises:
        CannotWriteError: something is there already, or the name cannot begin a run's id.
    """
    path = given or Path(f"minimised_{re.sub('[^a-z0-9]+', '_', run.case.lower())}.yaml")
    if not re.fullmatch(r"[a-z0-9][a-z0-9_]*\.yaml", path.name):
        raise CannotWriteError(
            f"the new file would be called {path.name!r}, and the name of a case file begins the ids in it",
            "Give -o a name of lower case, digits and underscores that ends in .yaml.",
        )
    if (bundled() / path.name).exists():
        raise CannotWriteError(
            f"{path.name} is the name of a bundled case file, whose runs would be asked with yours",
            "Give another name with -o FILE.yaml.",
        )
    if not path.parent.is_dir():
        raise CannotWriteError(
            f"there is no folder {path.parent.name!r} for {path.name}",
            "Make it, or give another with -o FILE.yaml.",
        )
    if path.exists() or path.is_symlink():
        raise CannotWriteError(
            f"{path.name} exists already, and it is not overwritten",
            "Remove it, or give another name with -o FILE.yaml.",
        )
    return path


def case_text(run: Run, comments: Sequence[str]) -> str:
    """The case file: the comments above, then one case that expands to one run."""
    about = f"The smallest run found that fails {run.requirements[0]} as {run.id} did."
    tree = {"schema": SCHEMA, "about": about, "cases": [_entry(run)]}
    text = yaml.safe_dump(tree, sort_keys=False, default_flow_style=None, width=110, allow_unicode=True)
    return "".join(f"# {visible(line)}\n" for line in comments) + text


def written(path: Path, text: str, run: Run) -> Run:
    """Write the file and read it back.

    Returns:
        The run as the loader makes it of the file.

    Raises:
        CannotWriteError: something appeared at that place meanwhile.
        OSError: the file cannot be written.
        HarnessBroken: it does not ask what `run` asks.
    """
    try:
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except FileExistsError:
        raise CannotWriteError(
            f"{path.name} exists already, and it is not overwritten",
            "Remove it, or give another name with -o FILE.yaml.",
        ) from None
    read = [one for case in load([path]) for one in case.runs]
    if [question(one) for one in read] != [question(run)]:
        raise HarnessBroken(f"{path.name} does not ask what was found", "Please report this with the file.")
    return read[0]


def _entry(run: Run) -> dict[str, Any]:
    """The keys of the case; what has its usual value is left out, but never the size."""
    entry: dict[str, Any] = {
        "id": re.sub("[^a-z0-9_]", "_", run.case.rpartition("/")[2]),
        "about": run.about,
        "requirements": list(run.requirements),
        "modes": [run.mode],
        "dtypes": [_dtypes(run.dtypes)],
    }
    if len(run.shape) == 2:
        entry.update(n_rows=run.shape[0], hidden_size=run.shape[1])
    else:
        entry["shape"] = list(run.shape)
    if run.eps is None:
        entry["eps"] = "omitted"
    elif abs(run.eps) not in (EPS, 0.0):  # 0 and a negative one come from the fault
        entry["eps"] = abs(run.eps)
    for tensor, fill in run.fills.items():
        entry[tensor] = _fill(fill, tensor)
    if "weight" not in run.dtypes:
        entry["weight"] = "none"
    if run.scenario != "once":
        entry["scenario"] = run.scenario
    if run.weight_offset is not None:
        entry["weight_offset"] = run.weight_offset
    optional = {
        "layouts": dict(run.layouts), "fault": run.fault, "out": run.out, "gradients": list(run.gradients),
        "upstream": list(run.upstream), "needs": list(run.needs),
    }  # fmt: skip
    return {**entry, **{key: value for key, value in optional.items() if value}}


def _dtypes(dtypes: Mapping[str, str]) -> Any:
    differing = {t: dtype for t, dtype in dtypes.items() if t == "x" or dtype != dtypes["x"]}
    return differing if len(differing) > 1 else dtypes["x"]


def _fill(fill: Fill, tensor: str) -> dict[str, Any]:
    """The keys of a fill, its kind always: an empty one would say nothing to a reader."""
    shown: dict[str, Any] = {"kind": fill.kind}
    if fill.seed != SEEDS[tensor]:
        shown["seed"] = fill.seed
    for field in fields(fill):
        value = getattr(fill, field.name)
        if field.name not in ("kind", "seed") and value != getattr(_PLAIN, field.name):
            shown[field.name] = _listed(value)
    return shown


def _listed(value: Any) -> Any:
    return [_listed(v) for v in value] if isinstance(value, tuple) else value
