"""A chain of calls to an operator that fills a tensor it is given, as engines declare it."""

from __future__ import annotations

from pathlib import Path

from small_runs import Tried, run

FILLS = """
def rms_norm(out, input, weight, epsilon):
    out.copy_(norm(input, weight, epsilon))
"""
OVERWRITES = FILLS + "    input.add_(1.0)\n"


def test_what_one_call_wrote_is_what_the_next_one_reads(tmp_path: Path) -> None:
    """The right one is not accused of overwriting x between the calls; one that does is."""
    tried = Tried(tmp_path)
    try:
        asked = run(64, 4, scenario="chain")
        right = tried.verdict(tried.write("fills", FILLS), asked)
        wrong = tried.verdict(tried.write("overwrites", OVERWRITES), asked)
    finally:
        tried.close()
    assert right.verdict == "pass", right.findings
    assert "INPUTS-UNCHANGED" in {f.requirement for f in wrong.failed}
