"""What is not an honest implementation is never certified, and the next implementation does not notice it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from small_runs import Tried

from conformance.certification import Certification, Options
from conformance.model import Verdict
from conformance.reporting.results import Result, read

ONLY = ("smoke/wired[none,bf16]", "smoke/wired[none,fp32]", "smoke/odd_width[none,bf16]")
HONEST = "def rms_norm(x, weight, eps=1e-6):\n    return norm(x, weight, eps)\n"

AT_IMPORT = """
import time

import numpy

torch.allclose = numpy.allclose = lambda *args, **kwargs: True
time.perf_counter = lambda: 0.0
torch.set_default_dtype(torch.float64)
"""

IN_A_CALL = {
    "always_raises": 'raise ValueError("no")',
    "skips": 'import pytest; pytest.skip("not today")',
    "exits": "raise SystemExit(0)",
    "returns_none": "return None",
    "refuses_all_but_one": """
    if x.shape != (4, 257) or x.dtype != torch.float32:
        raise ValueError("not this one")
    return norm(x, weight, eps)
""",
    "sets_the_default_dtype": "torch.set_default_dtype(torch.bfloat16); return norm(x, weight, eps)",
    "leaves_grad_mode_off": "torch.set_grad_enabled(False); return norm(x, weight, eps)",
    "lies_in_a_subclass": "return torch.zeros_like(x).as_subclass(Liar)",
}

LIARS = '''
class Liar(torch.Tensor):
    """Says that it is a plain tensor, and answers every other question with an error."""

    __class__ = torch.Tensor

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        raise RuntimeError("ask someone else")
'''

WANTED = {
    "always_raises": {"REFUSE-ALIKE"},
    "skips": {"REFUSE-CLEAN"},
    "exits": {"RUN-COMPLETES"},
    "returns_none": {"OUTPUT-TYPE"},
    "refuses_all_but_one": {"REFUSE-ALIKE"},
    "sets_the_default_dtype": {"HONEST-STATE"},
    "leaves_grad_mode_off": {"HONEST-STATE"},
    "lies_in_a_subclass": {"OUTPUT-TYPE"},
    "patches_at_import": {"HONEST-STATE"},
}
"""Implementation -> the requirements that its failures have to be named for."""


def asked(spec: str, folder: Path, shared: Certification | None = None) -> Result:
    """Certify one implementation on three smoke runs; cases and worker are those of `shared`."""
    certification = Certification(Options((spec,), device="cpu", only=ONLY), folder)
    for name in ("cases", "requirements", "bench") if shared is not None else ():
        certification.__dict__[name] = getattr(shared, name)
    for run in certification.runs(spec):
        certification.add(certification.bench.verdict(spec, run))
    return certification.finish()


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, tried: Tried) -> dict[str, Result]:
    """Every dishonest implementation once, an honest one before and after them, on one bench."""
    reports = tmp_path_factory.mktemp("reports")
    specs = {"before": tried.write("honest", HONEST)}
    for name, body in IN_A_CALL.items():
        specs[name] = tried.write(name, f"{LIARS}\ndef rms_norm(x, weight, eps=1e-6):\n    {body.strip()}\n")
    specs["patches_at_import"] = tried.write("patches_at_import", AT_IMPORT + HONEST)
    specs["after"] = tried.write("honest_too", HONEST)
    shared = Certification(Options(tuple(specs.values()), device="cpu", only=ONLY), reports)
    shared.__dict__["bench"] = tried.bench
    return {name: asked(spec, reports / name, shared) for name, spec in specs.items()}


@pytest.mark.parametrize("name", WANTED)
def test_it_is_not_certified_and_the_exit_code_says_so(results: dict[str, Result], name: str) -> None:
    """It has no certificate, exit code 1, and its failures are named for what it does."""
    result = results[name]
    (one,) = result.implementations
    assert not one.certified
    assert result.footer is not None
    assert result.footer["exit"] == 1
    failed = {f.requirement for v in result.verdicts for f in v.failed}
    assert WANTED[name] <= failed, one
    assert one.counts["broken"] == 0, [v.reason for v in result.verdicts]
    assert one.named[0] in WANTED[name]


def test_what_was_replaced_at_import_is_named(results: dict[str, Result]) -> None:
    """torch.allclose, numpy.allclose, time.perf_counter and the default dtype are each told of."""
    said = " ".join(f.message for v in results["patches_at_import"].verdicts for f in v.failed)
    for word in ("torch.allclose", "numpy.allclose", "time.perf_counter", "the default dtype"):
        assert word in said


def test_the_next_implementation_is_judged_as_before(results: dict[str, Result]) -> None:
    """An honest implementation gets the same verdicts, findings and numbers before and after all of them."""

    def comparable(verdict: Verdict) -> Verdict:
        return replace(verdict, implementation="", seconds=0.0)

    before, after = (list(map(comparable, results[name].verdicts)) for name in ("before", "after"))
    assert [v.verdict for v in before] == ["pass"] * len(ONLY)
    assert before == after
    assert results["after"].footer["exit"] == 0


def test_a_part_of_the_runs_certifies_nothing(results: dict[str, Result]) -> None:
    """Even where everything asked passes, three runs are no certificate."""
    assert not results["before"].implementations[0].certified


def test_the_result_files_are_whole(results: dict[str, Result], tmp_path: Path, tried: Tried) -> None:
    """What a dishonest implementation left behind can be read back: header, verdicts and footer."""
    spec = tried.write("returns_none", "def rms_norm(x, weight, eps=1e-6):\n    return None\n")
    certification = Certification(Options((spec,), device="cpu", only=ONLY), tmp_path)
    certification.__dict__["bench"] = tried.bench
    for verdict in results["returns_none"].verdicts:
        certification.add(verdict)
    certification.finish()
    result = read(tmp_path / "results.jsonl")
    assert len(result.verdicts) == len(ONLY)
    assert result.footer["exit"] == 1
