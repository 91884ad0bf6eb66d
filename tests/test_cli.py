"""`python -m conformance`: what it writes, what it says, and its exit codes."""

from __future__ import annotations

import subprocess
import sys

import pytest
from reporting_samples import core, failing, header, written, wrong

from conformance import load
from conformance.cli import main
from conformance.reporting.results import Writer, read


def error_of(capsys) -> str:
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert "Traceback" not in err
    return err


def test_report_writes_a_page_and_a_summary(tmp_path, capsys):
    first = written(tmp_path / "a.jsonl", header("mine"), core())
    bad = [*core("theirs"), failing("eps[1]", wrong("TAIL-COLUMNS"), implementation="theirs")]
    other = written(tmp_path / "b.jsonl", header("theirs"), bad)
    assert main(["report", str(first), str(other), "-o", str(tmp_path / "site")]) == 0
    assert "theirs" in (tmp_path / "site" / "index.html").read_text("utf-8")
    assert "| mine | certified |" in (tmp_path / "site" / "summary.md").read_text("utf-8")
    assert "1 of 2 implementations certified." in capsys.readouterr().out


def test_merge_writes_one_file(tmp_path, capsys):
    halves = [
        str(written(tmp_path / f"{i}.jsonl", header("mine", partial=f"shard {i}/2"), core()[i - 1 :: 2]))
        for i in (1, 2)
    ]
    assert main(["merge", *halves, "-o", str(tmp_path / "m.jsonl")]) == 0
    assert "12 verdicts of 1 implementation, 1 certified" in capsys.readouterr().out
    assert read(tmp_path / "m.jsonl").result("mine").certified


def test_a_file_without_a_footer(tmp_path, capsys):
    with Writer(tmp_path / "a.jsonl", header("mine")) as writer:
        writer.verdict(core()[0])
    arguments = ["report", str(tmp_path / "a.jsonl"), "-o", str(tmp_path / "site")]
    assert main(arguments) == 1
    assert "a.jsonl has no footer" in error_of(capsys)
    assert not (tmp_path / "site").exists()
    assert main([*arguments, "--partial"]) == 0
    assert "This run did not end" in (tmp_path / "site" / "index.html").read_text("utf-8")


def test_files_that_do_not_fit_together(tmp_path, capsys):
    first = written(tmp_path / "a.jsonl", header("mine"), core())
    other = written(tmp_path / "b.jsonl", header("mine", suite="9.9"), core())
    assert main(["merge", str(first), str(other), "-o", str(tmp_path / "m.jsonl")]) == 1
    assert "suite '0.1.0' in one file, '9.9' in another" in error_of(capsys)
    assert main(["report", str(first), str(other), "-o", str(tmp_path / "site")]) == 1
    assert "suite" in error_of(capsys)


def test_a_file_that_is_not_there_and_one_that_is_no_result(tmp_path, capsys):
    assert main(["merge", str(tmp_path / "gone.jsonl"), "-o", str(tmp_path / "m.jsonl")]) == 1
    assert "gone.jsonl: No such file" in error_of(capsys)
    (tmp_path / "x.jsonl").write_bytes(b"\xff\xfe\x00")
    assert main(["merge", str(tmp_path / "x.jsonl"), "-o", str(tmp_path / "m.jsonl")]) == 1
    assert "x.jsonl, line 1" in error_of(capsys)


@pytest.mark.parametrize("arguments", [[], ["nope"], ["report"], ["report", "a"], ["cases", "--profile=x"]])
def test_a_wrong_command_line(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert "usage: " in capsys.readouterr().err


def test_requirements_lists_every_one(capsys):
    assert main(["requirements"]) == 0
    out = capsys.readouterr().out
    for one in load.requirements().values():
        assert f"{one.id}  ({one.level}, rank {one.rank})" in out


def test_cases_lists_ids_and_nothing_else(capsys):
    assert main(["cases"]) == 0
    ids = capsys.readouterr().out.splitlines()
    assert ids == [run.id for case in load.load([load.bundled()]) for run in case.runs]
    assert main(["cases", "--profile=smoke"]) == 0
    smoke = capsys.readouterr().out.splitlines()
    assert smoke
    assert set(smoke) < set(ids)


def test_explain_a_run(capsys):
    run = next(run for case in load.load([load.bundled()]) for run in case.runs if run.mode == "residual")
    assert main(["explain", run.id]) == 0
    out = capsys.readouterr().out
    assert out.startswith(run.id + ": ")
    for text in ("mode: residual", "shape: ", "dtypes: x ", *run.requirements):
        assert text in out
    assert f"pytest --impl=module:function --rn-only='{run.id}'" in out


def test_explain_a_requirement(capsys):
    assert main(["explain", "FORMULA-EPS-INSIDE"]) == 0
    assert "asked by: " in capsys.readouterr().out


def test_explain_what_does_not_exist(capsys):
    run = next(run for case in load.load([load.bundled()]) for run in case.runs)
    assert main(["explain", run.id[:-1] + "x]"]) == 1
    assert "Did you mean" in error_of(capsys)
    assert main(["explain", "\x1b[31m\u202e"]) == 1
    assert "\x1b" not in error_of(capsys)


def test_a_wrong_case_file(tmp_path, capsys):
    (tmp_path / "own.yaml").write_text("cases: [}\n")
    assert main(["cases", str(tmp_path / "own.yaml")]) == 1
    assert "own.yaml" in error_of(capsys)


def test_it_imports_no_torch_and_ends_quietly_in_a_pipe():
    program = (
        "import sys; from conformance.cli import main; main(['cases', '--profile=smoke']); "
        "sys.exit('torch' in sys.modules or 'triton' in sys.modules)"
    )
    assert (
        subprocess.run([sys.executable, "-c", program], stdout=subprocess.DEVNULL, check=False).returncode
        == 0
    )
    command = f"{sys.executable} -m conformance cases | head -1"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1
