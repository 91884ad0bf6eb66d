"""Runs the interpreted_*.py test files in processes of their own and wants every test of them passed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.processes import interpreter

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize(
    "name",
    [
        "interpreted_reference_kernels",
        "interpreted_backward_kernels",
        "interpreted_autograd",
        "interpreted_second_implementations",
    ],
)
def test_kernels_in_the_interpreter(name):
    if not interpreter.supported():
        pytest.skip(str(interpreter.unsupported_reason()))
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": paths}
    environment.pop("PYTEST_ADDOPTS", None)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--noconftest", "-c", os.devnull,
         "-p", "no:cacheprovider", "-p", "no:conformance.plugin", "-W", "ignore::RuntimeWarning",
         str(ROOT / "tests" / f"{name}.py")],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    # All of them: none skipped, none deselected, and not an empty file.
    assert re.search(r"^\d{2,3} passed( in|, \d+ warnings in)", done.stdout, re.MULTILINE), done.stdout
