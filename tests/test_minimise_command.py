"""Minimising mutants, and `python -m conformance minimise`: what it says and writes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from reporting_samples import core, failing, header, make, written, wrong
from small_runs import Tried, run, training

from conformance import load
from conformance.checks import all_checks
from conformance.cli import main
from conformance.minimise import confirm
from conformance.minimise.asked import Asked
from conformance.minimise.shrink import named, shrink
from conformance.minimise.write import case_text
from conformance.model import Fill, Run
from conformance.reporting import page, summary  # noqa: F401 - imported before pytester snapshots sys.modules
from conformance.reporting.results import Writer, read

pytest_plugins = ("pytester",)
all_checks()

REQUIREMENTS = load.requirements()


# --- real implementations ------------------------------------------------------------------------------

TAIL = Fill(last_column=20.0)


@pytest.mark.parametrize(
    ("spec", "original", "requirement", "least"),
    [
        (
            "mutant:drops_last_column",
            run(129, 4, "residual", fills={"x": TAIL, "residual": Fill(seed=2), "weight": Fill(seed=3)}),
            "TAIL-COLUMNS",
            lambda r: r.n_rows == 1 and 1 < r.hidden_size <= 8,
        ),
        (
            "mutant:row_stride_ignored",
            run(257, 5, layouts={"x": "row_slice", "weight": "odd_base"}, requirements=("STRIDE-X",)),
            "STRIDE-X",
            lambda r: (r.n_rows, r.hidden_size, r.layouts) == (2, 1, {"x": "row_slice"}),
        ),
        (
            "mutant:dx_without_projection",
            training(257, 5, "none", "bfloat16"),
            "DX-PROJECTION",
            lambda r: r.gradients == ("x",) and r.n_rows == 1 and r.hidden_size <= 8,
        ),
        (
            "mutant:dweight_rows_past_32768_lost",
            training(
                2, 32800, requirements=("DWEIGHT-ROWS",),
                fills={"x": Fill(row_scales=(3.0, 0.05, 20.0)), "weight": Fill(seed=3),
                       "dy": Fill(seed=101, mean=1.0, put=((-1, 0, 1e4), (-1, 1, -1e4)))},
            ),
            "DWEIGHT-ROWS",
            lambda r: 32768 < r.n_rows <= 32800 and r.gradients == ("weight",),
        ),
        (
            "mutant:dweight_columns_past_1024_zero",
            training(2049, 3, requirements=("DWEIGHT-COLUMNS",)),
            "",
            lambda r: r.hidden_size == 1025,
        ),
    ],
)  # fmt: skip
def test_a_mutant_is_minimised_and_its_file_fails_alike(
    tried: Tried, tmp_path: Path, spec: str, original: Run, requirement: str, least: Callable[[Run], bool]
) -> None:
    """Down to what it needs; and the run that the loader makes of the text fails the same requirement."""
    first = tried.verdict(spec, original)
    asked_for = named(first, REQUIREMENTS)
    assert asked_for == (requirement or asked_for) != ""
    found = shrink(original, first, lambda r: tried.verdict(spec, r), REQUIREMENTS, limit=600.0)
    small = found.failing[-1][0]
    assert least(small), small
    (tmp_path / "minimised_one.yaml").write_text(case_text(small, []), encoding="utf-8")
    (case,) = load.load([tmp_path / "minimised_one.yaml"])
    assert named(tried.verdict(spec, case.runs[0]), REQUIREMENTS) == asked_for in case.runs[0].requirements


AFTERWARDS = """
    seen = set()


    def rms_norm(x, weight, eps):
        seen.add(x.shape[-1])
        return norm(x, weight, eps) * (2.0 if x.shape[-1] == 48 or 48 in seen else 1.0)
"""


def test_what_fails_only_after_other_calls_is_not_written(
    tried: Tried, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The smallest run is asked again in a new process; where it passes, the next larger one is taken."""
    monkeypatch.syspath_prepend(tried.folder)
    spec = tried.write("afterwards", AFTERWARDS)
    runs = [run(48), run(8)]
    failing_ones = [(r, tried.verdict(spec, r)) for r in runs]
    asked = Asked(runs[0], failing_ones[0][1], spec, "strict", None)
    requirement = named(failing_ones[0][1], REQUIREMENTS)
    assert named(failing_ones[1][1], REQUIREMENTS) == requirement != ""
    how = confirm.How("cpu", 60.0, REQUIREMENTS)
    found = confirm.confirmed(asked, how, requirement, failing_ones)
    assert found is not None
    assert (found[0], found[2]) == (runs[0], ["fails only after other calls in the same process"])
    assert confirm.confirmed(asked, how, "MEM-WRITE", failing_ones[:1]) is None


# --- the command ---------------------------------------------------------------------------------------

ASKED = "eps/near[none,fp32,eps=1e-3,x.scale=0.032]"
PASSED = "eps/near[none,bf16,eps=1e-3,x.scale=0.032]"


def one_file(folder: Path, *specs: str, requirement: str = "TAIL-COLUMNS", **head: object) -> str:
    """A result file in which each implementation failed ASKED and passed PASSED."""
    entries = [{"name": s.partition(":")[2] or s, "spec": s, "modes": ["none"]} for s in specs]
    verdicts = [
        v
        for e in entries
        for v in (
            failing(ASKED, wrong(requirement, check="guards"), implementation=e["name"]),
            make(PASSED, implementation=e["name"]),
        )
    ]
    with Writer(folder / "r.jsonl", {**header(), "implementations": entries, **head}) as writer:
        for one in verdicts:
            writer.verdict(one)
    return str(folder / "r.jsonl")  # without a footer: a partial file is enough


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What the command says where it writes nothing: on stderr, exit code 1."""
    assert main(["minimise", *arguments]) == 1
    out, err = capsys.readouterr()
    assert (out, "Traceback" in err) == ("", False)
    assert not list(Path.cwd().glob("minimised_*.yaml"))
    return err


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((ASKED[:-1] + "0]",), ("has no verdict on", f"Did you mean {ASKED}?")),
        (("nothing",), ("has no verdict on 'nothing'", f"What failed in it: {ASKED}.")),
        ((PASSED,), ("is 'pass' for mine in this file", "should be 'fail' or 'crash'", ASKED)),
        ((ASKED, "-o", "no/mine.yaml"), ("there is no folder 'no' for mine.yaml",)),
        ((ASKED, "-o", "Mine.yaml"), ("'Mine.yaml'", "lower case")),
        ((ASKED, "-o", "eps.yaml"), ("eps.yaml is the name of a bundled case file",)),
        ((ASKED, "-o", "there.yaml"), ("there.yaml exists already, and it is not overwritten",)),
    ],
)
def test_what_cannot_be_minimised_says_why(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], told: tuple[str, ...]
) -> None:
    """An unknown run, one that passed, a bad place: nothing is asked or written."""
    (here / "there.yaml").write_text("mine\n")
    err = refused(capsys, one_file(here, "pkg:mine"), *arguments)
    assert all(words in err for words in told), err
    assert (here / "there.yaml").read_text() == "mine\n"


def test_a_result_file_that_cannot_be_used(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Missing, no result file, without a spec, or of a case that is not here."""
    assert "gone.jsonl: No such file" in refused(capsys, "gone.jsonl", ASKED)
    (here / "x.jsonl").write_bytes(b"\xff\xfe\x00\n")
    assert "x.jsonl, line 1" in refused(capsys, "x.jsonl", ASKED)
    for spec in ("", "<cwd>/mine:f"):
        assert "Add --impl=MODULE:ATTRIBUTE." in refused(capsys, one_file(here, spec), ASKED)
    assert "should be a number" in refused(
        capsys, one_file(here, "pkg:mine", options=["--rn-weight-offset=one"]), ASKED
    )
    own = written(
        here / "own.jsonl", header("mine"), [failing("own/one[none,fp32]", wrong("STRIDE-X")), *core()]
    )
    assert "--cases PATH" in refused(capsys, str(own), "own/one[none,fp32]")


def test_one_of_several_implementations_is_chosen(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By --impl; an unknown one is told, with the one that was meant."""
    file = one_file(here, "pkg:first", "pkg:second")
    err = refused(capsys, file, ASKED)
    assert "failed for 2 of 2 implementations" in err
    assert "Choose one with --impl=SPEC: pkg:first, pkg:second." in err
    assert "Did you mean --impl=pkg:second?" in refused(capsys, file, ASKED, "--impl=pkg:secnd")
    assert "--impl=pkg:second: there is no module 'pkg'" in refused(capsys, file, ASKED, "--impl=pkg:second")


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("variant:pairwise_sum", "is 'pass' now, but failed TAIL-COLUMNS in the result file"),
        ("mutant:eps_squared", "fails FORMULA-EPS-HONOURED now, but TAIL-COLUMNS in the result file"),
        ("mutant:drops_last_column", "has no call of mode none, only of residual"),
    ],
)
def test_a_failure_that_is_not_seen_again(
    here: Path, capsys: pytest.CaptureFixture[str], spec: str, told: str
) -> None:
    """Nothing is made up: the run passes now, fails otherwise, or cannot be asked."""
    assert told in refused(capsys, one_file(here, spec), ASKED, "--device=cpu")


def test_the_file_that_is_written_fails_under_pytest(
    pytester: pytest.Pytester, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From a result file to a case file to the plugin, which names the same requirement for it."""
    file = one_file(here, "mutant:eps_squared", requirement="FORMULA-EPS-HONOURED")
    assert main(["minimise", file, ASKED, "-o", "small.yaml", "--device=cpu"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"{ASKED} of mutant:eps_squared fails FORMULA-EPS-HONOURED\n")
    for words in ("4 -> 1", "257 -> 1", "nothing smaller fails it", "y[0, 0] is ", "written: small.yaml"):
        assert words in out
    command = "pytest --impl=mutant:eps_squared --rn-device=cpu small.yaml"
    assert out.endswith(f"\n{command}\n")
    assert "runs tried; fails: none 1 x 1 fp32" in err
    text = (here / "small.yaml").read_text("utf-8")
    assert f"# Run it: {command}\n" in text
    assert "# Implementation: mutant:eps_squared\n" in text
    assert str(here) not in text
    assert main(["cases", "small.yaml"]) == 0
    assert re.fullmatch(r"small/near\[none,fp32\]\n", capsys.readouterr().out)

    ran = pytester.runpytest_inprocess("-p", "conformance.plugin", *command.split()[1:], "--rn-out=again")
    assert ran.ret == 1
    (result,) = read(here / "again" / "results.jsonl").implementations
    assert result.named == ("FORMULA-EPS-HONOURED",)
    assert result.counts["fail"] == sum(result.counts.values()) == 1
