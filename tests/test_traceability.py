"""Traceability: every line is answered, and on every check and requirement some mutant depends."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from small_runs import Tried, run

from conformance.cli import main
from conformance.errors import BadCase
from conformance.load import requirements
from conformance.model import Finding, Run, Verdict
from conformance.traceability import disabling, record, table
from conformance.traceability.kills import (
    COMMAND,
    FILE,
    WARNED,
    BadRecord,
    Kill,
    outcome,
    read,
    reduced,
    write,
)
from conformance.traceability.links import Links, bundled_runs, checks, links, needless
from conformance.traceability.specification import cited, lines, sections

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "traceability.md"
RULES = requirements()
RUNS = bundled_runs()

CHEAP = 1 << 14
"""Elements of x up to which a recorded run is made again here."""


@pytest.fixture(scope="module")
def kills() -> dict[str, Kill]:
    return read(RUNS)


@pytest.fixture(scope="module")
def tied() -> Links:
    return links()


@pytest.fixture(scope="module")
def without(kills: dict[str, Kill]) -> set[str]:
    """What no recorded mutant depends on."""
    return set(disabling.dependents(kills.values(), RULES, checks()).without)


# --- the specification ----------------------------------------------------------------------------------


def test_every_source_is_a_line_and_is_answered_there() -> None:
    """A requirement that quotes a bullet is among those that stand for it."""
    told = lines()
    for rule in RULES.values():
        places = cited(rule)
        quotes = rule.source.count("rmsnorm: ") + rule.source.count("fused: ")
        assert len(places) == quotes, f"{rule.id}: write the source as \"rmsnorm: Section 3, 'quote'\""
        for text, section, at in places:
            there = [
                one for one in told if (one.text, one.section) == (text, section) and at in (None, one.at)
            ]
            assert any(rule.id in (*one.requirements, *one.structural) for one in there), (
                rule.id,
                section,
                at,
            )


def test_every_structural_requirement_stands_for_a_line() -> None:
    """What no verdict can name is there because the specification says it."""
    answers = {id_ for line in lines() for id_ in line.structural}
    assert {id_ for id_, rule in RULES.items() if rule.needs == "structural"} == answers


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("bullets: 16", "bullets: 17", "bullet 17 has no line"),
        ("bullets: 16", "bullets: 15", "there is no bullet 16"),
        (
            "requirements: [ACCURACY-INTERVAL]",
            "requirements: [ACCURACY-INTERVALS]",
            "Did you mean 'ACCURACY-INT",
        ),
        ("requirements: [ACCURACY-INTERVAL]", "structural: [ACCURACY-INTERVAL]", "does not belong under"),
        ("structural: [KERNEL-NO-DBIAS]", "", "nothing stands for it"),
        (
            "structural: [KERNEL-NO-DBIAS]",
            'untestable: "a"\n        structural: [KERNEL-NO-DBIAS]',
            "is called",
        ),
        ("There is no dbias", "There is no dbias" * 20, "Shorten it to 160"),
    ],
)
def test_a_wrong_specification_is_refused(tmp_path: Path, old: str, new: str, told: str) -> None:
    """A bullet without a line, an unknown requirement, a line without an answer: each says where."""
    text = (ROOT / "conformance" / "traceability" / "specification.yaml").read_text("utf-8")
    assert old in text
    (tmp_path / "wrong.yaml").write_text(text.replace(old, new), "utf-8")
    with pytest.raises(BadCase, match=r"(?s)wrong\.yaml:.*" + told) as error:
        sections(tmp_path / "wrong.yaml")
    assert error.value.hint


# --- the page -------------------------------------------------------------------------------------------


def test_the_page_is_up_to_date(tied: Links) -> None:
    """Generated from what is committed; only changing it there changes the page."""
    told = "run python -m conformance traceability -o docs/traceability.md"
    assert PAGE.read_text("utf-8") == table.table(tied), told


def test_everything_has_a_check_and_a_case(tied: Links) -> None:
    """A requirement that nothing looks at, or that nothing asks, is a sentence and no more."""
    for row in tied.rows:
        if row.requirement.needs != "structural":
            assert row.checks, row.requirement.id
            assert row.cases, row.requirement.id


def test_a_case_for_a_requirement_from_nowhere_is_needless(tied: Links) -> None:
    """It is listed, until a mutant, a report or a line wants what it was written for."""
    assert set(needless(tied)) < {case.id for case in tied.cases}
    row = next(row for row in tied.rows if row.requirement.id == "TAIL-COLUMNS")
    bare = type(row)(row.requirement, (), (), row.cases, row.checks, ())
    rows = tuple(bare if one is row else one for one in tied.rows)
    more = set(needless(replace(tied, rows=rows, kills={}))) - set(needless(replace(tied, kills={})))
    assert more
    written_for = {one.requirements[0] for case in tied.cases if case.id in more for one in case.runs}
    assert "TAIL-COLUMNS" in written_for
    assert not {one.requirement.id for one in rows if one.lines} & written_for


def test_the_command_needs_no_torch(tied: Links, tmp_path: Path) -> None:
    """The table is made of data, so it is made where torch is missing."""
    code = (
        "import sys; sys.modules['torch'] = None; sys.modules['triton'] = None\n"
        "from conformance.cli import main; sys.exit(main(['traceability', '-o', sys.argv[1]]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "p.md")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "p.md").read_text("utf-8") == table.table(tied)


def test_names_go_with_record(capsys: pytest.CaptureFixture[str]) -> None:
    """A name alone would be ignored without a word."""
    assert main(["traceability", "mutant:eps_outside"]) == 2
    assert main(["traceability", "--record", "mutant:eps_outsid"]) == 1
    assert "Did you mean 'mutant:eps_outside'?" in capsys.readouterr().err


# --- disabling --------------------------------------------------------------------------------------------


def test_the_record_is_complete(kills: dict[str, Kill]) -> None:
    """Two mutants of every requirement that has two, as they are labelled now."""
    assert record.out_of_date(kills, record.recordable()) == ([], []), f"run {COMMAND}"


def test_the_record_is_of_one_mind(kills: dict[str, Kill]) -> None:
    """What was found still gives the outcome that was recorded, and every mutant is caught."""
    for kill in kills.values():
        assert kill.outcome, f"{kill.spec} survived; run {COMMAND} {kill.spec}"
        assert outcome(kill.verdicts, RULES) == kill.outcome, f"run {COMMAND} {kill.spec}"


def test_without_any_check_or_requirement_a_mutant_fares_otherwise(without: set[str]) -> None:
    """Each is disabled in turn; what nothing depends on is listed with a reason, and nothing else is."""
    listed = set(disabling.exceptions())
    assert without - listed == set(), "no recorded mutant depends on these"
    assert listed - without == set(), f"these are needless in exceptions.yaml; {COMMAND} removes them"


def test_a_check_that_nothing_depends_on_is_found(kills: dict[str, Kill]) -> None:
    """Without the mutants that only `state` catches, nobody would miss it."""
    left = [k for k in kills.values() if all(f.check != "state" for v in k.verdicts for f in v.findings)]
    assert len(left) < len(kills)
    found = disabling.dependents(left, RULES, checks())
    assert "state" in found.without
    assert "HONEST-STATE" in found.without
    assert "values" not in found.without


def test_what_is_left_of_a_finding() -> None:
    """A requirement that does not exist takes its formulas along; what other formulas say stays."""
    one = run(id="eps/far_over[none,fp32,eps=1e-3]")
    both = (("a", "FORMULA-ROOT", "a"), ("b", "TAIL-COLUMNS", "b"))
    seen = _verdict(one, "fail", Finding("values", "FORMULA-ROOT", "fail", "", {}, both))
    assert outcome([seen], RULES) == "FORMULA-ROOT"
    assert outcome([seen], RULES, without_requirement="FORMULA-ROOT") == "TAIL-COLUMNS"
    assert outcome([seen], RULES, without_check="values") == ""
    warned = _verdict(one, "warn", Finding("invariance", "INVARIANCE-REPEAT", "warn", ""))
    assert outcome([warned], RULES) == WARNED + "INVARIANCE-REPEAT"
    assert outcome([warned], RULES, without_check="invariance") == ""
    crash = _verdict(one, "crash", Finding("completes", "RUN-COMPLETES", "fail", ""))
    assert outcome([crash], RULES, without_check="completes") == "RUN-COMPLETES"
    assert outcome([crash], RULES, without_requirement="RUN-COMPLETES") == ""


def _verdict(one: Run, word: str, *findings: Finding) -> Verdict:
    return Verdict(
        "mutant:a", one.id, one.case, one.mode, one.dtypes, word, findings, requirements=one.requirements
    )


def test_exceptions_that_are_not_needed_are_removed(without: set[str], tmp_path: Path) -> None:
    """The others and the comments stay; where none is left the file says so."""
    file = tmp_path / "exceptions.yaml"
    text = (ROOT / "conformance" / "traceability" / "exceptions.yaml").read_text("utf-8")
    file.write_text(text + "  values: nobody wants it\n", "utf-8")
    assert disabling.prune(without, file) == ["values"]
    assert file.read_text("utf-8") == text
    file.write_text("schema: 1\nabout: a\n\nexceptions:\n  values: nobody wants it\n", "utf-8")
    assert disabling.prune(without, file) == ["values"]
    assert disabling.exceptions(file) == {}


# --- the record -------------------------------------------------------------------------------------------


def test_the_record_comes_back_as_it_was_written(kills: dict[str, Kill], tmp_path: Path) -> None:
    """Byte for byte; a line about a run that is gone is refused, with the remedy."""
    write(kills, tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_bytes() == FILE.read_bytes()
    gone = {id_: one for id_, one in RUNS.items() if id_ != next(iter(kills.values())).runs[0]}
    with pytest.raises(BadRecord, match=r"jsonl:1: KeyError"):
        read(gone, FILE)


def test_what_is_to_be_recorded() -> None:
    """A mutant that is new, has another label or survived, until the requirement has its two."""
    known = {"mutant:a": "DX-FORM", "mutant:b": "DX-FORM", "mutant:c": "DX-FORM", "mutant:d": "DX-ROWS"}
    found = {spec: Kill(spec, breaks, breaks, ()) for spec, breaks in known.items()}
    assert record.out_of_date(found, known) == ([], [])
    assert record.out_of_date({}, known) == (["mutant:a", "mutant:b", "mutant:d"], [])
    assert record.out_of_date({"mutant:c": found["mutant:c"]}, known) == (["mutant:a", "mutant:d"], [])
    survivor = {**found, "mutant:d": Kill("mutant:d", "DX-ROWS", "", ())}
    assert record.out_of_date(survivor, known) == (["mutant:d"], ["mutant:d"])
    assert record.out_of_date(found, {**known, "mutant:d": "DX-WEIGHT"}) == (["mutant:d"], ["mutant:d"])
    assert record.out_of_date({"mutant:gone": found["mutant:a"]}, {}) == ([], ["mutant:gone"])


def test_the_recorder_keeps_what_names_the_fault() -> None:
    """It stops at the second failing run that is named as labelled, and keeps those alone."""
    asked: list[str] = []
    some = [one for one in RUNS.values() if one.mode == "none" and not one.trains][:8]

    def ask(one: Run) -> Verdict:
        asked.append(one.id)
        bad = len(asked) in (2, 4, 6)
        found = [Finding("guards", "MEM-WRITE", "fail", "12 bytes")] if bad else []
        return _verdict(one, "fail" if bad else "pass", *found)

    kill = record._asked("mutant:a", "MEM-WRITE", some, [], ask, RUNS, RULES)
    assert (kill.outcome, len(asked)) == ("MEM-WRITE", 4)
    assert kill.runs == (some[1].id, some[3].id)
    assert kill.verdicts[0] == reduced("mutant:a", kill.verdicts[0], RUNS)
    survivor = record._asked(
        "mutant:a", "MEM-WRITE", some[:1], some[6:], lambda one: _verdict(one, "pass"), RUNS, RULES
    )
    assert (survivor.outcome, survivor.verdicts) == ("", ())


def test_the_recorder_keeps_a_run_to_compare_with() -> None:
    """A refusal is a fault beside the run that was not refused; without that one nothing is named."""
    some = [one for one in RUNS.values() if one.case == "widths/odd" and one.mode == "none"]
    some = [one for one in some if one.dtypes == some[0].dtypes][:3]

    def ask(one: Run) -> Verdict:
        refused = one is some[1]
        verdict = _verdict(one, "unsupported" if refused else "pass")
        return type(verdict)(**{**vars(verdict), "reason": "refused: ValueError" if refused else ""})

    kill = record._asked("mutant:a", "REFUSE-ALIKE", some, [], ask, RUNS, RULES)
    assert kill.outcome == "REFUSE-ALIKE"
    assert len(kill.runs) == 2
    assert some[1].id in kill.runs


def test_recorded_kills_are_found_again(kills: dict[str, Kill], tried: Tried) -> None:
    """A few that the digest of the record chooses, asked anew: the record is not of an older suite."""
    for kill in _chosen(list(kills.values()), 3):
        again = [reduced(kill.spec, tried.bench.verdict(kill.spec, RUNS[id_]), RUNS) for id_ in kill.runs]
        assert [_found(v) for v in again] == [_found(v) for v in kill.verdicts], f"run {COMMAND} {kill.spec}"
        assert outcome(again, RULES) == kill.outcome, f"run {COMMAND} {kill.spec}"


def _found(verdict: Verdict) -> tuple[str, set[tuple[str, str, str]]]:
    return verdict.verdict, {(f.check, f.requirement, f.severity) for f in verdict.findings}


def _chosen(kills: Sequence[Kill], number: int) -> list[Kill]:
    """The first by a digest that changes with the record, of those that are cheap and crash nothing."""
    cheap = [
        k for k in kills if max((RUNS[r].n_rows * RUNS[r].hidden_size for r in k.runs), default=CHEAP) < CHEAP
    ]
    quiet = [k for k in cheap if all(v.verdict != "crash" for v in k.verdicts)]
    salt = FILE.read_bytes()
    return sorted(quiet, key=lambda k: hashlib.sha256(salt + k.spec.encode()).digest())[:number]
