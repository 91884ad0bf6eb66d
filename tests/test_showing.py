"""Texts from outside, as they are shown: links, control characters, and commands for a shell."""

from __future__ import annotations

import subprocess

import pytest

from conformance.load import bundled
from conformance.reporting.showing import link, reproduce, visible


@pytest.mark.parametrize(
    ("address", "good"),
    [
        ("https://github.com/a/b", True),
        ("http://example.org/a?b=c#d", True),
        ("javascript:alert(1)", False),
        ("JaVaScRiPt:alert(1)", False),
        ("data:text/html,x", False),
        ("//example.org", False),
        ("https://", False),
        ("https:///x", False),
        ("https://a\nb", False),
        (' https://example.org"onclick', False),
        ("https://example.org/\u202e", False),
        ("file:///etc/passwd", False),
        ("", False),
    ],
)
def test_only_http_becomes_a_link(address, good):
    assert link(address) == (address if good else "")


@pytest.mark.parametrize("text", ["plain text", "é ü 日本語", "x_hat·rrms ≤ 1"])
def test_ordinary_texts_stay_as_they_are(text):
    assert visible(text) == text


@pytest.mark.parametrize("run", ["eps/near[none,bf16]", "it's; rm -rf / #[x]", "$(x)`y`"])
def test_the_command_survives_a_shell(run):
    command = reproduce("my pkg:f", run).replace("pytest ", "printf '%s\\n' ", 1)
    told = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=True).stdout
    own = f"--rn-cases={run.split('[')[0].split('/')[0]}.yaml"
    bundled = run.startswith("eps/")
    assert told.splitlines() == ["--impl=my pkg:f", *([] if bundled else [own]), f"--rn-only={run}"]


def test_every_bundled_run_is_asked_again_without_a_case_file():
    runs = (bundled() / "run_ids.txt").read_text().split()
    assert not [run for run in runs if "--rn-cases" in reproduce("pkg:f", run)]
