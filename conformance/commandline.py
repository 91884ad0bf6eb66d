"""What the command line of pytest asks for: the options of a certification, its case files, its folder."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from conformance import load
from conformance.certification import Options


def read_options(config: pytest.Config, specs: Sequence[str], *, no_paths: bool) -> Options:
    """What is to be certified, and how; a case file among pytest's own paths is asked like a --rn-cases.

    no_paths: none were given. Raises pytest.UsageError where a path of --rn-cases does not exist.
    """
    option, here = config.option, config.invocation_params.dir
    case_paths = tuple(Path(here, p) for p in option.rn_cases)
    for path in case_paths:
        if not path.exists():
            raise pytest.UsageError(f"--rn-cases={path.name}: there is no such file or folder; give a *.yaml")
    if not no_paths:
        given = [Path(here, str(a).split("::")[0]) for a in config.args]
        case_paths = (*case_paths, *_own_case_files(given, [*_bundled(), *case_paths]))
    return Options(
        specs=tuple(dict.fromkeys(specs)), profile=option.rn_profile, grade=option.rn_grade,
        device=option.rn_device, timeout=option.rn_timeout, only=tuple(option.rn_only),
        case_paths=case_paths, weight_offset=option.rn_weight_offset,
        partial="" if no_paths else "paths were given", command=_command(option), threads=_threads(config),
    )  # fmt: skip


def out_folder(config: pytest.Config) -> Path:
    """Where results go: --rn-out, else a new folder named for now."""
    name = config.option.rn_out or f"rn-reports/{time.strftime('%Y-%m-%dT%H-%M-%S')}-{os.getpid()}"
    return Path(config.invocation_params.dir, name)


def case_files(options: Options) -> list[str]:
    """Every case file of a certification, as the paths that pytest is to collect."""
    found = _bundled()
    for path in options.case_paths:
        found += sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    return [str(p) for p in found]


def _bundled() -> list[Path]:
    return sorted(p for p in load.bundled().glob("*.yaml") if p.name != load.REQUIREMENTS_FILE)


def _own_case_files(given: Sequence[Path], known: Sequence[Path]) -> list[Path]:
    """The case files among the paths of the command line that are not loaded anyway."""
    resolved = {p.resolve() for p in known}
    found: list[Path] = []
    for path in given:
        files = sorted(path.rglob("*.yaml")) if path.is_dir() else [path]
        found += [f for f in files if f.suffix == ".yaml" and f.resolve() not in resolved and _holds_cases(f)]
    return found


def _holds_cases(path: Path) -> bool:
    """Whether a YAML file means to be a case file: it says `schema:` and `cases:` at the top level."""
    if not path.is_file():
        return False
    lines = path.read_text(errors="replace").splitlines()
    return all(any(line.startswith(key) for line in lines) for key in ("schema:", "cases:"))


def _threads(config: pytest.Config) -> int:
    worker = getattr(config, "workerinput", None)
    if worker is None:
        return 0
    from conformance.distribute import threads_each  # needs pytest-xdist, which is in use then

    return threads_each(worker)


def _command(option: Any) -> tuple[str, ...]:
    """The suite's own options of the command line, without the paths they may name."""
    words = [f"--impl={spec}" for spec in option.impl] + [f"--rn-only={glob}" for glob in option.rn_only]
    for name, default in (("rn_profile", "default"), ("rn_grade", "strict"), ("rn_device", "auto"),
                          ("rn_weight_offset", None)):  # fmt: skip
        value = getattr(option, name)
        if value != default:
            words.append(f"--{name.replace('_', '-')}={value}")
    return tuple(words)
