"""What one call does to its process costs that run alone; the next one runs in a fresh process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_runs import Tried, failing, run

SOURCE = """
import ctypes
import os
import subprocess
import sys
from pathlib import Path

PIDS = Path(__file__).with_suffix(".pids")


def _leaves_a_child_behind():
    subprocess.Popen(["sleep", "600"])
    os.abort()


def _hangs():
    while True:
        pass


def _prints():
    print('{"steps": [], "interpreted": false}')
    os.write(1, bytes(range(256)) * 4096)
    sys.stderr.write("noise " * 1000)


FAULTS = {
    33: _leaves_a_child_behind, 34: lambda: os._exit(0), 35: lambda: ctypes.string_at(0), 36: _hangs,
    37: _prints, 38: lambda: os.close(1), 39: lambda: os.closerange(3, 256),
}


def rms_norm(x, weight, eps=1e-6):
    if x.shape[-1] < 100:  # not the trial call of a process that only stands by
        with PIDS.open("a") as file:
            print(os.getpid(), file=file)
    FAULTS.get(x.shape[-1], lambda: None)()
    return norm(x, weight, eps)
"""


class Isolated(Tried):
    """A bench, and the process ids that its calls ran in."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.spec = self.write("dies", SOURCE)

    def pids(self) -> list[int]:
        return [int(line) for line in (self.folder / "dies.pids").read_text().split()]


@pytest.fixture(scope="module")
def isolated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Isolated]:
    bench = Isolated(tmp_path_factory.mktemp("isolated"))
    yield bench
    bench.close()


def alive(group: int) -> list[str]:
    """The processes of a group that still run, zombies left out."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            state, _, member = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue
        if int(member) == group and state not in "ZX":
            found.append(entry.name)
    return found


def passes(isolated: Isolated) -> None:
    verdict = isolated.verdict(isolated.spec, run(32))
    assert verdict.verdict == "pass", verdict


@pytest.mark.parametrize(
    ("width", "told"),
    [
        (33, "SIGABRT"),
        (34, "exit code 0"),
        (35, "SIGSEGV"),
        (36, "no answer within 3 s"),
        (39, "exit code 1"),
    ],
)
def test_a_process_that_dies_or_hangs_costs_one_run(
    isolated: Isolated, width: int, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is a crash that says how; the next one passes in another process, and the old group is gone."""
    with monkeypatch.context() as patch:
        if width == 36:
            passes(isolated)  # the first call of a process is slow
            patch.setattr(isolated.bench, "_timeout", 3.0)
        dead = isolated.verdict(isolated.spec, run(width))
    group = isolated.pids()[-1]
    assert dead.verdict == "crash"
    assert told in failing(dead, "RUN-COMPLETES").message
    assert alive(group) == []
    passes(isolated)
    assert isolated.pids()[-1] != group


@pytest.mark.parametrize("width", [37, 38])
def test_standard_output_belongs_to_the_implementation(isolated: Isolated, width: int) -> None:
    """Printing what looks like a reply, or closing standard output, disturbs no run."""
    assert isolated.verdict(isolated.spec, run(width)).verdict == "pass"
    here = isolated.pids()[-1]
    passes(isolated)
    assert isolated.pids()[-1] == here


def test_closing_the_bench_ends_the_worker(tmp_path: Path) -> None:
    """After close no process of the worker's group is left, and this process is not one of them."""
    own = Isolated(tmp_path)
    passes(own)
    group = own.pids()[-1]
    assert alive(group) != []
    assert group != os.getpgid(0)
    own.close()
    assert alive(group) == []
