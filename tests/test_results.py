"""The result file: written line by line, whole or refused, joined without losing anything."""

from __future__ import annotations

import getpass
import json
import math
import os
import socket
import tempfile
from dataclasses import fields, replace
from pathlib import Path

import jsonschema
import pytest
from reporting_samples import (
    EPS_OUTSIDE,
    REQUIREMENTS,
    core,
    header,
    make,
    some,
    training,
    written,
    wrong,
)

from conformance.errors import IncompleteReport
from conformance.model import Finding, Verdict
from conformance.reporting import line_keys
from conformance.reporting.conclude import ImplementationResult
from conformance.reporting.jsonlines import LINE_LIMIT
from conformance.reporting.merge import conclude_all
from conformance.reporting.results import Writer, read
from conformance.reporting.scrub import Scrubber, scrub

SCHEMA = Path(__file__).parent.parent / "reports" / "report.schema.json"


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def rewrite(path: Path, change) -> Path:
    changed = change(lines(path))
    path.write_text("".join(json.dumps(line) + "\n" for line in changed), "utf-8")
    return path


# --- one file ------------------------------------------------------------------------------------------


def test_what_was_written_is_read(tmp_path):
    path = written(tmp_path / "new folder" / "a.jsonl", header("mine"), core())
    result = read(path)
    assert list(result.verdicts) == core()
    assert result.result("mine").certified
    assert result.exit == 0
    assert result.entry("mine")["version"] == "1.0"
    assert result.footer == {
        "type": "footer",
        "verdicts": 12,
        "implementations": 1,
        "counts": {**dict.fromkeys(result.footer["counts"], 0), "pass": 12},
        "exit": 0,
        "interrupted": "",
    }


def test_the_file_is_strict_json_and_non_finite_numbers_come_back(tmp_path):
    path = written(tmp_path / "a.jsonl", header("mine"), some())

    def refuse(literal):
        raise AssertionError(f"the literal {literal} is not JSON")

    for line in path.read_text("utf-8").splitlines():
        json.loads(line, parse_constant=refuse)
    stats = next(v.stats for v in read(path).verdicts if v.run == "eps[1]")
    assert math.isnan(stats["bias"])
    assert stats["gain"] == -math.inf
    assert stats["ulp"] == 3.5


def test_each_line_is_on_disk_when_it_was_written(tmp_path):
    writer = Writer(tmp_path / "a.jsonl", header("mine"))
    assert len(lines(writer.path)) == 1
    for count, verdict in enumerate(core(), 2):
        writer.verdict(verdict)
        assert len(lines(writer.path)) == count
    writer.__exit__(None, None, None)


def test_a_run_that_died_leaves_a_file_that_is_refused(tmp_path):
    path = tmp_path / "a.jsonl"
    with Writer(path, header("mine")) as writer:
        writer.verdict(core()[0])
    with pytest.raises(IncompleteReport, match="no footer"):
        read(path)
    shown = read(path, partial=True)
    assert shown.footer is None
    assert len(shown.verdicts) == 1
    assert shown.exit == 1


def test_a_line_cut_off_in_the_middle_is_refused(tmp_path):
    path = written(tmp_path / "a.jsonl", header("mine"), some())
    data = path.read_bytes()
    for size in (len(data) - 1, len(data) - 30, len(data) // 2, 10):
        path.write_bytes(data[:size])
        with pytest.raises(IncompleteReport):
            read(path)
    path.write_bytes(data[: len(data) // 2])
    assert read(path, partial=True).footer is None


@pytest.mark.parametrize(
    ("message", "change"),
    [
        ("the first line", lambda ls: ls[1:]),
        ("verdicts promised", lambda ls: [ls[0], *ls[2:]]),
        ("a second verdict", lambda ls: [ls[0], ls[1], *ls[1:]]),
        ("after the footer", lambda ls: [*ls, ls[1]]),
        ("the first line", lambda ls: [*ls[:-1], ls[0], ls[-1]]),
        ("implementation lines of", lambda ls: [*ls[:-2], ls[-1]]),
        ("footer counts", lambda ls: [*ls[:-1], {**ls[-1], "counts": {"pass": 13}}]),
        ("'seconds' is 'x'", lambda ls: [ls[0], {**ls[1], "seconds": "x"}, *ls[2:]]),
        ("'verdict' is 'fine'", lambda ls: [ls[0], {**ls[1], "verdict": "fine"}, *ls[2:]]),
        ("unknown key 'more'", lambda ls: [ls[0], {**ls[1], "more": 1}, *ls[2:]]),
        (
            "'run' is missing",
            lambda ls: [ls[0], {k: v for k, v in ls[1].items() if k != "run"}, *ls[2:]],
        ),
        ("not among the header", lambda ls: [ls[0], {**ls[1], "implementation": "x"}, *ls[2:]]),
        ("schema 2", lambda ls: [{**ls[0], "schema": 2}, *ls[1:]]),
        ("unknown line type", lambda ls: [ls[0], {"type": "odd"}, *ls[1:]]),
        ("'core' is 1", lambda ls: [ls[0], {**ls[1], "core": 1}, *ls[2:]]),
    ],
)
def test_a_file_that_does_not_add_up_is_refused(tmp_path, message, change):
    path = rewrite(written(tmp_path / "a.jsonl", header("mine"), some()), change)
    with pytest.raises(IncompleteReport, match=message):
        read(path)


@pytest.mark.parametrize(
    "text", ["", "\n", "[]\n", "{}\n", "x\n", '{"type": "header", "a": NaN}\n', "[" * 9000 + "\n"]
)
def test_what_is_no_result_file_is_refused(tmp_path, text):
    path = tmp_path / "a.jsonl"
    path.write_text(text)
    for partial in (False, True):
        with pytest.raises(IncompleteReport):
            read(path, partial=partial)


def test_the_header_is_checked_when_it_is_written(tmp_path):
    for change in ({"colour": "red"}, {"seed": "x"}, {"grade": "loose"}):
        with pytest.raises(ValueError, match=next(iter(change))):
            Writer(tmp_path / "a.jsonl", header("mine", **change))
    with pytest.raises(ValueError, match="'suite' is missing"):
        Writer(tmp_path / "a.jsonl", {k: v for k, v in header("mine").items() if k != "suite"})


def test_every_implementation_needs_its_line(tmp_path):
    with (
        Writer(tmp_path / "a.jsonl", header("mine", "theirs")) as writer,
        pytest.raises(ValueError, match="theirs"),
    ):
        writer.close([ImplementationResult("mine", False, True, "x")], 0)


# --- gradients -----------------------------------------------------------------------------------------


def test_only_training_runs_say_something_about_gradients(tmp_path):
    conventions = {"dx": ("exact sum, a rounded", "mixed"), "dweight": (), "dresidual": ("exact sum",)}
    verdict = training("t[1]", gradients=("x", "weight"), gradient_conventions=conventions)
    path = written(tmp_path / "a.jsonl", header("mine"), [*core(), verdict])
    result = read(path)
    assert result.verdicts[-1] == verdict
    assert result.result("mine").gradient_conventions == {
        "none/bf16": {
            "dx": "undetermined between 'exact sum, a rounded' and 'mixed'",
            "dresidual": "exact sum",
        }
    }
    saying = [line for line in lines(path) if {"gradients", "gradient_conventions"} & set(line)]
    assert [line["type"] for line in saying] == ["verdict", "implementation"]
    assert saying[0]["gradients"] == ["x", "weight"]
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text("utf-8")))
    for line in saying:
        validator.validate(line)


def test_a_file_from_before_the_backward_is_read(tmp_path):
    path = written(tmp_path / "a.jsonl", header("mine"), core())
    assert not any({"gradients", "gradient_conventions"} & set(line) for line in lines(path))
    result = read(path)
    assert all(v.gradients == () and v.gradient_conventions == {} for v in result.verdicts)
    assert result.result("mine").gradient_conventions == {}


@pytest.mark.parametrize("path", sorted(SCHEMA.parent.glob("*/*.jsonl")), ids=lambda path: path.stem)
def test_the_published_files_are_read(path):
    result = read(path)
    assert result.footer is not None
    assert result.verdicts


@pytest.mark.parametrize(
    ("key", "value"),
    [("gradients", "x"), ("gradients", [1]), ("gradient_conventions", {"dx": "exact sum"})],
)
def test_gradients_of_another_type_are_refused(tmp_path, key, value):
    path = written(tmp_path / "a.jsonl", header("mine"), some())
    rewrite(path, lambda ls: [ls[0], {**ls[1], key: value}, *ls[2:]])
    with pytest.raises(IncompleteReport, match=f"'{key}' is"):
        read(path)


def test_conventions_of_gradients_are_cut_last(tmp_path):
    names = tuple(f"exact sum, a rounded, {'rounded weight, ' * 5}{i}" for i in range(32))
    conventions = {"dx": names, "dresidual": names, "dweight": names}
    verdict = training(
        "a[1]",
        verdict="fail",
        reason="r" * 100_000,
        findings=(wrong("MEM-WRITE", check="guard"),) * 60,
        gradient_conventions=conventions,
    )
    with Writer(tmp_path / "a.jsonl", header("mine")) as writer:
        assert writer.verdict(verdict).gradient_conventions == conventions
        more = {"dx": tuple(f"{'x' * 200} {i}" for i in range(200))}
        kept = writer.verdict(replace(verdict, run="a[2]", gradient_conventions=more)).gradient_conventions
        assert kept == {"dx": more["dx"][: len(kept["dx"])]}
        assert len(kept["dx"]) >= 32


# --- long and hostile texts ----------------------------------------------------------------------------


def test_long_texts_and_lists_are_cut_and_say_so(tmp_path):
    finding = wrong("MEM-WRITE", *[EPS_OUTSIDE] * 3, check="guard")
    finding = replace(
        finding, message="m" * 50_000, where={"values": list(range(10_000)), "text": "é" * 9000}
    )
    verdict = make(
        "a[1]",
        verdict="fail",
        reason="r" * 100_000,
        findings=(finding,) * 40,
        not_covered=("n" * 999,) * 200,
    )
    with Writer(tmp_path / "a.jsonl", header("mine")) as writer:
        back = writer.verdict(verdict)
        writer.close(conclude_all(header("mine"), [back], REQUIREMENTS), 1)
    assert all(len(line) < LINE_LIMIT for line in (tmp_path / "a.jsonl").read_bytes().splitlines(True))
    assert read(tmp_path / "a.jsonl").verdicts == (back,)
    assert "more characters]" in back.reason
    assert "more" in back.not_covered[-1]
    assert back.findings[0].requirement == "MEM-WRITE"
    assert back.findings[0].candidates[0][:2] == EPS_OUTSIDE[:2]


def test_failing_findings_outlive_the_others(tmp_path):
    infos = tuple(Finding("c", "SIZE-WIDTH", "info", "i" * 900) for _ in range(300))
    verdict = make("a[1]", verdict="fail", findings=(*infos, wrong("MEM-WRITE", check="guard")))
    with Writer(tmp_path / "a.jsonl", header("mine")) as writer:
        assert [f.requirement for f in writer.verdict(verdict).failed] == ["MEM-WRITE"]


def test_many_implementations_fit(tmp_path):
    names = [f"implementation_{i:03}" for i in range(120)]
    head = header(*names)
    for entry in head["implementations"]:
        entry["recognised"] = ["a sentence that says how the call was read, " * 5] * 6
    path = written(tmp_path / "a.jsonl", head, [v for name in names[:3] for v in core(name)])
    result = read(path)
    assert [entry["name"] for entry in result.header["implementations"]] == names
    assert len(result.implementations) == 120
    assert all(len(line) < LINE_LIMIT for line in path.read_bytes().splitlines(True))


@pytest.mark.parametrize(
    "text",
    ["<script>alert(1)</script>", "a\nb\r\0\x1b[31m", "\u202e\u2028\x85", "\ud800", "é" * 5000],
)
def test_hostile_names_and_texts_come_back(tmp_path, text):
    verdict = make("a[1]", implementation=text, verdict="crash", reason=text, findings=(wrong(text),))
    path = written(tmp_path / "a.jsonl", header(text), [verdict])
    result = read(path)
    assert len(path.read_text("utf-8").splitlines()) == 4
    assert len(result.verdicts) == len(result.implementations) == 1
    if len(text) < 400 and text != "\ud800":
        assert result.verdicts[0].reason == text
        assert result.verdicts[0].implementation == text


# --- nothing of this machine ---------------------------------------------------------------------------


def test_a_file_holds_no_path_and_no_name_of_the_machine(tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_TOKEN", "sesame-open")
    here = [
        os.getcwd(),
        str(tmp_path),
        tempfile.gettempdir() + "/x/y.py",
        json.__file__,
        pytest.__file__,
        __file__,
    ]
    text = "\n".join(f'  File "{p}", line 3' for p in here) + "\nkey sesame-open"
    verdict = make(
        "a[1]",
        verdict="crash",
        reason=text,
        findings=(Finding("c", "R", "fail", text, {"p": text}),),
    )
    head = header("mine", options=[f"--rn-out={tmp_path}/out", "--impl=a:b"])
    head["implementations"][0]["spec"] = f"{tmp_path}/mod.py:f"
    path = written(tmp_path / "a.jsonl", head, [verdict])
    content = path.read_text("utf-8")
    for secret in (*here, str(Path.home()) + "/", "sesame"):
        assert secret not in content
    for name in (socket.gethostname(), getpass.getuser()):
        assert len(name) < 4 or name == "root" or f"/{name}" not in content
    assert "line 3" in content


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('File "/home/kim/work/mypkg.py", line 3', 'File "<cwd>/mypkg.py", line 3'),
        ("/home/kim/.cache/x", "<home>/.cache/x"),
        ("/home/kimberly/x/y.so", "<path>/y.so"),
        ("/home/kim", "<home>"),
        ("/opt/venv/lib/site-packages/torch/nn.py:7", "<site-packages>/torch/nn.py:7"),
        ("see https://example.org/a/b/c.html", "see https://example.org/a/b/c.html"),
        ("eps/near[bf16] and/or 1/2/3", "eps/near[bf16] and/or 1/2/3"),
        (r"C:\Users\kim\x.py is gone", "<path>/x.py is gone"),
        ("kim at bigbox.example", "<user> at <host>"),
        ("kimono of bigbox.examples", "kimono of bigbox.examples"),
        ("'/a/b c'", "'<path>/b c'"),
    ],
)
def test_scrubbing(text, expected):
    paths = {
        "<cwd>": ("/home/kim/work",),
        "<home>": ("/home/kim/",),
        "<site-packages>": ("/opt/venv/lib/site-packages",),
    }
    scrubber = Scrubber(paths, {"kim": "<user>", "bigbox.example": "<host>"})
    assert scrubber.text(text) == expected
    assert scrubber.text(expected) == expected


def test_scrub_takes_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert scrub(f"{tmp_path}/a.py") == "<cwd>/a.py"
    assert scrub("eps outside the root of mean(x*x) + eps") == "eps outside the root of mean(x*x) + eps"


# --- schema --------------------------------------------------------------------------------------------


def test_the_schema_accepts_what_is_written(tmp_path):
    schema = json.loads(SCHEMA.read_text("utf-8"))
    validator = jsonschema.Draft202012Validator(schema)
    jsonschema.Draft202012Validator.check_schema(schema)
    names = ["mine", *(f"implementation_{i:03}" for i in range(60))]
    for line in lines(written(tmp_path / "a.jsonl", header(*names), some())):
        validator.validate(line)
        with pytest.raises(jsonschema.ValidationError):
            validator.validate({**line, "unknown": 1})


@pytest.mark.parametrize(
    "kind", ["header", "more", "verdict", "implementation", "footer", "finding", "entry"]
)
def test_the_schema_has_the_keys_of_the_reader(kind):
    definition = json.loads(SCHEMA.read_text("utf-8"))["$defs"][kind]
    keys = getattr(line_keys, kind.upper())
    assert set(definition["properties"]) == set(keys)
    assert definition["additionalProperties"] is False
    assert set(definition["required"]) == set(keys) - set(line_keys.LEFT_OUT)


@pytest.mark.parametrize(
    ("keys", "kind"),
    [
        (line_keys.VERDICT, Verdict),
        (line_keys.FINDING, Finding),
        (line_keys.IMPLEMENTATION, ImplementationResult),
    ],
)
def test_the_reader_has_the_fields_of_the_model(keys, kind):
    assert set(keys) - {"type"} == {field.name for field in fields(kind)}
