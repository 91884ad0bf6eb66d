"""What case files mean: defaults, matrices, ids, digests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from case_text import PLAIN, runs, write

from conformance.errors import BadCase
from conformance.load import bundled, cases_digest, load, read_requirements
from conformance.loading.run_ids import value_word
from conformance.model import Fill


def test_one_case_runs_in_every_mode_and_dtype(tmp_path: Path) -> None:
    """Modes times dtypes, in the order of the file."""
    ids = list(runs(tmp_path, "shape: [3, 7], dtypes: [float32, {x: float16, weight: float32}]"))
    assert ids == [
        f"{mode},{dtype}"
        for mode in ("none", "residual", "residual_in_place")
        for dtype in ("fp32", "x=fp16+w=fp32")
    ]


def test_defaults_of_a_run(tmp_path: Path) -> None:
    """bfloat16, eps 1e-6, signed weights of their own seed, a residual 2.4 times as wide as x."""
    found = runs(tmp_path, "n_rows: 3, hidden_size: 7, x: {seed: 9, scale: 0.5, row_scales: [1.0, 64.0]}")
    run = found["residual,bf16"]
    assert (run.shape, run.eps, run.scenario, run.profiles) == ((3, 7), 1e-6, "once", ("inference", "full"))
    assert run.dtypes == {"x": "bfloat16", "residual": "bfloat16", "weight": "bfloat16"}
    assert run.fills["x"] == Fill(seed=9, scale=0.5, row_scales=(1.0, 64.0))
    assert run.fills["residual"] == Fill(seed=10, scale=1.2, row_scales=(1.0, 64.0))
    assert run.fills["weight"] == Fill(seed=3)
    assert "residual" not in found["none,bf16"].fills


def test_matrix_exclude_and_include(tmp_path: Path) -> None:
    """The product less what exclude fits, plus the rows of include; matrix keys may have a dot."""
    keys = (
        "modes: [none], shape: [2, 9], matrix: {hidden_size: [33, 257], x.scale: [1.0, 1.0e-3]}, "
        "exclude: [{hidden_size: 33, x.scale: 1.0}], "
        "include: [{hidden_size: 5, layouts.x: row_slice, dtype: float32}]"
    )
    with pytest.raises(BadCase, match="shape stands beside"):
        runs(tmp_path, keys)
    found = runs(tmp_path, keys.replace("shape: [2, 9]", "n_rows: 2"))
    assert list(found) == [
        "none,bf16,h=33,x.scale=1e-3", "none,bf16,h=257,x.scale=1", "none,bf16,h=257,x.scale=1e-3",
        "none,fp32,h=5,x=row_slice",
    ]  # fmt: skip
    assert found["none,bf16,h=33,x.scale=1e-3"].fills["x"].scale == 1e-3
    assert found["none,fp32,h=5,x=row_slice"].layouts == {"x": "row_slice"}


def test_include_alone_is_all_there_is(tmp_path: Path) -> None:
    """Without a matrix the rows of include are the only combinations."""
    found = runs(
        tmp_path, "modes: [none], include: [{shape: [2, 3], eps: 1.0e-3}, {shape: [4], eps: omitted}]"
    )
    assert {key: (run.shape, run.eps) for key, run in found.items()} == {
        "none,bf16,shape=2x3,eps=1e-3": ((2, 3), 1e-3), "none,bf16,shape=4,eps=omitted": ((4,), None),
    }  # fmt: skip


def test_numbers_by_dtype(tmp_path: Path) -> None:
    """scale, mean and last_column may be given for each dtype; the residual's derived scale follows."""
    keys = "shape: [2, 3], dtypes: [float16, float32], x: {scale: {float16: 10.0, float32: 1.0e+15}}"
    found = runs(tmp_path, keys)
    assert found["none,fp16"].fills["x"].scale == 10.0
    assert found["residual,fp32"].fills["residual"].scale == 2.4e15


def test_a_case_may_give_its_size_in_the_other_way_than_the_defaults(tmp_path: Path) -> None:
    """A case with n_rows and hidden_size is not troubled by a default shape, and the other way round."""
    text = (
        "defaults: {shape: [2, 3], requirements: [FORMULA-WEIGHT], modes: [none]}\n"
        "cases:\n  - {id: a, about: b}\n  - {id: c, about: d, n_rows: 5, hidden_size: 7}\n"
    )
    assert [case.runs[0].shape for case in load([write(tmp_path, text)])] == [(2, 3), (5, 7)]


def test_eps_faults_pass_the_wrong_eps(tmp_path: Path) -> None:
    """eps_zero gives 0, eps_negative the case's eps negated."""
    faults = "matrix: {fault: [eps_zero, eps_negative]}"
    keys = f"shape: [2, 3], modes: [none], eps: 1.0e-5, scenario: refuse, {faults}"
    assert [run.eps for run in runs(tmp_path, keys).values()] == [0.0, -1e-5]


def test_cost_counts_every_call(tmp_path: Path) -> None:
    """A chain makes 64 calls."""
    keys = "shape: [2, 3], modes: [none], matrix: {scenario: [once, repeat, chain]}"
    assert [run.cost for run in runs(tmp_path, keys).values()] == [6, 12, 384]


def test_a_folder_is_read_by_name_without_the_requirements(tmp_path: Path) -> None:
    """A folder gives its *.yaml sorted; a file given twice is read once."""
    text = f"cases:\n  - {{id: one, {PLAIN}, shape: [2, 3]}}\n"
    for name in ("b.yaml", "a.yaml", "requirements.yaml"):
        write(tmp_path, text, name)
    assert [case.id for case in load([tmp_path, tmp_path / "a.yaml"])] == ["a/one", "b/one"]
    assert load([tmp_path])[0].line == 4


def test_values_in_ids() -> None:
    """One spelling of a number, whatever the file's."""
    words = [
        value_word(v) for v in (1e-3, 0.001, 0.5, 3.2e-3, 1e15, 1e-12, -1.5, 4097, True, (2, 0, 7), "omitted")
    ]
    assert words == [
        "1e-3",
        "1e-3",
        "0.5",
        "3.2e-3",
        "1e15",
        "1e-12",
        "-1.5",
        "4097",
        "true",
        "2x0x7",
        "omitted",
    ]


def test_digest_sees_every_word_and_no_order(tmp_path: Path) -> None:
    """Another seed is another digest; another order of files is not."""
    text = "cases:\n  - {{id: one, {plain}, shape: [2, 3], x: {{seed: {seed}}}}}\n"
    a, b = (write(tmp_path, text.format(plain=PLAIN, seed=1), f"{n}.yaml") for n in "ab")
    both = cases_digest(load([a, b]))
    assert both == cases_digest(load([b, a]))
    assert both.startswith("sha256:")
    assert len(both) == 71
    write(tmp_path, text.format(plain=PLAIN, seed=2), "b.yaml")
    assert cases_digest(load([a, b])) != both


def test_load_imports_neither_torch_nor_triton() -> None:
    """A report can be read where there is no torch."""
    code = (
        "import sys; from conformance.load import bundled, load; load([bundled()]); "
        "sys.exit(any(name in sys.modules for name in ('torch', 'triton')))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[1]).returncode == 0


def test_bundled_is_beside_the_package_in_a_checkout() -> None:
    """In a checkout the cases are the folder that people edit."""
    assert bundled() == Path(__file__).resolve().parents[1] / "cases"


# --- requirements --------------------------------------------------------------------------------------

RULE = "{id: A-B, rank: 1, level: MUST, text: a, why: b, source: [c, d]}"


def test_requirements_of_a_file(tmp_path: Path) -> None:
    """Sources may be several; needs is cpu unless it is said."""
    found = read_requirements(write(tmp_path, f"requirements:\n  - {RULE}\n"))["A-B"]
    assert (found.source, found.needs, found.family) == ("c; d", "cpu", "A")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"{RULE}\n  - {RULE}", "given twice"),
        (RULE.replace("MUST", "MAY"), "Write one of: MUST, SHOULD"),
        (RULE.replace("why: b, ", ""), "has no why"),
        (RULE.replace("rank: 1", "rank: one"), "should be an integer"),
        (RULE.replace("why: b", "wy: b"), "Did you mean 'why'?"),
    ],
)
def test_mistakes_in_requirements(tmp_path: Path, text: str, words: str) -> None:
    """The requirements are read as strictly as the cases."""
    with pytest.raises(BadCase) as caught:
        read_requirements(write(tmp_path, f"requirements:\n  - {text}\n"))
    assert words in f"{caught.value.message} {caught.value.hint}"
