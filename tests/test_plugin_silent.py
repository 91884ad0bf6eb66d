"""The plugin without --impl: the pytest run of a user is as without it; a checkout certifies itself."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from case_text import HEAD

ROOT = Path(__file__).resolve().parent.parent

USERS_TEST = """
import os
import sys


def test_what_is_imported_and_set():
    print("imported:", sorted({"torch", "triton", "numpy", "yaml", "conformance.load"} & set(sys.modules)))
    print("variables:", sorted(os.environ))


def test_that_fails():
    assert 1 == 2
"""
MINE = "cases:\n  - {id: one, about: a wrong kernel, requirements: [FORMULA-WEIGHT], shape: [2, 3]}\n"


def pytest_run(where: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a folder, with the suite importable."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    env.pop("PYTEST_ADDOPTS", None)
    return subprocess.run(
        [sys.executable, "-B", "-m", "pytest", *arguments], cwd=where, env=env, capture_output=True, text=True
    )


def _without_plugins_line(output: str) -> str:
    """Without the line in which pytest itself lists what is installed."""
    return re.sub(r"^plugins: .*\n", "", output, flags=re.MULTILINE)


def test_without_impl_nothing_is_different(tmp_path: Path) -> None:
    """Items, output, exit code, variables, imports and files are those of `-p no:conformance.plugin`.

    The user has valid and broken cases/*.yaml, and they are not looked at.
    """
    seen = {}
    for name, switch in (("with", "conformance.plugin"), ("without", "no:conformance.plugin")):
        where = tmp_path / name / "mine"
        (where / "cases").mkdir(parents=True)
        (where / "cases" / "good.yaml").write_text(HEAD + MINE)
        (where / "cases" / "bad.yaml").write_text("schema: 1\ncases: [broken\n")
        (where / "test_users.py").write_text(USERS_TEST)
        ran = pytest_run(where, "-p", switch, "-v", "-s")
        output = re.sub(
            r"in \d+\.\d+s", "in some time", _without_plugins_line(ran.stdout).replace(str(where), "")
        )
        made = sorted(str(p.relative_to(where)) for p in where.rglob("*"))
        seen[name] = (ran.returncode, output, ran.stderr, made)
    assert seen["with"] == seen["without"]
    assert seen["with"][0] == 1
    assert "imported: []" in seen["with"][1]
    assert "1 failed, 1 passed" in seen["with"][1]


def test_every_option_but_impl_has_the_prefix(tmp_path: Path) -> None:
    """--help lists --impl and the --rn- options of the suite, and needs no torch for it."""
    (tmp_path / "torch.py").write_text("raise ImportError('--help imports torch')\n")
    ran = pytest_run(tmp_path, "-p", "conformance.plugin", "--help")
    assert ran.returncode == 0
    group = ran.stdout.partition("certify RMSNorm implementations")[2]
    options = re.findall(r"^  (--[a-z-]+)", group, re.MULTILINE)[:9]
    assert options[0] == "--impl"
    assert {"--rn-profile", "--rn-grade", "--rn-cases", "--rn-only", "--rn-out"} <= set(options)
    assert all(option.startswith("--rn-") for option in options[1:])


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what a checkout has, under a path with a space."""
    where = tmp_path_factory.mktemp("my checkout")
    for name in ("conformance", "reference_kernels", "cases"):
        shutil.copytree(ROOT / name, where / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / name, where / name)
    return where


def test_a_bare_pytest_in_a_checkout_certifies_the_bundled_kernels(checkout: Path) -> None:
    """Without any option the items are the runs of `reference`, in every fusion mode it has."""
    before = sorted(checkout.glob("rn-reports/*"))
    ran = pytest_run(checkout, "--collect-only", "-q", "-p", "no:cacheprovider")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    items = [line for line in ran.stdout.splitlines() if "::" in line]
    assert len(items) > 500
    assert all(line.startswith("cases/") and line.endswith("@reference") for line in items)
    assert sorted(checkout.glob("rn-reports/*")) == before


def test_a_part_of_it_runs(checkout: Path) -> None:
    """--rn-only narrows it, and the result says that it is a part."""
    ran = pytest_run(checkout, "--rn-only=smoke/wired[none,fp32]", "--rn-device=cpu")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "1 passed" in ran.stdout
    assert "Only a part was asked" in ran.stdout


def test_tests_in_a_checkout_certify_nothing(checkout: Path) -> None:
    """A path on the command line is a plain pytest run, even in the checkout."""
    (checkout / "test_plain.py").write_text("def test_plain():\n    pass\n")
    ran = pytest_run(checkout, "test_plain.py")
    assert ran.returncode == 0
    assert "1 passed" in ran.stdout
    assert "conformance" not in _without_plugins_line(ran.stdout).replace("my checkout", "")
