"""The summaries: what a stranger needs is there, and hostile texts stay text."""

from __future__ import annotations

import re

import pytest
from reporting_samples import (
    EPS_OUTSIDE,
    HOSTILE,
    REQUIREMENTS,
    core,
    failing,
    header,
    hostile_result,
    make,
    written,
    wrong,
)

from conformance.model import Finding
from conformance.reporting.results import Result, Writer, read
from conformance.reporting.summary import escape, markdown, terminal

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture
def result(tmp_path) -> Result:
    accepted = Finding("refusal", "REFUSE-EPS", "warn", "eps = -1.0 was accepted silently")
    verdicts = [
        *core("right"),
        make("eps/negative[bf16]", implementation="right", verdict="warn", findings=(accepted,)),
        *core("wrong"),
        failing("eps/near[bf16]", wrong("SIZE-WIDTH", EPS_OUTSIDE), implementation="wrong", n_rows=2),
        failing("eps/far[bf16]", wrong("SIZE-WIDTH", EPS_OUTSIDE), implementation="wrong", n_rows=9),
        make("gpu/only[bf16]", implementation="right", verdict="not run", reason="needs a GPU"),
        make("l/step[bf16]", implementation="right", verdict="unsupported", features=("x:column_step",)),
    ]
    return read(written(tmp_path / "a.jsonl", header("right", "wrong"), verdicts))


def joined(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def test_a_stranger_finds_what_is_needed(result):
    text = joined(terminal([result], requirements=REQUIREMENTS, page="rn-reports/x/report.html"))
    for wanted in (
        "RMSNorm conformance 0.1.0 | profile default | grade strict | cpu, hardware | torch 2.13.0",
        "| Triton 3.9.0",
        "right CERTIFIED",
        "Certified in profile default, grade strict, for none (fp16 bf16)",
        "convention none/bf16 fp16: one rounding",
        "runs 12 pass, 1 warn, 0 fail, 0 crash, 1 unsupported, 1 not run, 0 waived",
        "warned 1 x REFUSE-EPS: eps = -1.0 was accepted silently (eps/negative[bf16])",
        "not run 1 x needs a GPU",
        "wrong NOT CERTIFIED",
        "violates FORMULA-EPS-INSIDE: eps is added inside the root.",
        "diagnosis equals the result with eps outside the root, in 2 of 2 failing runs",
        "first eps/near[bf16]: y[3, 17] is 1.5, but should be 1.0 (SIZE-WIDTH)",
        "reproduce pytest --impl=pkg:wrong --rn-only='eps/near[bf16]'",
        "because 2 runs failed",
        "1 of 2 implementations certified.",
        "Page: rn-reports/x/report.html",
    ):
        assert wanted in text, wanted


def test_lines_are_no_wider_than_100(result):
    lines = terminal([result], requirements=REQUIREMENTS).splitlines()
    assert max(len(line) for line in lines if "reproduce" not in line) <= 100


def test_the_command_is_one_line_to_be_copied(tmp_path):
    run = "eps/near[" + "none," * 30 + "bf16]"
    result = read(written(tmp_path / "a.jsonl", header("mine"), [failing(run, wrong("SIZE-WIDTH"))]))
    lines = terminal([result], requirements=REQUIREMENTS).splitlines()
    assert any(line.endswith(f"pytest --impl=pkg:mine --rn-only='{run}'") for line in lines)


def test_colour_only_where_it_is_asked_for(result):
    plain = terminal([result], requirements=REQUIREMENTS)
    coloured = terminal([result], True, requirements=REQUIREMENTS)
    assert "\x1b" not in plain
    assert "\x1b[1;32mCERTIFIED\x1b[0m" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain


def test_a_value_that_the_message_lacks_is_added(tmp_path):
    finding = Finding("values", "SIZE-WIDTH", "fail", "y is wrong", wrong("x").where)
    result = read(written(tmp_path / "a.jsonl", header("mine"), [failing("a[1]", finding)]))
    text = joined(terminal([result], requirements=REQUIREMENTS))
    assert "y is wrong (y[3, 17] is 1.5, expected 1, allowed 0.99609375 to 1.00390625)" in text


def test_a_crash_says_why(tmp_path):
    crash = make("a[1]", verdict="crash", reason="the worker died of signal 11")
    result = read(written(tmp_path / "a.jsonl", header("mine"), [crash]))
    assert "a[1]: crash: the worker died of signal 11" in joined(
        terminal([result], requirements=REQUIREMENTS)
    )


def test_what_a_run_cannot_certify_is_said(tmp_path):
    head = header("mine", partial="--rn-only=eps*", development=True)
    result = read(written(tmp_path / "a.jsonl", head, core(), interrupted="stopped by the user"))
    text = joined(terminal([result], requirements=REQUIREMENTS))
    assert "Only a part was asked: --rn-only=eps*." in text
    assert "A development run" in text
    assert "This run did not end: stopped by the user." in text
    assert "mine NOT CERTIFIED (nothing failed)" in text
    with Writer(tmp_path / "b.jsonl", header("mine")):
        pass
    dead = read(tmp_path / "b.jsonl", partial=True)
    assert "no footer" in joined(terminal([dead], requirements=REQUIREMENTS))


def test_what_could_not_be_called_is_said(tmp_path):
    head = header("gone")
    head["implementations"][0]["missing"] = "not installed: pip install gone"
    result = read(written(tmp_path / "a.jsonl", head, []))
    text = joined(terminal([result], requirements=REQUIREMENTS))
    assert "gone COULD NOT BE CALLED" in text
    assert "not installed: pip install gone" in text


def test_markdown_has_the_table_and_the_command(result):
    text = markdown([result], requirements=REQUIREMENTS)
    assert "| right | certified |  | 12 | 1 | 0 | 0 | 1 | 1 |" in text
    assert "| wrong | not certified | FORMULA-EPS-INSIDE | 12 | 0 | 2 | 0 | 0 | 0 |" in text
    assert "- **reproduce**: `pytest --impl=pkg:wrong --rn-only='eps/near[bf16]'`" in text


def test_hostile_texts_stay_text_in_the_terminal(tmp_path):
    text = terminal([hostile_result(tmp_path)], requirements=REQUIREMENTS)
    assert not CONTROL.search(text)
    assert "\\x1b[31mred" in text
    assert "U+202E" in text


def test_hostile_texts_stay_text_in_markdown(tmp_path):
    text = markdown([hostile_result(tmp_path)], requirements=REQUIREMENTS)
    assert not CONTROL.search(text)
    outside = re.sub(r"(?m)^- \*\*reproduce\*\*: .*$", "", text)
    for mark in ("<script", "<img", "<svg", "](", "![", "://", "javascript:", "@team", "`"):
        assert mark not in outside, mark
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == 2 + len(HOSTILE)
    assert {row.count("|") for row in rows} == {10}


@pytest.mark.parametrize(
    "text", ["- item", "1. one", "> quote", "# head", "=== line", "--- rule", "    code"]
)
def test_a_text_starts_no_block(text):
    assert not re.match(r"\s*(-|\d+\.|>|#|=)", escape(text))
