"""What a user meets on a bad day: no place to write, Ctrl-C in the middle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SLOW = """
import os
import time
from pathlib import Path


def rms_norm(x, weight, eps=1e-6):
    if x.dtype.itemsize == 2 and x.shape[-1] < 300:
        Path("worker.pid").write_text(str(os.getpid()))
        time.sleep(600)
    return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt() * weight
"""


def start(where: Path, *arguments: str) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "pytest", "-p", "conformance.plugin", "--rn-device=cpu", *arguments]
    return subprocess.Popen(command, cwd=where, env=env, stdout=subprocess.PIPE, text=True)


def test_no_place_to_write_is_said(tmp_path: Path) -> None:
    """A folder that cannot be made ends the run with its name and what to do, not with a traceback."""
    (tmp_path / "a_file").touch()
    ran = start(tmp_path, "--impl=torch", "--rn-only=smoke/wired[none,fp32]", "--rn-out=a_file/inside")
    output, _ = ran.communicate(timeout=120)
    assert ran.returncode == 4, output
    assert "choose another folder with --rn-out=DIR" in output
    assert "Traceback" not in output


def test_ctrl_c_leaves_a_partial_report_and_no_process(tmp_path: Path) -> None:
    """What was found until then is in a valid file that says so, and the worker is gone."""
    (tmp_path / "slow.py").write_text(SLOW)
    ran = start(tmp_path, "--impl=slow:rms_norm", "--rn-only=smoke/wired*", "--rn-out=out")
    pid_file = tmp_path / "worker.pid"
    deadline = time.monotonic() + 120
    while not (pid_file.exists() and pid_file.read_text()):
        assert ran.poll() is None, ran.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.05)
    ran.send_signal(signal.SIGINT)
    output, _ = ran.communicate(timeout=60)
    assert ran.returncode == 2, output
    lines = [json.loads(line) for line in (tmp_path / "out" / "results.jsonl").read_text().splitlines()]
    assert lines[-1]["type"] == "footer"
    assert lines[-1]["interrupted"] == "stopped by the user"
    assert [line["verdict"] for line in lines if line["type"] == "verdict"] == ["pass"]
    assert "did not end: stopped by the user" in output
    assert not Path(f"/proc/{pid_file.read_text()}").exists()
