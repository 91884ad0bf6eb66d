"""What several tests share: one workbench for the whole run, and a folder for small implementations."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from in_process import InProcess
from small_runs import Tried


@pytest.fixture(scope="session")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tried]:
    """Puts runs to implementations through a real worker, which lives on between tests of one module."""
    bench = Tried(tmp_path_factory.mktemp("implementations"))
    yield bench
    bench.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder with a space in its name."""
    made = tmp_path / "an empty folder"
    made.mkdir()
    return made


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> InProcess:
    """A worker without a process of its own."""
    return InProcess(monkeypatch)
