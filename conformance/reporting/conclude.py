"""The verdict on an implementation, given after its last run.

Pure functions of the verdicts and the requirements: the same result serially, from any order, from several
workers and from merged files. Nothing here imports torch.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from conformance.model import SHORT_DTYPE, VERDICTS, Call, Finding, Requirement, Verdict
from conformance.reporting.consistency import combination, conventions, refusals
from conformance.reporting.naming import Naming, name_failures
from conformance.reporting.training import gradient_conventions, gradmode_alike

CERTIFYING = ("default", "inference", "full")
"""The profiles that can certify; smoke only shows that the call is wired, training asks no core."""

TRAINING = "training"
"""The profile of training runs alone: it says nothing about the core, which is asked forward."""

CORE_DTYPES = ("float16", "bfloat16")
"""Every core place must pass in one of these dtypes of x."""

PASSED = ("pass", "warn")
FAILED = ("fail", "crash", "broken")


@dataclass(frozen=True)
class ImplementationResult:
    """The outcome of one implementation over all its runs: what an implementation line of a report holds.

    Attributes:
        name: the implementation.
        certified: complete, every core place passed, and nothing failed.
        complete: every planned run of the profile has its verdict.
        sentence: one sentence: fit for what, what fails, what was not asked.
        named: the violated requirements; the first names the failure.
        diagnosis: sentences that say how they are violated.
        counts: verdict -> number of runs; every verdict has its key.
        waived: failures that a waiver covers. They are still counted as failures.
        conventions: "mode/dtypes" -> conventions that explain every run; empty where they change.
        findings: findings over several runs.
        reasons: why it is not certified; empty if it is.
        gradient_conventions: "mode/dtypes" -> gradient -> its conventions, in words.
    """

    name: str
    certified: bool
    complete: bool
    sentence: str
    named: tuple[str, ...] = ()
    diagnosis: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    waived: int = 0
    conventions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    reasons: tuple[str, ...] = ()
    gradient_conventions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """Whether a run or a finding over several runs failed."""
        return any(self.counts.get(v, 0) for v in FAILED) or any(f.severity == "fail" for f in self.findings)


def declared_convention(call: Call) -> str:
    """Give the convention that a call declares, in words: "one rounding, exact sum", a part of it, or ""."""
    words = []
    if call.rounds_x_hat is not None:
        words.append("two roundings" if call.rounds_x_hat else "one rounding")
    if call.norm_input is not None:
        words.append(call.norm_input.replace("_", " "))
    return ", ".join(words)


def conclude(
    name: str,
    verdicts: Iterable[Verdict],
    requirements: Mapping[str, Requirement],
    *,
    complete: bool,
    profile: str,
    declared: Mapping[str, str],
    modes: Sequence[str],
    grade: str = "strict",
    incomplete_because: str = "",
    missing: str = "",
) -> ImplementationResult:
    """Conclude on one implementation from the verdicts of all its runs.

    Args:
        name: the implementation; verdicts of others are left out.
        verdicts: in any order.
        requirements: id -> Requirement, for ranks and texts.
        complete: whether every run of the profile has its verdict.
        profile: the profile that was asked; only those of CERTIFYING certify.
        declared: mode -> declared convention in words (see `declared_convention`); absent or "" for none.
        modes: the fusion modes that the implementation claims.
        grade: strict or base; the sentence names it.
        incomplete_because: why it is not complete, in words, for the sentence.
        missing: why the implementation could not be called at all, e.g. "not installed".
    """
    own = sorted((v for v in verdicts if v.implementation == name), key=lambda v: v.run)
    counted = Counter(v.verdict for v in own)
    counts = {verdict: counted.get(verdict, 0) for verdict in VERDICTS}
    convention = conventions(own, declared)
    findings = (*convention.findings, *refusals(own), *gradmode_alike(own))
    naming = name_failures(own, requirements, findings)
    reasons: list[str] = []
    if missing:
        reasons.append(missing)
    elif not own:
        reasons.append("nothing was asked")
    else:
        reasons.extend(_failures(counts, findings))
        if profile != TRAINING:
            reasons.extend(_core_gaps([v for v in own if not v.gradients], modes))
    if profile not in CERTIFYING:
        reasons.append(f"profile {profile} never certifies")
    if not complete:
        reasons.append(incomplete_because or "not every run of the profile has its verdict")
    certified = not reasons
    sentence = _sentence(own, _told(own, findings, certified), naming, reasons, profile, grade, requirements)
    return ImplementationResult(
        name=name,
        certified=certified,
        complete=complete,
        sentence=sentence,
        named=naming.named,
        diagnosis=naming.diagnosis,
        counts=counts,
        conventions=convention.found,
        findings=findings,
        reasons=tuple(reasons),
        gradient_conventions=gradient_conventions(own),
    )


def _failures(counts: Mapping[str, int], findings: Sequence[Finding]) -> list[str]:
    words = {
        "fail": "failed",
        "crash": "crashed",
        "broken": "broke in the suite or its environment",
    }
    lines = [f"{_runs(counts[v])} {words[v]}" for v in FAILED if counts[v]]
    lines += [f"{f.requirement} fails over several runs" for f in findings if f.severity == "fail"]
    return list(dict.fromkeys(lines))


def _core_gaps(own: Sequence[Verdict], modes: Sequence[str]) -> list[str]:
    """Say which core places of which claimed modes passed in neither fp16 nor bf16.

    The places are those of all modes together, so a mode of which one place was never asked has a gap.
    """
    places = sorted({(v.n_rows, v.hidden_size) for v in own if v.core})
    if not places:
        return ["no core case was asked"]
    at: dict[tuple[str, int, int, str], list[str]] = defaultdict(list)
    for v in own:
        if v.core:
            at[v.mode, v.n_rows, v.hidden_size, v.dtypes.get("x", "")].append(v.verdict)
    lines = []
    for mode in modes or ("none",):
        gaps = []
        for rows, width in places:
            groups = [at.get((mode, rows, width, dtype), []) for dtype in CORE_DTYPES]
            if not any(group and all(v in PASSED for v in group) for group in groups):
                seen = sorted({v for group in groups for v in group if v not in PASSED})
                gaps.append(f"{rows} x {width} ({', '.join(seen) or 'not asked'})")
        if gaps:
            more = f" and {len(gaps) - 3} more" if len(gaps) > 3 else ""
            lines.append(
                f"mode {mode}: core size {', '.join(gaps[:3])}{more} passed in neither fp16 nor bf16"
            )
    return lines


def _sentence(
    own: Sequence[Verdict],
    fit: str,
    naming: Naming,
    reasons: Sequence[str],
    profile: str,
    grade: str,
    requirements: Mapping[str, Requirement],
) -> str:
    """Put it in one sentence: fit for what, what fails, what was not asked."""
    parts = []
    named, diagnosis = naming.named, naming.diagnosis
    if not reasons:
        parts.append(f"certified in profile {profile}, grade {grade}, for {fit}")
    elif named:
        known = requirements.get(named[0])
        text = f" ({known.text.rstrip('. ')})" if known else ""
        parts.append(f"not certified: violates {named[0]}{text}")
        if diagnosis:
            parts.append(diagnosis[0].removeprefix(f"{named[0]}: "))
        if len(named) > 1:
            parts.append("also violates " + ", ".join(named[1:]))
        if fit:
            parts.append(f"nothing failed in {fit}")
    else:
        parts.append("not certified: " + "; ".join(reasons))
        if fit:
            parts.append(f"nothing failed in {fit}")
    count = Counter(v.verdict for v in own)
    if count["warn"]:
        parts.append(f"{_runs(count['warn'])} with a warning")
    if count["unsupported"]:
        parts.append(f"{_runs(count['unsupported'])} refused")
    if count["not run"]:
        parts.append(f"{_runs(count['not run'])} not asked ({_why(own)})")
    text = "; ".join(parts)
    return text[0].upper() + text[1:].rstrip(". ") + "."


def _told(own: Sequence[Verdict], findings: Sequence[Finding], certified: bool) -> str:
    """Name where nothing failed, and whether that holds of the gradients too; "" for nowhere."""
    training = [v for v in own if v.gradients]
    forward = [v for v in own if not v.gradients]
    fit = _fit(forward, [f for f in findings if not f.where.get("training")])
    gradients = _fit(training, [f for f in findings if f.where.get("training")])
    if not training:
        suffix = "gradients not asked" if certified else ""
    elif all(v.verdict in ("unsupported", "not run") for v in training):
        suffix = "forward only: training not supported"
    elif not gradients:
        suffix = "without gradients"
    else:
        suffix = "with gradients" if gradients == fit else f"with gradients in {gradients}"
    if not fit:  # nothing was asked forward, or something failed everywhere
        return f"the gradients of {gradients}" if gradients else ""
    return f"{fit}, {suffix}" if suffix else fit


def _fit(own: Sequence[Verdict], findings: Sequence[Finding]) -> str:
    """Name the modes and dtype combinations in which some of these runs passed and none failed."""
    passed: Counter[tuple[str, str]] = Counter()
    failed = {
        (str(f.where.get("mode")), str(f.where.get("dtypes"))) for f in findings if f.severity == "fail"
    }
    for v in own:
        key = (v.mode, combination(v.dtypes))
        if v.verdict in FAILED:
            failed.add(key)
        elif v.verdict in PASSED and len(set(v.dtypes.values())) == 1:
            passed[key] += 1
    modes: dict[str, list[str]] = defaultdict(list)
    order = {dtype: index for index, dtype in enumerate(SHORT_DTYPE.values())}
    for mode, dtypes in sorted(passed.keys() - failed, key=lambda k: (k[0], order.get(k[1], 99), k)):
        modes[mode].append(dtypes)
    return ", ".join(f"{mode} ({' '.join(dtypes)})" for mode, dtypes in modes.items())


def _why(own: Sequence[Verdict]) -> str:
    reasons = Counter(v.reason or "no reason given" for v in own if v.verdict == "not run")
    order = sorted(reasons, key=lambda reason: (-reasons[reason], reason))
    return ", ".join(order[:2]) + (f" and {len(order) - 2} other reasons" if len(order) > 2 else "")


def _runs(count: int) -> str:
    return f"{count} run" + ("" if count == 1 else "s")
