"""Which requirement an implementation violates, from the findings of all its failing runs.

A finding of most checks names its own requirement. A wrong value of y, dx, dresidual or dweight can have many
causes, and one run seldom tells them apart; so the wrong formulas that each failing run matches are counted,
for each of the four by itself, and the formula that explains at least half of those that match any, and a
third of all, gives the name. Everything here is a function of the set of verdicts: their order does not
matter.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from conformance.model import GRADIENT_OF, LAYOUT_REQUIREMENTS, Finding, Requirement, Verdict

GENERAL = {
    "values": "ACCURACY-INTERVAL",
    "dx": "DX-ACCURACY",
    "dresidual": "DRESIDUAL-ACCURACY",
    "dweight": "DWEIGHT-ACCURACY",
}
"""The checks whose findings are named by consensus, each check by its own; and what they are named for where
most neutral runs are wrong for no known reason."""

MOST = 0.75
"""The share of the neutral runs that are most of them."""

PROVEN = frozenset({"MEM-READ", "INVARIANCE-FRESH", "ACCURACY-ROUNDING"})
"""What they name only where they have proved it, by another call or by the bits: that needs no consensus."""

UNKNOWN_RANK = 10_000
"""The rank of an id that the requirements do not hold: named last, but never lost."""

FALLBACK = {"crash": "RUN-COMPLETES", "fail": "RUN-COMPLETES"}
"""What a failing verdict without a failing finding is named for."""


@dataclass(frozen=True)
class Naming:
    """The violated requirements, lowest rank first, and sentences that say how."""

    named: tuple[str, ...] = ()
    diagnosis: tuple[str, ...] = ()


def rank(requirement: str, requirements: Mapping[str, Requirement]) -> tuple[int, str]:
    """Give the sort key of a requirement id: its rank, then the id."""
    known = requirements.get(requirement)
    return (known.rank if known else UNKNOWN_RANK, requirement)


def name_failures(
    verdicts: Iterable[Verdict],
    requirements: Mapping[str, Requirement],
    extra: Sequence[Finding] = (),
) -> Naming:
    """Name what the failing verdicts of one implementation violate.

    Args:
        verdicts: all verdicts of one implementation, in any order.
        requirements: id -> Requirement, for the ranks and texts.
        extra: findings over several runs; the failing ones are named too.
    """
    verdicts = list(verdicts)
    failing = sorted((v for v in verdicts if v.verdict in FALLBACK), key=lambda v: v.run)
    runs: dict[str, set[str]] = defaultdict(set)  # requirement -> failing runs
    first: dict[str, str] = {}  # requirement -> the message of its first finding
    for verdict in failing:
        for finding in verdict.failed:
            if not _by_consensus(finding):
                runs[finding.requirement].add(verdict.run)
                first.setdefault(finding.requirement, finding.message)
        if not verdict.failed:
            name = FALLBACK[verdict.verdict]
            runs[name].add(verdict.run)
            first.setdefault(name, verdict.reason or f"the verdict of {verdict.run} is {verdict.verdict}")
    for finding in sorted(extra, key=lambda f: (f.requirement, f.message)):
        if finding.severity == "fail":
            runs.setdefault(finding.requirement, set())
            first.setdefault(finding.requirement, finding.message)

    by_value: dict[str, dict[str, str]] = defaultdict(dict)  # requirement -> sentence -> in which runs
    for check in GENERAL:
        for name, sentences in _name_values(check, verdicts, requirements).items():
            for sentence, where in sentences.items():  # dx and dresidual share their faults: told once
                by_value[name].setdefault(sentence, where)
    named = sorted({*runs, *by_value}, key=lambda name: rank(name, requirements))
    diagnosis: list[str] = []
    for name in named:
        diagnosis.extend(sentence + where for sentence, where in by_value.get(name, {}).items())
        if name in runs:
            diagnosis.append(_how(name, first[name], runs[name]))
    return Naming(tuple(named), tuple(diagnosis))


def _by_consensus(finding: Finding, check: str = "") -> bool:
    """Tell whether a finding is named by consensus: that of one check, or of any."""
    proven = finding.requirement in PROVEN and not finding.candidates
    return finding.check in ((check,) if check else GENERAL) and not proven


def _name_values(
    check: str, verdicts: Sequence[Verdict], requirements: Mapping[str, Requirement]
) -> dict[str, dict[str, str]]:
    """Name what is wrong in the findings of one check: requirement -> sentence -> in which runs; or {}.

    By consensus of the candidates, else by the runs themselves.
    """
    failing = sorted((v for v in verdicts if v.verdict in FALLBACK), key=lambda v: v.run)
    wrong = [v for v in failing if _of(v, check)]
    if not wrong:
        return {}
    matched: Counter[tuple[str, str]] = Counter()
    sentence: dict[tuple[str, str], str] = {}
    explained = 0  # runs that match any wrong formula
    for verdict in wrong:
        here = {
            (name, requirement): text
            for finding in _of(verdict, check)
            for name, requirement, text in sorted(map(tuple, finding.candidates))
        }
        explained += bool(here)
        matched.update(here.keys())
        for key, text in here.items():
            sentence[key] = min(sentence.get(key, text), text)
    order = sorted(matched, key=lambda key: (-matched[key], rank(key[1], requirements), key[0]))
    # One fault can match formulas of several names, by width for instance; what they all violate counts.
    violated = Counter(r for v in wrong for r in {r for f in _of(v, check) for _, r, _ in f.candidates})
    enough = {r for r, n in violated.items() if 2 * n >= explained and 3 * n >= len(wrong)}
    clear = [k for k in order if 2 * matched[k] >= explained and 3 * matched[k] >= len(wrong)]
    order = clear or [k for k in order if k[1] in enough and violated[k[1]] == max(violated.values())]
    if order:
        told: dict[str, str] = {}
        for key in order[:3]:
            text = sentence[key].rstrip(". ")
            told.setdefault(text, f", in {matched[key]} of {_failing_runs(len(wrong))}")
        return {order[0][1]: told}
    name = _without_consensus(check, wrong, _right(check, verdicts), requirements)
    what = "the values are" if check == "values" else f"{check} is"
    text = f"{what} wrong in {_failing_runs(len(wrong))}, and no known wrong formula explains "
    text += "half of them" if matched else "them"
    return {name: {text: ""}}


def _of(verdict: Verdict, check: str) -> list[Finding]:
    return [finding for finding in verdict.failed if _by_consensus(finding, check)]


def _right(check: str, verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Give the runs in which the check found nothing: those that passed and had such a gradient to judge."""
    passed = [v for v in verdicts if v.verdict in ("pass", "warn")]
    if check == "values":
        return passed
    return [v for v in passed if any(GRADIENT_OF.get(role) == check for role in v.gradients)]


def _without_consensus(
    check: str, wrong: Sequence[Verdict], right: Sequence[Verdict], requirements: Mapping[str, Requirement]
) -> str:
    """Name wrong values that no formula explains, by which runs are wrong.

    A neutral run has no layout, dtype mix or argument that could be to blame. Where most of these are wrong,
    nothing narrower is to blame: GENERAL. Else it is a requirement of the neutral runs' findings, or, where
    all of these are right, of all findings: the lowest-ranked one, but of a gradient's neutral runs that of
    most.
    """
    failed = sum(v.neutral for v in wrong)
    if failed and failed >= MOST * (failed + sum(v.neutral for v in right)):
        return GENERAL[check]
    plain = [v for v in wrong if v.neutral]
    asked = Counter(r for v in plain or wrong for r in {_asked(check, v, f) for f in _of(v, check)})
    if plain and check != "values":
        return min(asked, key=lambda name: (-asked[name], rank(name, requirements)))
    return min(asked, key=lambda name: rank(name, requirements))


def _asked(check: str, verdict: Verdict, finding: Finding) -> str:
    """What a finding is named for, where a formula that it matches is not to name it.

    A gradient is often a matter of few small numbers, which some formula equals by coincidence: then it is
    what a run with features asks, or else accuracy.
    """
    if check == "values" or finding.requirement not in {c[1] for c in finding.candidates}:
        return finding.requirement
    asked = [r for r in verdict.requirements if r.startswith(LAYOUT_REQUIREMENTS)] if verdict.features else []
    return asked[0] if asked else GENERAL[check]


def _failing_runs(count: int) -> str:
    return f"{count} failing run" + ("" if count == 1 else "s")


def _how(name: str, message: str, runs: set[str]) -> str:
    where = f" ({len(runs)} run{'' if len(runs) == 1 else 's'})" if runs else ""
    return f"{name}: {message.rstrip('. ')}{where}"
