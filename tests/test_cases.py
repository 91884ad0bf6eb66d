"""The bundled cases: their files meet the schema, ids are for ever, and what must be asked is asked."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from conformance.load import bundled, load, requirements
from conformance.loading.gradients import BACKWARD_SCENARIOS
from conformance.loading.read_entry import ENTRY, FAULTS, FILL, KINDS, MATRIX
from conformance.model import (
    DTYPES,
    GRADIENT_OF,
    LAYOUTS,
    MODES,
    PROFILES,
    SCENARIOS,
    TENSORS,
    UPSTREAM_OF,
    Run,
)

CASES = Path(__file__).resolve().parents[1] / "cases"
FILES = sorted(CASES.glob("*.yaml"))
RUNS = {run.id: run for case in load([bundled()]) for run in case.runs}
SCHEMA = json.loads((CASES / "case.schema.json").read_text())

ISSUE_WIDTHS = {1, 2, 3, 7, 33, 129, 257, 500, 769, 1000, 4097, 5120, 8193}
MODEL_WIDTHS = {2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192, 12288, 16384}


FORWARD = [run for run in RUNS.values() if not run.trains]


def asked(**wanted: Any) -> list[Run]:
    """The forward runs whose fields have these values; tests/test_cases_gradients.py has the others."""
    return [run for run in FORWARD if all(getattr(run, key) == value for key, value in wanted.items())]


# --- the files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_file_meets_its_published_schema(path: Path) -> None:
    """JSON Schema 2020-12: what an editor shows is what the loader accepts."""
    name = "requirements" if path.name == "requirements.yaml" else "case"
    schema = json.loads((CASES / f"{name}.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(yaml.safe_load(path.read_text()))


def test_the_schema_lists_what_the_loader_knows() -> None:
    """A key or a word added to one and not to the other is found here."""
    parts = SCHEMA["$defs"]
    assert set(parts["case"]["properties"]) == {"id", *ENTRY}
    assert set(parts["defaults"]["properties"]) == set(ENTRY) - {"about"}
    assert set(parts["fill"]["properties"]) == set(FILL)
    assert set(parts["matrix"]["properties"]) == set(MATRIX)
    assert set(parts["row"]["properties"]) == {"mode", "dtype", *MATRIX}
    words = {
        "kind": KINDS,
        "fault": FAULTS,
        "layout": LAYOUTS,
        "scenario": SCENARIOS,
        "dtype": DTYPES,
        "mode": MODES,
    }
    assert {key: tuple(parts[key]["enum"]) for key in words} == words
    lists = {"gradients": GRADIENT_OF, "upstream": UPSTREAM_OF}
    for key, known in lists.items():
        listed, everything = parts[key]["oneOf"]
        assert (tuple(listed["items"]["enum"]), everything["const"]) == (tuple(known), "all")
    for key in ("case", "defaults"):
        assert tuple(parts[key]["properties"]["profiles"]["items"]["enum"]) == PROFILES
        assert tuple(parts[key]["properties"]["layouts"]["properties"]) == TENSORS


def _objects(schema: Any, path: str = "") -> list[tuple[str, dict[str, Any]]]:
    if isinstance(schema, list):
        return [found for i, part in enumerate(schema) for found in _objects(part, f"{path}/{i}")]
    if not isinstance(schema, dict):
        return []
    below = [found for key, part in schema.items() for found in _objects(part, f"{path}/{key}")]
    return [*below, (path, schema)] if schema.get("type") == "object" else below


@pytest.mark.parametrize("name", ["case", "requirements"])
def test_schemas_are_closed_and_described(name: str) -> None:
    """An unknown key is an error everywhere, and every key says what it is."""
    schema = json.loads((CASES / f"{name}.schema.json").read_text())
    objects = _objects(schema)
    assert objects
    for path, part in objects:
        assert part["additionalProperties"] is False, path
        for key, value in part["properties"].items():
            assert "description" in value or "$ref" in value, f"{path}/{key}"
    assert all("description" in part for part in schema["$defs"].values())


def test_the_example_of_the_readme_loads(tmp_path: Path) -> None:
    """The format is shown by an example that works: a file, and further down one more case of it."""
    example = "".join(re.findall(r"```yaml\n(.*?)```", (CASES / "README.md").read_text(), re.DOTALL))
    path = tmp_path / "my_cases.yaml"
    path.write_text(example)
    ids = [run.id for case in load([path]) for run in case.runs]
    assert "my_cases/near[residual,x=bf16+w=fp32,h=257,x.scale=1e-3]" in ids
    assert "my_cases/both_outputs[residual,bf16,grad=x+w]" in ids
    jsonschema.Draft202012Validator(SCHEMA).validate(yaml.safe_load(example))


def test_the_readme_explains_every_word() -> None:
    """Each layout, scenario, fault, kind, and key of a case stands in cases/README.md."""
    text = (CASES / "README.md").read_text()
    for word in (*LAYOUTS, *SCENARIOS, *FAULTS, *KINDS, *ENTRY, *FILL, *PROFILES, *TENSORS):
        assert re.search(rf"\b{word}\b", text), word


# --- ids -----------------------------------------------------------------------------------------------


def test_run_ids_are_the_committed_list() -> None:
    """Ids are for ever: a report of last year names the same run. A new one is added to the list."""
    committed = (CASES / "run_ids.txt").read_text().splitlines()
    found = sorted(RUNS)
    gone, new = sorted(set(committed) - set(found)), sorted(set(found) - set(committed))
    assert committed == found, (
        f"gone: {gone[:5]}; new: {new[:5]}; python -m conformance.loading.run_ids > cases/run_ids.txt"
    )


def test_run_ids_do_not_depend_on_hashing() -> None:
    """Sets and dicts must not decide an id or the order of runs."""
    code = (
        "from conformance.load import *; cases = load([bundled()]); "
        "print(cases_digest(cases)); [print(run.id) for case in cases for run in case.runs]"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code], cwd=CASES.parent, env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True, check=True,
        ).stdout
        for seed in ("0", "1", "4242")
    }  # fmt: skip
    assert len(seen) == 1


def test_run_ids_are_unique_and_readable() -> None:
    """Shell-safe but for brackets and commas, and short enough for a terminal."""
    assert len(RUNS) == sum(len(case.runs) for case in load([bundled()]))
    for id_ in RUNS:
        assert re.fullmatch(r"[a-z0-9_]+/[a-z0-9_]+\[[a-z0-9_.,=+-]+\]", id_), id_
        assert len(id_) <= 90, id_


def test_every_case_says_which_wrong_kernel_it_exposes() -> None:
    """`about` is a sentence of its own, not a copy."""
    abouts = Counter(case.about for case in load([bundled()]))
    assert [about for about, count in abouts.items() if count > 1 or len(about.split()) < 4] == []


# --- what must be asked --------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_sizes(mode: str) -> None:
    """The widths and row counts of the specification and of model families, in every fusion mode."""
    runs = asked(mode=mode, layouts={})
    for dtype in DTYPES:
        assert {run.hidden_size for run in runs if run.dtypes["x"] == dtype} >= ISSUE_WIDTHS
    assert {run.hidden_size for run in runs if any("model:" in f for f in run.flags)} >= MODEL_WIDTHS
    assert {16385, 32768} <= {run.hidden_size for run in runs}
    assert {1, 2, 3, 4} == {len(run.shape) for run in runs}
    assert {0, 1, 2, 3, 5, 15, 16, 17} <= {run.n_rows for run in runs}
    many = [run for run in runs if run.n_rows > 65535]
    assert [(run.n_rows, run.hidden_size <= 64) for run in many] == [(65537, True)]


@pytest.mark.parametrize("tensor", [tensor for tensor in TENSORS if tensor not in UPSTREAM_OF.values()])
def test_layouts(tensor: str) -> None:
    """Every layout that a tensor can have is asked of it, in every mode that can have it."""
    impossible = {"one_element"} | {
        "x": set(),
        "residual": set(),
        "weight": {"transposed", "split_heads", "int64_stride"},
        "out": {"expanded"},
    }[tensor]
    modes = {"residual": MODES[1:], "out": MODES[:2]}.get(tensor, MODES)
    for mode in modes:
        runs = asked(mode=mode, out=True) if tensor == "out" else asked(mode=mode)
        found = {run.layouts.get(tensor, "contiguous") for run in runs}
        written = {"expanded"} if mode == "residual_in_place" and tensor != "weight" else set()
        assert found == set(LAYOUTS) - impossible - written, mode


@pytest.mark.parametrize("mode", MODES)
def test_core(mode: str) -> None:
    """What certification needs: 16-bit, one row and 64, three widths, in every mode."""
    core = {(run.dtypes["x"], *run.shape) for run in asked(mode=mode, core=True)}
    assert core == {
        (dtype, rows, width)
        for dtype in ("float16", "bfloat16")
        for rows in (1, 64)
        for width in (4096, 4097, 8192)
    }


@pytest.mark.parametrize("mode", MODES)
def test_scenarios_and_faults(mode: str) -> None:
    """Each scenario and each fault that the mode can have."""
    runs = asked(mode=mode)
    assert {run.scenario for run in runs} == set(SCENARIOS) - set(BACKWARD_SCENARIOS)
    fused = {"residual_rows", "residual_width"} if mode == "none" else set()
    assert {run.fault for run in runs} == {None, *FAULTS} - fused
    (chain,) = {run.shape for run in runs if run.scenario == "chain"}
    assert chain == (8, 256)


@pytest.mark.parametrize("mode", MODES)
def test_values(mode: str) -> None:
    """eps from 1e-30 to 0.5 and left out, weights absent and offset, dtypes mixed, special values put."""
    runs = asked(mode=mode, fault=None)
    assert {None, 1e-3, 1e-5, 1e-6, 1e-12} <= {run.eps for run in runs}
    assert any("weight" not in run.dtypes for run in runs)
    assert {None, 0.0, 1.0} == {run.weight_offset for run in runs}
    mixes = {tuple(sorted(run.dtypes.items())) for run in runs if len(set(run.dtypes.values())) > 1}
    assert len(mixes) >= 6
    put = {value for run in runs for fill in run.fills.values() for _, _, value in fill.put}
    assert {"nan", "inf", "-inf"} <= put


def test_profiles_are_affordable() -> None:
    """Few enough runs and rows for one core and for Triton's interpreter, which takes 1 ms a row."""
    for mode in MODES:
        inference = [run for run in asked(mode=mode) if "inference" in run.profiles]
        smoke = [run for run in inference if "smoke" in run.profiles]
        assert 10 <= len(smoke) <= 16
        assert sum(run.n_rows for run in smoke) < 100
        assert len(inference) <= 380
        assert sum(run.cost for run in inference) < 12e6
        rows = [run.cost // run.hidden_size for run in inference if run.n_rows < 65536]
        assert sum(rows) < 7000


def test_requirements_of_runs() -> None:
    """Every requirement that a run can show has one; those of a GPU need one."""
    listed = {id_ for run in RUNS.values() for id_ in run.requirements}
    known = requirements()
    assert listed == {id_ for id_, rule in known.items() if rule.needs != "structural"}
    for run in RUNS.values():
        if "gpu" in {known[id_].needs for id_ in run.requirements}:
            assert "gpu" in run.needs, run.id
