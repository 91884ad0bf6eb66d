"""README's two commands: CI runs the second, and the first works on a fresh machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / ".ci"))

from readme_command import commands  # noqa: E402 - a script of .ci, not a package

BLOCKS = commands((ROOT / "README.md").read_text("utf-8"))


def test_there_are_two_and_each_sets_itself_up() -> None:
    """README has two commands; each makes its own virtual environment."""
    assert len(BLOCKS) == 2
    assert all(block.startswith("python3 -m venv ") for block in BLOCKS)
    assert BLOCKS[0].endswith("-e certify")
    assert BLOCKS[1].endswith("-e tests")


def test_ci_runs_the_second_and_nothing_else() -> None:
    """.ci/run takes its command from README, so it can call nothing weaker."""
    script = (ROOT / ".ci" / "run").read_text("utf-8")
    assert "readme_command.py 2" in script
    assert "pytest" not in script
    printed = subprocess.run(
        [sys.executable, ROOT / ".ci" / "readme_command.py", "2"], capture_output=True, text=True, check=True
    )
    assert printed.stdout.strip() == BLOCKS[1]


@pytest.mark.skipif(
    os.environ.get("RN_README") != "1",
    reason="installs torch and certifies the bundled kernels, minutes long: RN_README=1 asks for it, CI does",
)
def test_the_first_certifies_in_a_fresh_clone(tmp_path: Path) -> None:
    """In a fresh clone, with no environment and a new virtual environment, the kernels are certified."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}
    done = subprocess.run(
        ["bash", "-c", BLOCKS[0]], cwd=clone, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "1 of 1 implementations certified" in done.stdout
    pages = list((clone / "rn-reports").glob("*/report.html"))
    assert len(pages) == 1
    assert str(pages[0].relative_to(clone)) in done.stdout
