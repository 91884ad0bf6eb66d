"""The plugin with --impl: what a stranger types in a folder of their own, and what they get."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import pytest
from case_text import HEAD

from conformance import load  # noqa: F401 - imported before pytester snapshots sys.modules
from conformance.certification import Certification  # noqa: F401
from conformance.checks import all_checks
from conformance.reporting import page, summary  # noqa: F401 - imported before pytester snapshots sys.modules
from conformance.reporting.results import Result, read

pytest_plugins = ("pytester",)
all_checks()

RIGHT = """
import torch


def f(x, residual, weight, eps=1e-6):
    s = x.float() + residual.float()
    y = s * torch.rsqrt(s.square().mean(-1, keepdim=True) + eps) * weight.float()
    return y.to(x.dtype), s.to(x.dtype)


def eps_outside(x, weight, eps=1e-6):
    x32 = x.float()
    return (x32 / (x32.square().mean(-1, keepdim=True).sqrt() + eps) * weight.float()).to(x.dtype)


def unknown(x, weight, eps, frobnicate):
    return x


declared_nothing = 3
"""
OWN_TEST = "def test_of_the_user():\n    raise AssertionError('a certification runs its own cases only')\n"
OWN_INI = "[pytest]\ntestpaths = own\naddopts = -ra\n"
MINE = (
    "cases:\n  - {id: one, about: a wrong kernel, requirements: [FORMULA-WEIGHT], shape: [2, 3], "
    "dtypes: [float32], modes: [residual]}\n"
)
ABSENT = ("liger",) if importlib.util.find_spec("liger_kernel") is None else ()
"""An adapter whose package is not here, where there is one."""
PLUGIN = ("-p", "conformance.plugin")


@pytest.fixture
def theirs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stranger's folder, a space in its path: an implementation, a test, a pytest.ini and cases."""
    (folder / "mypkg.py").write_text(RIGHT)
    (folder / "pytest.ini").write_text(OWN_INI)
    (folder / "own").mkdir()
    (folder / "own" / "test_own.py").write_text(OWN_TEST)
    (folder / "cases").mkdir()
    (folder / "cases" / "theirs.yaml").write_text(HEAD + MINE)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    return folder


def files(folder: Path) -> dict[str, str]:
    """Every file of a folder with its text, rn-reports left out."""
    return {
        str(p.relative_to(folder)): p.read_text()
        for p in sorted(folder.rglob("*"))
        if p.is_file() and p.relative_to(folder).parts[0] != "rn-reports"
    }


def result(folder: Path) -> Result:
    """The one result file of a folder."""
    (file,) = folder.glob("rn-reports/*/results.jsonl")
    return read(file)


def test_a_certification_in_a_strangers_folder(pytester: pytest.Pytester, theirs: Path) -> None:
    """--impl without paths runs the bundled cases and only those, and adds rn-reports and nothing else.

    With -n 2 it gives the same result lines.
    """
    before = files(theirs)
    asked = (*PLUGIN, "--impl=mypkg:f", "--rn-profile=smoke", "--rn-device=cpu")
    ran = pytester.runpytest_inprocess(*asked)
    assert ran.ret == 0
    serial = result(theirs)
    ran.assert_outcomes(passed=len(serial.verdicts))
    ran.stdout.fnmatch_lines(["*RMSNorm conformance*", "*mypkg:f*", "*Page: rn-reports/*report.html"])
    assert files(theirs) == before

    lines = [json.loads(t) for t in next(theirs.glob("rn-reports/*/results.jsonl")).read_text().splitlines()]
    kinds = [line["type"] for line in lines]
    assert kinds == ["header", *["verdict"] * len(serial.verdicts), "implementation", "footer"]
    assert (lines[0]["profile"], lines[0]["development"], lines[0]["partial"]) == ("smoke", False, "")
    assert {v["run"].split("/")[0] for v in lines[1:-2]} == {"smoke"}
    assert lines[-1]["exit"] == 0
    assert "mypkg:f" in next(theirs.glob("rn-reports/*/report.html")).read_text()
    assert str(theirs) not in json.dumps(lines), "a result names no folder of this machine"

    assert pytester.runpytest_inprocess(*asked, "-n", "2", "--rn-out=parallel").ret == 0
    parallel = read(theirs / "parallel" / "results.jsonl")

    def comparable(one: Result) -> list:
        return sorted((replace(v, seconds=0.0) for v in one.verdicts), key=lambda v: v.run)

    assert comparable(parallel) == comparable(serial)
    assert parallel.implementations == serial.implementations
    assert parallel.footer == serial.footer


def test_only_and_own_cases(pytester: pytest.Pytester, theirs: Path) -> None:
    """--rn-cases adds the user's file, --rn-only narrows to it: a development run, partial, exit 0."""
    ran = pytester.runpytest_inprocess(
        *PLUGIN, "--impl=mypkg:f", "--rn-cases=cases", "--rn-only=theirs/*[residual,*", "-v"
    )
    assert ran.ret == 0
    ran.assert_outcomes(passed=1)
    (verdict,) = result(theirs).verdicts
    assert verdict.case == "theirs/one"
    header = result(theirs).header
    assert header["development"]
    assert header["partial"] == "--rn-only=theirs/*[residual,*"
    assert not result(theirs).implementations[0].certified


def test_a_wrong_implementation_is_told_what_is_wrong(pytester: pytest.Pytester, theirs: Path) -> None:
    """Exit code 1; the violated formula, the wrong element, and a command that asks that one run again."""
    ran = pytester.runpytest_inprocess(*PLUGIN, "--impl=mypkg:eps_outside", "--rn-only=eps/near*fp32*", "-x")
    assert ran.ret == 1
    ran.stdout.fnmatch_lines(["*mypkg:eps_outside*NOT CERTIFIED*", "*FORMULA-EPS-INSIDE*"])
    shown = ran.stdout.str()
    assert "should be" in shown
    assert "--impl=mypkg:eps_outside" in shown
    assert "--rn-only=" in shown
    one = result(theirs)
    assert len(one.verdicts) == 1, "-x stops after the first"
    assert one.footer["interrupted"] == "stopped early"
    assert one.implementations[0].named[0] == "FORMULA-EPS-INSIDE"


def test_the_command_that_asks_again_names_an_own_case_file(pytester: pytest.Pytester, theirs: Path) -> None:
    """Without it nothing would be asked; the folder it lies in is not told."""
    mine = MINE.replace("modes: [residual]", "modes: [none]")
    (theirs / "eps.yaml").write_text(HEAD + mine)  # a bundled file has this name, but no such case
    asked = ("--impl=mypkg:wrong", f"--rn-cases={theirs / 'eps.yaml'}", "--rn-only=eps/one*")
    (theirs / "mypkg.py").write_text(f"{RIGHT}\n\ndef wrong(x, weight, eps=1e-6):\n    return x * 2\n")
    ran = pytester.runpytest_inprocess(*PLUGIN, *asked)
    assert ran.ret == 1
    again = [line for line in ran.stdout.lines if "pytest --impl=mypkg:wrong" in line]
    assert again
    assert all("--impl=mypkg:wrong --rn-cases=eps.yaml --rn-only='eps/one[none,fp32]'" in a for a in again)


def test_what_cannot_be_called_fails_with_its_remedy(pytester: pytest.Pytester, theirs: Path) -> None:
    """An unknown module, name or parameter, and an absent package, fail with message and remedy."""
    specs = ("mypkgs:f", "referense", "mypkg:unknown", *ABSENT)
    ran = pytester.runpytest_inprocess(*PLUGIN, *(f"--impl={s}" for s in specs), "--rn-only=smoke/wired*")
    assert ran.ret == 1
    shown = " ".join(ran.stdout.str().split())
    assert "there is no module 'mypkgs'" in shown
    assert "there is no adapter of this name" in shown
    assert "Did you mean --impl=reference?" in shown
    assert 'Parameter("frobnicate", "fixed", value=None)' in shown, "the lines that would declare it"
    found = result(theirs)
    assert [one.certified for one in found.implementations] == [False] * len(specs)
    missing = {entry["spec"]: entry["missing"] for entry in found.header["implementations"]}
    assert all(missing.values())
    for spec in ABSENT:
        assert missing[spec].startswith("not installed")
        assert "pip install" in shown
    assert found.footer["exit"] == 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("cases:\n  - {id: one, layout: {x: row_slice}}\n", ("mine.yaml:4: cases[0].layout:", "'layouts'?")),
        ("cases:\n  - {id: one, eps: 1e-6}\n", ("mine.yaml:4: cases[0].eps:", "1.0e-6")),
    ],
)
def test_a_mistake_in_a_case_file_is_a_usage_error(
    pytester: pytest.Pytester, theirs: Path, text: str, told: tuple[str, ...]
) -> None:
    """Exit code 4 with file, line, key and remedy, before anything is run or written."""
    (theirs / "mine.yaml").write_text(HEAD + text)
    before = files(theirs)
    ran = pytester.runpytest_inprocess(*PLUGIN, "--impl=mypkg:f", "--rn-cases=mine.yaml")
    assert ran.ret == 4
    shown = ran.stdout.str() + ran.stderr.str()
    for words in told:
        assert words in shown
    assert files(theirs) == before
    assert not (theirs / "rn-reports").exists()


def test_a_case_path_that_is_missing_is_a_usage_error(pytester: pytest.Pytester, theirs: Path) -> None:
    """--rn-cases of nothing stops with exit code 4 and says which path."""
    ran = pytester.runpytest_inprocess(*PLUGIN, "--impl=mypkg:f", "--rn-cases=nowhere.yaml")
    assert ran.ret == 4
    assert "nowhere.yaml" in ran.stdout.str() + ran.stderr.str()


def test_with_paths_the_paths_decide(pytester: pytest.Pytester, theirs: Path) -> None:
    """Paths beside --impl run what is there, the user's cases and tests, and no bundled case."""
    ran = pytester.runpytest_inprocess(*PLUGIN, "--impl=mypkg:f", "own", "cases/theirs.yaml")
    ran.assert_outcomes(passed=1, failed=1)
    assert ran.ret == 1
    assert [v.case for v in result(theirs).verdicts] == ["theirs/one"]
    assert result(theirs).header["partial"] == "paths were given"
