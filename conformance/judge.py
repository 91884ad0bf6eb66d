"""Stage 4, judge: run the checks over an observation and give the verdict. It touches no implementation."""

from __future__ import annotations

from collections.abc import Mapping

from conformance.checks import all_checks
from conformance.diagnosing.gradient_explained import explained_before
from conformance.model import GRADIENT_OF, Finding, NotPlanned, Requirement, Run, Verdict
from conformance.plan import FORWARD_ONLY
from conformance.run import Observation
from conformance.seen import Seen

_SEVERITY = ("fail", "warn", "info")


def judge(
    observation: Observation, implementation: str, requirements: Mapping[str, Requirement], grade: str
) -> Verdict:
    """The verdict on one run. Findings are ordered by severity, then by the requirement's rank."""
    if observation.status == "broken":
        return broken(observation.run, implementation, observation.detail)
    if observation.status == "not run":
        return _verdict(observation.run, implementation, "not run", reason=observation.detail)
    seen = Seen(observation, grade)
    findings = [f for c in all_checks() if c.applies(seen) for f in c.check(seen)]
    findings.sort(key=lambda f: (_SEVERITY.index(f.severity), requirements[f.requirement].rank))
    worst = findings[0].severity if findings else "info"
    if observation.status in ("crash", "hang"):
        verdict = "crash"
    elif worst in ("fail", "warn"):
        verdict = worst
    elif not seen.returned and seen.run.scenario != "refuse":
        verdict = "unsupported"
    else:
        verdict = "pass"
    reason = ""
    if seen.trains and seen.returned and not seen.differentiable and verdict in ("pass", "warn"):
        verdict, reason = "unsupported", FORWARD_ONLY
    if not seen.returned and observation.status == "completed":
        reason = f"refused: {seen.steps[-1].record['exception']['text']}"
        if verdict == "pass" and observation.twin != "pass":
            verdict = "unsupported"
            reason = f"its valid twin does not pass either, so this says nothing. {reason}"
    conventions, stats = _numbers(seen) if verdict in ("pass", "warn", "fail") else ((), {})
    gradients, shares = _gradients(seen) if verdict in ("pass", "warn", "fail") else ({}, {})
    return _verdict(
        observation.run, implementation, verdict, findings=tuple(findings), reason=reason,
        conventions=conventions, stats={**stats, **shares}, obtained=obtained(observation),
        not_covered=_not_covered(seen), gradient_conventions=gradients,
    )  # fmt: skip


def not_planned(plan: NotPlanned) -> Verdict:
    """The verdict on a run that was never made."""
    return _verdict(plan.run, plan.implementation, plan.verdict, reason=plan.reason)


def broken(run: Run, implementation: str, detail: str) -> Verdict:
    """The verdict where the suite or its environment failed, with what failed."""
    reason = f"the suite failed, not the implementation: {detail}"
    return _verdict(run, implementation, "broken", reason=reason)


def obtained(observation: Observation) -> str:
    """How this was seen: on hardware, through Triton's interpreter, or as code compiled for the CPU."""
    if observation.device != "cpu":
        return "hardware"
    if observation.call.compiled:
        return "compiled"
    return "interpreted" if observation.interpreted else "hardware"


def _numbers(seen: Seen) -> tuple[tuple[str, ...], dict[str, float]]:
    """The conventions that explain every call of the run; the statistics of the last, and the largest share
    of the allowed error that a call used."""
    if not seen.returned or seen.run.fault is not None or not seen.run.n_rows:
        return (), {}
    views = [v for v in seen.views if v.has_forward]
    explained = [v.explanation for v in views if v.explanation is not None]
    if len(explained) != len(views) or not explained:
        return (), {}
    shared = [n for n in explained[0].conventions if all(n in e.conventions for e in explained)]
    shares = {"y_share": max(e.share for e in explained)} if shared else {}
    return tuple(shared), {**(views[-1].numbers or {}), **shares}


def _gradients(seen: Seen) -> tuple[dict[str, tuple[str, ...]], dict[str, float]]:
    """The conventions that explain the gradients of the first call, by gradient; and what share of the error
    that these allow was used."""
    conventions, shares = {}, {}
    for role in seen.run.gradients if seen.returned and seen.differentiable else ():
        found = explained_before(seen.backwards[0], role)
        if found is not None and found.conventions:
            conventions[GRADIENT_OF[role]] = found.conventions
            shares[f"{GRADIENT_OF[role]}_share"] = found.share
    return conventions, shares


def _not_covered(seen: Seen) -> tuple[str, ...]:
    if seen.call.compiled:
        return ("allocations of compiled code",)
    names = sorted({n for s in seen.steps for n in s.record.get("uncovered", [])})
    return tuple(f"results of aten::{name}" for name in names)


def _verdict(
    run: Run,
    implementation: str,
    verdict: str,
    *,
    findings: tuple[Finding, ...] = (),
    reason: str = "",
    conventions: tuple[str, ...] = (),
    stats: Mapping[str, float] | None = None,
    obtained: str = "hardware",
    not_covered: tuple[str, ...] = (),
    gradient_conventions: Mapping[str, tuple[str, ...]] | None = None,
) -> Verdict:
    return Verdict(
        implementation=implementation, run=run.id, case=run.case, mode=run.mode, dtypes=dict(run.dtypes),
        verdict=verdict, findings=findings, reason=reason, conventions=conventions, stats=stats or {},
        obtained=obtained, not_covered=not_covered, core=run.core, neutral=not run.features,
        features=run.features, requirements=run.requirements, n_rows=run.n_rows,
        hidden_size=run.hidden_size, gradients=run.gradients,
        gradient_conventions=gradient_conventions or {},
    )  # fmt: skip
