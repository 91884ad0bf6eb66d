"""What the page, the summary and the command line show of training runs."""

from __future__ import annotations

import re

import pytest
from reporting_samples import REQUIREMENTS, core, failing, header, training, written, wrong

from conformance import load
from conformance.cli import main
from conformance.reporting.accuracy_table import accuracy_rows
from conformance.reporting.columns import columns
from conformance.reporting.matrix import families
from conformance.reporting.page import render
from conformance.reporting.results import Result, read
from conformance.reporting.summary import markdown, terminal

NO_WEIGHT = ("weight_forgotten", "DX-WEIGHT", "equals dx without the weight")


@pytest.fixture
def result(tmp_path) -> Result:
    where = {"tensor": "dx", "index": [3, 17], "actual": 1.5, "expected": 1.0, "low": 0.99, "high": 1.01}
    found = wrong("DX-ACCURACY", NO_WEIGHT, check="dx")
    found = type(found)(found.check, found.requirement, "fail", "dx is wrong", where, found.candidates)
    verdicts = [
        *core("right"),
        training("g/plain[none,bf16]", implementation="right"),
        training("g/retained[none,bf16]", implementation="right", requirements=("GRADMODE-RETAINED",)),
        training("g/mixed[none]", implementation="right", dtypes={"x": "bfloat16", "weight": "float32"}),
        *core("wrong"),
        failing(
            "g/plain[none,bf16]",
            found,
            implementation="wrong",
            gradients=("x", "weight"),
            gradient_conventions={"dweight": ("exact sum", "mixed"), "dx": ()},
            conventions=("one rounding",),
            requirements=("DX-WEIGHT", "DWEIGHT-XHAT"),
        ),
    ]
    return read(written(tmp_path / "a.jsonl", header("right", "wrong"), verdicts))


def text_of(html: str) -> str:
    body = html[html.index("<body>") :]
    text = re.sub(r"<[^>]+>", "", re.sub(r"(?s)<script>.*?</script>", "", body))
    return re.sub(r"\s+", " ", text.replace("&#39;", "'").replace("&gt;", ">"))


def test_the_page_shows_gradients(result):
    text = text_of(render([result], REQUIREMENTS))
    for wanted in (
        "for none (fp16 bf16), with gradients in none (bf16).",
        "dx[3, 17]",
        "is 1.5, expected 1, allowed 0.99 to 1.01",
        "equals dx without the weight",
        "y explained by one rounding; asks for the gradient of x, weight; dweight explained by exact sum or "
        "mixed; dx not explained",
        "none/bf16 x=bf16,weight=fp32: dx and dweight: exact sum",
        "none/bf16: dweight: undetermined between 'exact sum' and 'mixed'",
        "Conventions of the gradients",
        "dx exact sum",
        "1 row for dtype mixes",
    ):
        assert wanted in text, wanted


def test_what_gradients_use_of_their_bounds_is_shown(tmp_path):
    stats = {"dweight_share": 0.25, "dx_share": 0.5, "another": 1.0}
    found = read(written(tmp_path / "a.jsonl", header("mine"), [*core(), training(stats=stats)]))
    text = text_of(render([found], REQUIREMENTS))
    assert "Unexplained row gaindx of bounddweight of boundanother" in text
    names, (row,) = accuracy_rows(found.verdicts)
    assert names == ["dx_share", "dweight_share", "another"]
    assert row.others["dx_share"].text == "0.5"


def test_a_page_without_training_runs_says_nothing_of_gradients(tmp_path):
    text = text_of(render([read(written(tmp_path / "a.jsonl", header("mine"), core()))], REQUIREMENTS))
    assert "Conventions of the gradients" not in text
    assert "gradients not asked" in text


def test_the_families_of_the_backward_stand_after_the_others(result):
    names = [f.name for f in families(columns([result], REQUIREMENTS), REQUIREMENTS)]
    backward = ["Gradient of x", "Gradient of the weight", "How gradients are asked"]
    assert names == ["Sizes", *backward]


def test_the_matrix_counts_a_wrong_gradient(result):
    found = columns([result], REQUIREMENTS)
    rows = {row.id: row for family in families(found, REQUIREMENTS) for row in family.rows}
    assert [cell.state for cell in rows["DX-ACCURACY"].cells] == ["", "fail"]
    assert [cell.words for cell in rows["DX-WEIGHT"].cells] == ["2 pass", "1 failed for another requirement"]


def test_the_summaries_show_gradients(result):
    text = re.sub(r"\s+", " ", terminal([result], requirements=REQUIREMENTS))
    for wanted in (
        "gradients none/bf16: dx and dweight: exact sum runs",
        "violates DX-WEIGHT: The weight multiplies dy once.",
        "diagnosis equals dx without the weight, in 1 of 1 failing run",
        "first g/plain[none,bf16]: dx is wrong (dx[3, 17] is 1.5, expected 1, allowed 0.99 to 1.01)",
    ):
        assert wanted in text, wanted
    assert "- **gradients**: none/bf16: dweight" in markdown([result], requirements=REQUIREMENTS)


def test_explain_a_training_run(capsys):
    runs = [run for case in load.load([load.bundled()]) for run in case.runs if run.trains]
    run = next(r for r in runs if r.mode == "residual" and len(r.upstream) == 2 and len(r.gradients) < 3)
    assert main(["explain", run.id]) == 0
    out = re.sub(r"\n {4}", " ", capsys.readouterr().out)
    wanted = [{"x": "dx of x", "residual": "dresidual of residual", "weight": "dweight of weight"}[g]
              for g in run.gradients]  # fmt: skip
    assert f"gradients: {', '.join(wanted)}\n" in out
    constants = [name for name in run.dtypes if name not in run.gradients]
    assert f"constants: {', '.join(constants)}\n" in out
    assert re.search(r"arriving: dy \(\w+\) of y, dresidual_out \(\w+\) of residual_out\n", out)
    assert "dy: kind " in out
    assert "dresidual_out: kind " in out


def test_explain_a_forward_run_says_nothing_of_gradients(capsys):
    run = next(r for case in load.load([load.bundled()]) for r in case.runs if not r.trains)
    assert main(["explain", run.id]) == 0
    out = capsys.readouterr().out
    assert not re.search(r"(?m)^(gradients|constants|arriving): ", out)
