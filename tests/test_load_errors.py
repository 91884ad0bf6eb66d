"""Every mistake in a case file: found at its line and key, with what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest
from case_text import cases, error, write

from conformance.errors import BadCase
from conformance.load import load

# --- mistakes in the format ----------------------------------------------------------------------------

ONE = (
    "cases:\n  - id: one\n    about: a wrong kernel\n    requirements: [FORMULA-WEIGHT]\n    shape: [2, 3]\n"
)

FORMAT = {
    "unknown key": (ONE + "    layout: {x: row_slice}\n", 8, "cases[0].layout", "Did you mean 'layouts'?"),
    "unknown key far off": (ONE + "    zzzz: 1\n", 8, "cases[0].zzzz", "Write one of: id, about"),
    "unknown key in a fill": (ONE + "    x: {scales: 1.0}\n", 8, "cases[0].x.scales", "'scale'?"),
    "unknown key at the top": ("case: []\n", 3, "case", "Did you mean 'cases'?"),
    "unknown key in defaults": ("defaults: {id: a}\n" + ONE, 3, "defaults.id", "Write one of"),
    "unknown matrix key": (ONE + "    matrix: {x.scal: [1.0]}\n", 8, "cases[0].matrix.x.scal", "'x.scale'?"),
    "wrong type": (ONE + "    core: 1\n", 8, "cases[0].core", "the integer 1, but should be a boolean"),
    "wrong type of a list": (ONE + "    modes: none\n", 8, "cases[0].modes", "should be a list"),
    "wrong type in a list": (ONE + "    x: {row_scales: [a]}\n", 8, "cases[0].x.row_scales[0]", "a number"),
    "wrong type of a mapping": (ONE + "    x: bell\n", 8, "cases[0].x", "should be a mapping"),
    "wrong type of a sentence": (ONE.replace("a wrong kernel", "7"), 5, "cases[0].about", "a sentence"),
    "float without a dot": (ONE + "    eps: 1e-6\n", 8, "cases[0].eps", "Write 1.0e-6:"),
    "float without a sign": (ONE + "    x: {scale: 1.0e6}\n", 8, "cases[0].x.scale", "Write 1.0e+6:"),
    "float in a matrix": (ONE + "    matrix: {eps: [1e-5]}\n", 8, "cases[0].matrix.eps[0]", "Write 1.0e-5"),
    "a number that is not finite": (ONE + "    x: {mean: .inf}\n", 8, "cases[0].x.mean", 'put with "nan"'),
    "eps of zero": (ONE + "    eps: 0.0\n", 8, "cases[0].eps", "fault: eps_zero"),
    "on": (ONE + "    core: on\n", 8, "on", "Write true if that is meant"),
    "no": (ONE + "    flags: [no]\n", 8, "no", '"no" in quotes'),
    "key given twice": (ONE + "    shape: [4, 5]\n", 8, "shape", "first in line 7"),
    "merge key": (ONE + "    <<: {out: true}\n", 8, "<<", "defaults"),
    "key that is no string": (ONE + "    1: 2\n", 8, "1", "quotes"),
    "broken YAML": ("cases: [\n", 4, "", "Check indentation"),
    "no mapping": ("cases:\n  - one\n", 4, "cases[0]", "Write `- id: ...`."),
    "no cases": ("cases: []\n", 3, "cases", "Write `- id: ...`"),
    "no id": (ONE.replace("id: one", "core: false"), 4, "cases[0]", "Add id"),
    "bad id": (ONE.replace("one", "One-Two"), 4, "cases[0].id", "lower case"),
    "duplicate id": (ONE + ONE.split("\n", 1)[1], 8, "cases[1].id", "the case in line 4 too"),
    "no about": (ONE.replace("    about: a wrong kernel\n", ""), 4, "cases[0]", "which wrong kernel"),
    "no requirements": (ONE.replace("    requirements: [FORMULA-WEIGHT]\n", ""), 4, "cases[0]", "List ids"),
    "unknown requirement": (ONE.replace("WEIGHT", "WIEGHT"), 6, "requirements", "'FORMULA-WEIGHT'?"),
    "structural requirement": (ONE.replace("FORMULA-WEIGHT", "KERNEL-FORM"), 6, "requirements", "can show"),
    "unknown layout": (ONE + "    layouts: {x: sliced}\n", 8, "cases[0].layouts.x", "'row_slice'?"),
    "unknown tensor": (ONE + "    layouts: {q: row_slice}\n", 8, "cases[0].layouts.q", "Write one of: x"),
    "unknown scenario": (ONE + "    scenario: repeats\n", 8, "cases[0].scenario", "'repeat'?"),
    "unknown fault": (ONE + "    fault: eps\n", 8, "cases[0].fault", "eps_zero"),
    "unknown profile": (ONE + "    profiles: [smoky]\n", 8, "cases[0].profiles[0]", "'smoke'?"),
    "unknown dtype": (ONE + "    dtypes: [float61]\n", 8, "cases[0].dtypes[0]", "'float16'?"),
    "dtypes without x": (ONE + "    dtypes: [{weight: float32}]\n", 8, "cases[0].dtypes[0]", "has no x"),
    "unknown need": (ONE + "    needs: [cuda]\n", 8, "cases[0].needs[0]", "gpu or memory"),
    "unknown kind": (ONE + "    x: {kind: randn}\n", 8, "cases[0].x.kind", "Write one of: bell"),
    "weight null": (ONE + "    weight: null\n", 8, "cases[0].weight", "Write weight: none"),
    "a mode twice": (ONE + "    modes: [none, none]\n", 8, "cases[0].modes[1]", "Remove one"),
    "shape of rank 5": (ONE.replace("[2, 3]", "[1, 1, 1, 2, 3]"), 7, "cases[0].shape", "1 to 4 integers"),
    "shape with no columns": (ONE.replace("[2, 3]", "[2, 0]"), 7, "cases[0].shape[1]", "between 1 and"),
    "negative shape": (ONE.replace("[2, 3]", "[-2, 3]"), 7, "cases[0].shape[0]", "between 0 and"),
    "shape of words": (ONE.replace("[2, 3]", "[two, 3]"), 7, "cases[0].shape[0]", "an integer"),
    "no shape": (ONE.replace("    shape: [2, 3]\n", ""), 4, "cases[0]", "has no shape"),
    "half a shape": (ONE.replace("shape: [2, 3]", "n_rows: 2"), 4, "cases[0]", "both n_rows and"),
    "put of two": (ONE + "    x: {put: [[0, 1]]}\n", 8, "cases[0].x.put[0]", "[row, column, value]"),
    "empty list": (ONE + "    dtypes: []\n", 8, "cases[0].dtypes", "nothing would be asked"),
    "dtype without a number": (ONE + "    x: {scale: {float32: 1.0}}\n", 8, "cases[0].x", "Add bfloat16"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMAT)
def test_mistakes_in_the_format(tmp_path: Path, name: str) -> None:
    """Each mistake is found at its line and key, with what to write instead."""
    text, line, key, words = FORMAT[name]
    found = error(tmp_path, text)
    assert found.file == "mine.yaml"
    assert (found.line, words in f"{found.message} {found.hint}") == (line, True), str(found)
    assert found.key.endswith(key), str(found)
    assert found.hint


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("about: x\ncases: []\n", 1, "schema is missing"),
        ("schema: 2\nabout: x\n", 1, "the integer 2"),
        ("schema: true\nabout: x\n", 1, "the boolean true"),
        ("schema: 1\ncases: []\n", 1, "should be a sentence"),
        ("- 1\n", 1, "no mapping at the top level"),
        ("a: \xff\n", 0, "cannot be read"),
    ],
)
def test_mistakes_at_the_top(tmp_path: Path, text: str, line: int, words: str) -> None:
    """The header of a file is checked before its cases."""
    path = tmp_path / "mine.yaml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(BadCase) as caught:
        load([path])
    assert (caught.value.line, words in caught.value.message) == (line, True), str(caught.value)


def test_files_that_are_not_there_or_have_a_name_that_cannot_begin_an_id(tmp_path: Path) -> None:
    """Each with its remedy."""
    with pytest.raises(BadCase, match="No such file"):
        load([tmp_path / "absent.yaml"])
    with pytest.raises(BadCase, match=r"holds no \*\.yaml"):
        load([tmp_path])
    with pytest.raises(BadCase, match="lower case, digits and underscores"):
        load([write(tmp_path, ONE, "My Cases.yaml")])


def test_an_id_that_another_file_has(tmp_path: Path) -> None:
    """Two files of one name in two folders would share ids."""
    (tmp_path / "other").mkdir()
    first, second = write(tmp_path, ONE), write(tmp_path / "other", ONE)
    with pytest.raises(BadCase, match=r"'mine/one' exists already, in mine\.yaml line 4"):
        load([first, second])


# --- combinations that cannot be -----------------------------------------------------------------------

IMPOSSIBLE = {
    "residual given, plain norm only": ("modes: [none], residual: {scale: 2.0}", "add a fused mode"),
    "layout of a residual in mode none": ("layouts: {residual: row_slice}", "mode none has no residual"),
    "layout of no weight": ("weight: none, layouts: {weight: odd_base}", "has no weight"),
    "layout of no out": ("layouts: {out: row_slice}", "out is not asked for"),
    "out in place": ("out: true", "writes y into x"),
    "expanded in place": ("layouts: {x: expanded}", "x is written, so it cannot be expanded"),
    "expanded out": ("modes: [none], out: true, layouts: {out: expanded}", "out is written"),
    "expanded, rows apart": ("modes: [none], layouts: {x: expanded}, x: {row_scales: [1, 2]}", "tells rows"),
    "expanded weight, columns apart": ("layouts: {weight: expanded}", "tells columns apart"),
    "expanded, one row": ("shape: [1, 3], modes: [none], layouts: {x: expanded}", "contiguous for 1 rows"),
    "split_heads of rank 2": ("layouts: {x: split_heads}", "split_heads with rank 2"),
    "split_heads of the weight": ("layouts: {weight: split_heads}", "contiguous for 1 rows"),
    "transposed column": ("shape: [4, 1], layouts: {x: transposed}", "contiguous for hidden_size 1"),
    "int64_stride of many rows": ("shape: [5, 8], layouts: {x: int64_stride}", "2 to 4 rows"),
    "int64_stride without memory": ("layouts: {x: int64_stride}", "needs: [memory:<GiB>]"),
    "put outside": ("x: {put: [[2, 0, 1.0]]}", "has 2 rows, so no row 2"),
    "put beyond the width": ("x: {put: [[0, 3, 1.0]]}", "3 columns, so no column 3"),
    "put without rows": ("shape: [0, 3], x: {put: [[0, 0, 1.0]]}", "has 0 rows"),
    "zero_rows outside": ("x: {zero_rows: [-3]}", "no row -3"),
    "rows of a weight": ("weight: {row_scales: [1.0, 2.0]}", "a weight has one row"),
    "values of no weight": ("weight: none, matrix: {weight.scale: [1.0]}", "the case has none"),
    "offset of no weight": ("weight: none, weight_offset: 1.0", "no weight to offset"),
    "dtype of no weight": ("weight: none, dtypes: [{x: float16, weight: float32}]", "there is none"),
    "residual dtype in mode none": ("dtypes: [{x: float16, residual: float32}]", "mode none has none"),
    "sum too wide in place": (
        "modes: [residual_in_place], dtypes: [{x: float32, residual: float16}]", "does not fit in place",
    ),
    "fault without refuse": ("fault: eps_zero", "go together"),
    "refuse without fault": ("scenario: refuse", "go together"),
    "residual fault in mode none": ("scenario: refuse, fault: residual_rows", "in mode none"),
    "weight fault without weight": ("weight: none, scenario: refuse, fault: weight_2d", "without a weight"),
    "fault that broadcasts": ("shape: [1, 3], scenario: refuse, fault: eps_zero", "at least 2 rows"),
    "devices without gpu": ("scenario: refuse, fault: device_mixed", "needs: [gpu]"),
    "negative omitted eps": ("eps: omitted, scenario: refuse, fault: eps_negative", "negated"),
    "batch of one": ("shape: [1, 3], scenario: batch", "at least 2 rows"),
    "batch of rank 3": ("shape: [2, 2, 3], scenario: batch", "Take rank 2"),
    "chain of two dtypes": (
        "modes: [residual], scenario: chain, dtypes: [{x: float16, residual: float32}]", "one dtype",
    ),
    "core in float32": ("core: true, dtypes: [float32]", "Remove core: true"),
    "core with a layout": ("core: true, layouts: {x: row_slice}", "Remove core: true"),
    "core out of the profile": ("core: true, profiles: [smoke]", "Remove core: true"),
    "shape twice": ("n_rows: 2, hidden_size: 4", "Give either shape or the other two"),
    "shape and matrix": ("matrix: {hidden_size: [3]}", "Give either shape or the other two"),
    "empty expansion": ("matrix: {eps: [1.0]}, exclude: [{eps: 1.0}]", "expands to no run"),
    "exclude that fits nothing": ("matrix: {eps: [1.0]}, exclude: [{eps: 2.0}]", "excludes nothing"),
    "exclude without a matrix": ("include: [{eps: 1.0}], exclude: [{eps: 1.0}]", "no matrix"),
    "a run twice": ("matrix: {eps: [1.0]}, include: [{eps: 1.0}]", "comes out twice"),
}  # fmt: skip


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_impossible_combinations(tmp_path: Path, name: str) -> None:
    """What no implementation could be asked is an error in the file, at the case, with a remedy."""
    keys, words = IMPOSSIBLE[name]
    shape = "" if keys.startswith("shape:") else "shape: [2, 3], "
    with pytest.raises(BadCase) as caught:
        cases(tmp_path, shape + keys)
    found = caught.value
    assert words in f"{found.message} {found.hint}", str(found)
    assert (found.file, found.line, bool(found.hint)) == ("mine.yaml", 4, True)
    assert found.key.startswith("cases[0]")
