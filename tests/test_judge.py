"""Every check objects to a counterexample for every requirement it speaks about, and not to the right one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from counterexamples import Times, Wrong
from gradient_counterexamples import RIGHT as RIGHT_GRADIENTS
from gradient_counterexamples import WRONG_GRADIENTS
from in_process import REQUIREMENTS, InProcess, call
from small_runs import run

from conformance.checks import all_checks
from conformance.judge import judge, not_planned
from conformance.model import Call, Fill, NotPlanned, Run
from conformance.run import Observation
from conformance.seen import Seen

# --- a right implementation, and its wrong relatives ---------------------------------------------------


def sums(x, residual):
    return x.float() + residual.float()


def wide(x32, weight, eps):
    return x32 * torch.rsqrt(x32.square().mean(-1, keepdim=True) + eps) * weight.float()[: x32.shape[-1]]


def norm(x, weight, eps, out=None):
    y = wide(x.float(), weight, eps).to(x.dtype if x.is_floating_point() else torch.float32)
    return y if out is None else out.copy_(y)


def fused(x, residual, weight, eps):
    s = sums(x, residual)
    return wide(s, weight, eps).to(x.dtype), s.to(residual.dtype)


def fused_in_place(x, residual, weight, eps):
    y, s = fused(x, residual, weight, eps)
    x.copy_(y)
    residual.copy_(s)


def truncated(values, dtype):
    """bf16 by cutting the low half of fp32 off."""
    assert dtype == torch.bfloat16
    return (values.view(torch.int32) >> 16).to(torch.int16).view(torch.bfloat16)


class Once:
    """Remembers its first result and gives it for ever."""

    def __init__(self) -> None:
        self.y = None

    def __call__(self, x, weight, eps):
        self.y = norm(x, weight, eps) if self.y is None else self.y
        return self.y.clone()


def raises(*arguments):
    raise ValueError("refused")


def writes_and_raises(x, weight, eps):
    x.zero_()
    raise ValueError("too late")


def stray(x, weight, eps, out):
    norm(x, weight, eps, out)
    torch.as_strided(out, (1,), (1,), out.storage_offset() + out.numel()).zero_()
    return out


def scaled(factor):
    return lambda x, weight, eps: (wide(x.float(), weight, eps) * factor).to(x.dtype)


def truncating(x, weight, eps):
    return truncated(wide(x.float(), weight, eps), x.dtype)


def one_element_off(x, weight, eps):
    y = norm(x, weight, eps)
    y[1, 2] *= 1.001
    return y


def one_ulp_up(x, weight, eps):
    y = norm(x, weight, eps)
    return torch.nextafter(y, y.abs() + 1)


# --- the counterexamples -------------------------------------------------------------------------------


NAN = run(
    fills={"x": Fill(put=((1, 3, "nan"),)), "weight": Fill(seed=2)}, requirements=("SPECIAL-NONFINITE",)
)
RESIDUAL = run(mode="residual")
BF16 = run(mode="residual", dtype="bfloat16", width=257)


def refusing(fault: str, **changes: Any) -> Run:
    return run(fault=fault, scenario="refuse", **changes)


WRONG = (
    Wrong("completes", "RUN-COMPLETES", norm, observed={"status": "crash", "steps": [], "detail": "SIGSEGV"}),
    Wrong("guards", "MEM-WRITE", stray, run(out=True), {"out": True, "mutates": {"out": "y"}}),
    Wrong("guards", "MEM-UNWRITTEN", lambda x, weight, eps: torch.empty_like(x)),
    Wrong("in_place", "INPLACE-STORAGE",
          lambda x, residual, weight, eps: fused_in_place(x.clone(), residual.clone(), weight, eps),
          run(mode="residual_in_place")),
    Wrong("inputs_unchanged", "INPUTS-UNCHANGED", lambda x, weight, eps: norm(x.mul_(2), weight, eps)),
    Wrong("invariance", "INVARIANCE-REPEAT", Times(norm, one_ulp_up), run(scenario="repeat")),
    Wrong("invariance", "INVARIANCE-BATCH", Times(norm, one_ulp_up), run(scenario="batch")),
    Wrong("outputs", "OUTPUT-TYPE", lambda x, weight, eps: norm(x, weight, eps).tolist()),
    Wrong("outputs", "OUTPUT-SHAPE", lambda x, weight, eps: norm(x, weight, eps).reshape(-1)),
    Wrong("outputs", "OUTPUT-DTYPE", lambda x, weight, eps: norm(x, weight, eps).half()),
    Wrong("outputs", "OUTPUT-DEVICE", norm, observed={"device": "cuda"}),
    Wrong("outputs", "OUTPUT-STRIDE",
          lambda x, weight, eps: torch.zeros(*x.shape, 2)[..., 0].copy_(norm(x, weight, eps))),
    Wrong("outputs", "OUTPUT-ALIAS", lambda x, weight, eps: x.copy_(norm(x, weight, eps))),
    Wrong("outputs", "OUTPUT-PARAMETER", lambda x, weight, eps, out: norm(x, weight, eps), run(out=True),
          {"out": True}),
    Wrong("outputs", "RESIDUAL-WRITTEN", lambda *a: fused(*a)[0], RESIDUAL, {"returns": ("y",)},
          right=call(fused, "residual")),
    Wrong("outputs", "RESIDUAL-DTYPE", lambda *a: (fused(*a)[0], fused(*a)[1].half()), RESIDUAL),
    Wrong("refusal", "REFUSE-CLEAN", writes_and_raises),
    Wrong("refusal", "RUN-COMPLETES", lambda *a: exit(0)),
    Wrong("refusal", "REFUSE-ALIKE", raises),
    Wrong("refusal", "REFUSE-ALIKE", Times(norm, raises), run(scenario="repeat")),
    Wrong("refusal", "REFUSE-SHAPE", norm, refusing("weight_too_long"), right=call(raises)),
    Wrong("refusal", "REFUSE-EPS", norm, refusing("eps_zero", eps=0.0), right=call(raises)),
    Wrong("refusal", "REFUSE-INTEGER", norm, refusing("integer_x"), right=call(raises)),
    Wrong("residual", "RESIDUAL-EXACT", lambda x, r, w, e: (fused(x, r, w, e)[0], sums(x, r) + 1), RESIDUAL),
    Wrong("residual", "RESIDUAL-ADDED",
          lambda x, r, w, e: (fused(x, r, w, e)[0], (x.double() + 2 * r.double()).float()), RESIDUAL),
    Wrong("residual", "RESIDUAL-WRITTEN", lambda x, r, w, e: (fused(x, r, w, e)[0], x.clone()), RESIDUAL),
    Wrong("residual", "RESIDUAL-WRITTEN", lambda x, r, w, e: (fused(x, r, w, e)[0], r.clone()), RESIDUAL),
    Wrong("residual", "RESIDUAL-ROUNDING",
          lambda x, r, w, e: (fused(x, r, w, e)[0], truncated(sums(x, r), r.dtype)), BF16),
    Wrong("rrms", "RRMS-SAVED",
          lambda x, w, e: (norm(x, w, e), torch.rsqrt(x.square().mean(-1) + e).bfloat16().float()),
          call={"returns": ("y", "rrms")},
          right=call(lambda x, w, e: (norm(x, w, e), torch.rsqrt(x.square().mean(-1) + e)),
                     returns=("y", "rrms"))),
    Wrong("state", "HONEST-STATE", lambda *a: (torch.set_grad_enabled(False), norm(*a))[1]),
    Wrong("state", "HONEST-STATE", norm, observed={"import_drift": ("torch.allclose was replaced",)}),
    Wrong("statistics", "ACCURACY-BIAS", truncating, run(width=1024, dtype="bfloat16")),
    Wrong("statistics", "ACCURACY-GAIN", truncating, run(width=1024, dtype="bfloat16")),
    Wrong("values", "ACCURACY-INTERVAL", one_element_off),
    Wrong("values", "ACCURACY-ROUNDING", truncating, run(width=257, dtype="bfloat16")),
    Wrong("values", "INVARIANCE-FRESH", Once(), run(scenario="new_contents")),
    Wrong("values", "MEM-READ", scaled(float("nan")), observed={"outside_matters": "MEM-READ"}),
    Wrong("values", "SPECIAL-NONFINITE", lambda x, w, e: norm(x.nan_to_num(), w, e), NAN),
    Wrong("values", "REFUSE-DEVICE", scaled(2.0), refusing("device_mixed")),
    *WRONG_GRADIENTS,
)  # fmt: skip
RIGHT = {"none": norm, "residual": fused, "residual_in_place": fused_in_place}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[InProcess]:
    made = InProcess(monkeypatch)
    yield made
    made.arena.close()


def verdict_of(observation: Observation):
    return judge(observation, "mine", REQUIREMENTS, "strict")


def right_call(wrong: Wrong) -> Call:
    if wrong.right is not None:
        return wrong.right
    kept = {k: v for k, v in wrong.call.items() if k not in ("returns", "backward")}
    right = RIGHT_GRADIENTS if wrong.run.trains else RIGHT
    return call(right[wrong.run.mode], wrong.run.mode, **kept)


def test_every_requirement_of_every_check_has_a_counterexample() -> None:
    """The table below covers what the check modules list, and nothing else."""
    listed = {(check.NAME, r) for check in all_checks() for r in check.REQUIREMENTS}
    assert {(w.check, w.requirement) for w in WRONG} == listed


def test_checks_speak_of_known_requirements_only() -> None:
    """Every requirement of a check is in requirements.yaml."""
    assert {r for check in all_checks() for r in check.REQUIREMENTS} <= set(REQUIREMENTS)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda w: f"{w.check}-{w.requirement}")
def test_the_check_objects(server: InProcess, wrong: Wrong) -> None:
    """The check finds the requirement violated, as severe as its level says, and the verdict follows."""
    observation = replace(
        server.observe(wrong.run, call(wrong.function, wrong.run.mode, **wrong.call)), **wrong.observed
    )
    (check,) = (c for c in all_checks() if wrong.check == c.NAME)
    seen = Seen(observation, "strict")
    assert check.applies(seen)
    found = {f.requirement: f.severity for f in check.check(seen)}
    assert wrong.requirement in found, found
    should = REQUIREMENTS[wrong.requirement].level == "SHOULD" or wrong.requirement == "OUTPUT-STRIDE"
    assert found[wrong.requirement] == ("warn" if should else "fail")
    verdict = verdict_of(observation)
    assert verdict.verdict in (("warn", "fail") if should else ("fail", "crash"))


@pytest.mark.parametrize("wrong", WRONG, ids=lambda w: f"{w.check}-{w.requirement}")
def test_nothing_objects_to_the_right_one(server: InProcess, wrong: Wrong) -> None:
    """On the same run an implementation without the fault passes, with no finding that decides."""
    observation = replace(server.observe(wrong.run, right_call(wrong)), twin="pass")
    verdict = verdict_of(observation)
    assert verdict.verdict == "pass", verdict
    assert all(f.severity == "info" for f in verdict.findings)


# --- the verdict itself --------------------------------------------------------------------------------


def test_the_failure_of_lowest_rank_comes_first(server: InProcess) -> None:
    """Memory before values: a stray store with wrong numbers is named for the store."""
    asked = run(out=True)
    wrong = call(lambda x, w, e, out: stray(x, w * 3, e, out), out=True, mutates={"out": "y"})
    verdict = verdict_of(server.observe(asked, wrong))
    assert next(f.requirement for f in verdict.failed) == "MEM-WRITE"
    assert len({f.requirement for f in verdict.failed}) > 1


@pytest.mark.parametrize("layouts", [{}, {"x": "row_slice"}])
def test_a_refusal_counts_only_where_the_twin_passed(server: InProcess, layouts: dict[str, str]) -> None:
    """A clean refusal is unsupported beside a twin that passed, and a failure beside one that did not."""
    observation = server.observe(run(layouts=layouts), call(raises))
    assert verdict_of(replace(observation, twin="pass")).verdict == "unsupported"
    assert verdict_of(observation).verdict == "fail"


def test_a_refusal_that_must_come_says_nothing_without_its_twin(server: InProcess) -> None:
    """Raising at a short weight passes beside a twin that passed; where nothing works it is unsupported."""
    observation = server.observe(refusing("weight_too_short"), call(raises))
    assert verdict_of(replace(observation, twin="pass")).verdict == "pass"
    assert verdict_of(observation).verdict == "unsupported"


def test_base_grade_warns_where_strict_fails(server: InProcess) -> None:
    """Truncating stores are within one ULP: grade base warns of them, grade strict fails them."""
    observation = server.observe(run(width=257, dtype="bfloat16"), call(truncating))
    assert judge(observation, "mine", REQUIREMENTS, "strict").verdict == "fail"
    assert judge(observation, "mine", REQUIREMENTS, "base").verdict == "warn"


@pytest.mark.parametrize(("status", "verdict"), [("broken", "broken"), ("not run", "not run")])
def test_what_is_not_the_implementations_fault_is_no_failure_of_it(status: str, verdict: str) -> None:
    """A broken suite and a run that the machine cannot make keep their own verdicts, with the reason."""
    observation = Observation(run(), call(norm), status, [], detail="the reason")
    found = verdict_of(observation)
    assert found.verdict == verdict
    assert "the reason" in found.reason
    assert not found.findings


def test_what_was_not_planned_keeps_its_reason() -> None:
    """A run that plan refused becomes a verdict with that reason and nothing else."""
    found = not_planned(NotPlanned("mine", run(), "unsupported", "no parameter"))
    assert (found.verdict, found.reason, found.findings) == ("unsupported", "no parameter", ())


@pytest.mark.parametrize(
    ("changes", "obtained"),
    [({}, "hardware"), ({"interpreted": True}, "interpreted"), ({"device": "cuda"}, "hardware")],
)
def test_a_verdict_says_how_it_was_obtained(changes: dict[str, Any], obtained: str) -> None:
    """Interpreted kernels, and what ran on the machine itself, are told apart."""
    assert verdict_of(Observation(run(), call(norm), "crash", [], **changes)).obtained == obtained
