"""The page: self-contained, complete, and nothing in it acts but its own script; tried in Chromium too."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from reporting_samples import (
    EPS_OUTSIDE,
    HOSTILE,
    NO_TAIL,
    REQUIREMENTS,
    core,
    failing,
    header,
    hostile_result,
    make,
    some,
    written,
    wrong,
)

from conformance.errors import DifferentCases
from conformance.model import Finding
from conformance.reporting.accuracy_table import accuracy_rows
from conformance.reporting.columns import columns, differences, side_by_side
from conformance.reporting.matrix import alone, families
from conformance.reporting.page import render, write_page
from conformance.reporting.results import Result, Writer, read
from conformance.reporting.showing import first_failure, visible

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


class Outline(HTMLParser):
    """Collects tags with their attributes, and the text outside style and script."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._inside: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag in ("style", "script"):
            self._inside.append(tag)

    def handle_endtag(self, tag):
        if self._inside and tag == self._inside[-1]:
            self._inside.pop()

    def handle_data(self, data):
        if not self._inside:
            self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture
def result(tmp_path) -> Result:
    verdicts = [
        *core("right"),
        *core("wrong"),
        failing("eps/near[bf16]", wrong("SIZE-WIDTH", EPS_OUTSIDE), implementation="wrong"),
        make("odd/warned[bf16]", implementation="right", verdict="warn", findings=(warning(),)),
        make("gpu/only[bf16]", implementation="right", verdict="not run", reason="needs a GPU"),
        make("l/step[bf16]", implementation="right", verdict="unsupported", features=("x:column_step",)),
    ]
    head = header("right", "wrong")
    head["implementations"][0]["homepage"] = "https://example.org/right"
    return read(written(tmp_path / "a.jsonl", head, verdicts))


def warning():
    return Finding("layout", "STRIDE-X", "warn", "a gap was read")


def test_the_page_has_everything(result):
    page = Outline(render([result], REQUIREMENTS)).text
    for text in (
        "Certified in profile default, grade strict, for none (fp16 bf16)",
        "Not certified: violates FORMULA-EPS-INSIDE",
        "equals the result with eps outside the root, in 1 of 1 failing run",
        "y[3, 17] is 1.5, but should be 1.0",
        "expected 1, allowed 0.99609375 to 1.00390625",
        "pytest --impl=pkg:wrong --rn-only='eps/near[bf16]'",
        "needs a GPU",
        "no reason was recorded",
        "a gap was read",
        "one rounding",
        "12 pass, 0 warn, 1 fail, 0 crash, 0 unsupported, 0 not run, 0 waived",
        "sha256:0123",
        "2.13.0",
    ):
        assert text in page, text
    assert page.index("Certified in profile") < page.index("Every hidden_size is right.")


def test_the_page_needs_nothing_from_outside(result):
    html = render([result], REQUIREMENTS)
    outline = Outline(html)
    for tag, attributes in outline.tags:
        assert tag not in ("iframe", "object", "embed", "img", "base", "audio", "video")
        assert "src" not in attributes
        assert not any(name.startswith("on") for name in attributes), attributes
        assert "style" not in attributes, "the page's policy forbids it"
    assert [a["href"] for a in outline.all("link")] == ["data:,"]
    assert "@import" not in html
    assert "url(" not in html
    links = {a["href"] for a in outline.all("a") if not a["href"].startswith("#")}
    assert links == {"https://example.org/right"}
    ids = {a["id"] for _, a in outline.tags if "id" in a}
    assert all(a["href"][1:] in ids for a in outline.all("a") if a["href"].startswith("#"))


def test_the_matrix_can_be_read_without_colour(result):
    page = Outline(render([result], REQUIREMENTS))
    cells = [a for a in page.all("td") if "cell" in (a.get("class") or "")]
    assert cells
    assert all(a["title"] for a in cells)
    assert "✗ 1" in page.text
    assert "✓ 13/15" in page.text


def test_matrix_counts(result):
    found = columns([result], REQUIREMENTS)
    rows = {row.id: row for family in families(found, REQUIREMENTS) for row in family.rows}
    right, wrong_ = rows["SIZE-WIDTH"].cells
    assert right.counts == {"pass": 13, "not run": 1, "unsupported": 1}
    assert wrong_.counts == {"pass": 12, "fail": 1}
    assert (wrong_.state, right.state) == ("fail", "pass")
    assert rows["STRIDE-X"].cells[0].words == "1 warn"
    assert rows["STRIDE-X"].cells[1].words == "not asked"
    assert alone(families(found, REQUIREMENTS)) == [("SIZE-WIDTH", 1)]


def test_a_run_that_failed_for_another_requirement_shows_nothing_about_this_one(tmp_path):
    verdict = failing("a[1]", wrong("MEM-WRITE", check="guard"))
    found = columns([read(written(tmp_path / "a.jsonl", header("mine"), [verdict]))], REQUIREMENTS)
    cells = {row.id: row.cells[0] for family in families(found, REQUIREMENTS) for row in family.rows}
    assert cells["MEM-WRITE"].state == "fail"
    assert cells["MEM-WRITE"].named
    assert cells["SIZE-WIDTH"].words == "1 failed for another requirement"


def test_a_run_that_did_not_end_is_shown_as_a_part(tmp_path):
    with Writer(tmp_path / "a.jsonl", header("mine")) as writer:
        writer.verdict(core()[0])
    page = Outline(render([read(tmp_path / "a.jsonl", partial=True)], REQUIREMENTS)).text
    assert "This run did not end." in page
    assert "Not certified" in page


def test_no_implementation_and_no_verdict(tmp_path):
    result = read(written(tmp_path / "a.jsonl", header(), []))
    assert "hold no implementation" in render([result], REQUIREMENTS)
    head = header("gone")
    head["implementations"][0]["missing"] = "not installed"
    assert "Could not be called" in render([read(written(tmp_path / "b.jsonl", head, []))], REQUIREMENTS)


def test_many_failures_are_shown_in_part_and_listed_all(tmp_path):
    verdicts = [failing(f"eps/near[{i:04}]", wrong("SIZE-WIDTH", EPS_OUTSIDE)) for i in range(400)]
    html = render([read(written(tmp_path / "a.jsonl", header("mine"), verdicts))], REQUIREMENTS)
    assert len([a for a in Outline(html).all("details") if a.get("class") == "run"]) == 150
    assert "250 further runs" in html
    assert all(f"eps/near[{i:04}]" in html for i in range(400))


def test_the_page_replaces_an_older_one(tmp_path, result):
    path = tmp_path / "site" / "index.html"
    assert write_page([result], path, REQUIREMENTS) == path
    path.write_text("old")
    write_page([result], path, REQUIREMENTS)
    assert path.read_text("utf-8").startswith("<!doctype html>")
    assert [p.name for p in path.parent.iterdir()] == ["index.html"]


def test_the_same_results_give_the_same_page(result):
    assert render([result], REQUIREMENTS) == render([result], REQUIREMENTS)


STATS = {
    "count": 1000.0,
    "bias": 0.3,
    "bias_excess": 0.01,
    "bias_allowed": 0.1,
    "bias_ok": 1.0,
    "gain": 0.5,
    "gain_row": 3.0,
    "gain_excess": -0.0002,
    "gain_allowed": 0.001,
    "ulp_max": 0.75,
    "ulp_le_0.5": 990.0,
    "ulp_le_1": 10.0,
    "ulp_le_4": 0.0,
    "ulp_more": 0.0,
    "other": 7.0,
}


def test_accuracy_is_taken_over_all_runs():
    more = {**STATS, "bias_excess": -0.02, "ulp_max": 5.0, "ulp_le_0.5": 900.0, "ulp_more": 100.0}
    verdicts = [make("a[1]", stats=STATS), make("a[2]", stats=more), make("a[3]")]
    names, (row,) = accuracy_rows(verdicts)
    assert names == ["other"]
    assert (row.key, row.runs, row.elements) == ("none/bf16", 2, 2000)
    assert [edge for edge, _ in row.histogram] == ["≤ 0.5", "≤ 1", "> 4"]
    assert sum(share for _, share in row.histogram) == pytest.approx(1.0)
    assert row.histogram[2][1] == pytest.approx(100 / 2010)
    assert (row.ulp_max.text, row.ulp_max.run) == ("5", "a[2]")
    assert (row.bias.text, row.bias.run) == ("-0.02 of ±0.1 ULP", "a[2]")
    assert (row.gain.text, row.gain.run) == ("-0.0002 of ±0.001", "a[1]")
    assert row.others["other"].text == "7"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_statistic_that_is_no_number_is_shown_as_the_worst(value):
    verdicts = [make("a[1]", stats=STATS), make("a[2]", stats=dict.fromkeys(STATS, value))]
    _, (row,) = accuracy_rows(verdicts)
    assert row.elements == 1000
    assert row.ulp_max.run == row.bias.run == "a[2]"
    assert row.ulp_max.text in ("nan", "inf", "-inf")


def test_the_first_failure_tells_formulas_apart_and_is_plain():
    def seen(run, actual, *candidates, **changes):
        where = {"actual": actual, "expected": 1.0}
        return failing(run, replace(wrong("SIZE-WIDTH", *candidates), where=where), **changes)

    verdicts = [
        seen("small[1]", 3.0, EPS_OUTSIDE, NO_TAIL, n_rows=1, hidden_size=1),
        seen("tiny_error[1]", 1.0001, EPS_OUTSIDE, n_rows=1, hidden_size=2),
        seen("plain[1]", 1.9, EPS_OUTSIDE, n_rows=4),
        seen("plain[2]", 1.9, EPS_OUTSIDE, n_rows=3),
        seen("unrelated[1]", 9.0, n_rows=1, hidden_size=1),
        make("broken[1]", verdict="broken", reason="the suite failed"),
    ]
    for order in (verdicts, verdicts[::-1]):
        verdict, finding = first_failure(order, ("FORMULA-EPS-INSIDE",))
        assert verdict.run == "plain[2]"
        assert finding.candidates == (EPS_OUTSIDE,)
    assert first_failure([make()], ()) is None
    assert first_failure(verdicts[-1:], ()) == (verdicts[-1], None)


# --- several results -----------------------------------------------------------------------------------


def test_one_implementation_on_two_devices_stands_side_by_side(tmp_path):
    cpu = written(tmp_path / "1.jsonl", header("mine"), core())
    gpu_verdicts = [*core()[1:], failing(core()[0].run, wrong("SIZE-WIDTH"), core=True)]
    gpu = written(tmp_path / "2.jsonl", header("mine", device="NVIDIA H200"), gpu_verdicts)
    shown = side_by_side([read(cpu), read(gpu)], REQUIREMENTS)
    assert len(shown) == 2
    found = columns(shown, REQUIREMENTS)
    assert [column.label for column in found] == ["mine (cpu)", "mine (NVIDIA H200)"]
    (difference,) = differences(found)
    assert [v.verdict for _, v in difference.verdicts] == ["pass", "fail"]
    assert "answers differently" in render(shown, REQUIREMENTS)


def test_shards_and_others_become_one_result(tmp_path):
    halves = [
        read(written(tmp_path / f"{i}.jsonl", header("mine", partial=f"shard {i}/2"), core()[i - 1 :: 2]))
        for i in (1, 2)
    ]
    (one,) = side_by_side(halves, REQUIREMENTS)
    assert one.result("mine").certified


def test_other_cases_do_not_stand_side_by_side(tmp_path):
    first = read(written(tmp_path / "1.jsonl", header("mine"), core()))
    other = read(written(tmp_path / "2.jsonl", header("mine", cases_digest="sha256:9"), core()))
    with pytest.raises(DifferentCases, match="cases digest"):
        side_by_side([first, other], REQUIREMENTS)


# --- hostile texts -------------------------------------------------------------------------------------


def test_hostile_texts_stay_text(tmp_path):
    html = render([hostile_result(tmp_path)], REQUIREMENTS)
    outline = Outline(html)
    assert len(outline.all("script")) == len(outline.all("style")) == 1
    assert not {tag for tag, _ in outline.tags} & {"img", "svg", "iframe", "base"}
    assert all(re.match("#|https?://", a["href"]) for a in outline.all("a"))
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]", html)
    for text in HOSTILE:
        assert visible(text, lines=True) in outline.text, text
    assert "\\x1b[31mred" in outline.text
    assert "U+202E" in outline.text


# --- in a browser --------------------------------------------------------------------------------------


def browse(page: Path, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [CHROMIUM, *QUIET, f"--user-data-dir={folder / 'profile'}", *options, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium is on the PATH; install the package chromium to run this"
)


@needs_chromium
def test_chromium_runs_no_hostile_text(tmp_path):
    page = write_page([hostile_result(tmp_path)], tmp_path / "p.html", REQUIREMENTS)
    found = browse(page, tmp_path, "--dump-dom", "--enable-logging=stderr", "--virtual-time-budget=3000")
    outline = Outline(found.stdout)
    assert "<title>RMSNorm conformance report</title>" in found.stdout
    assert len(outline.all("script")) == 1
    assert not {tag for tag, _ in outline.tags} & {"img", "svg", "iframe", "base"}
    for text in HOSTILE:
        assert visible(text, lines=True) in outline.text, text
    assert not re.search(r"CONSOLE|Content Security Policy|Uncaught", found.stderr), found.stderr


@needs_chromium
def test_chromium_runs_the_filters(tmp_path):
    page = write_page([read(written(tmp_path / "a.jsonl", header("mine"), some()))], tmp_path / "p.html")
    outline = Outline(browse(page, tmp_path, "--dump-dom").stdout)
    (form,) = outline.all("form")
    assert "hidden" not in form
    assert "1 of 1 runs shown" in outline.text


@needs_chromium
@pytest.mark.parametrize("width", [400, 1280])
def test_chromium_needs_no_sideways_scrolling(tmp_path, width):
    measure = "document.title = document.documentElement.scrollWidth + ' in ' + innerWidth;"
    path = tmp_path / "p.html"
    page = write_page([hostile_result(tmp_path)], path, REQUIREMENTS)
    html = page.read_text("utf-8").replace("</body>", f"<script>{measure}</script></body>")
    page.write_text(re.sub("<meta http-equiv=.*?>", "", html), "utf-8")
    frame = tmp_path / "frame.html"  # a window cannot be as narrow as 400, a frame can
    frame.write_text(
        f'<iframe id="f" width="{width}" height="800" style="border:0" src="p.html"></iframe><script>'
        "onload = () => { document.title = document.getElementById('f').contentDocument.title; };</script>",
        "utf-8",
    )
    found = browse(frame, tmp_path, "--dump-dom", "--allow-file-access-from-files", "--window-size=1600,900")
    title = re.search(r"<title>(\d+) in (\d+)</title>", found.stdout)
    assert title, found.stdout[:400]
    assert int(title[1]) <= int(title[2]) == width
