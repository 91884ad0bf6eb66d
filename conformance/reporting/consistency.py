"""What only several runs can show: one convention per dtype combination, and refusals that are alike.

All functions take the verdicts of one implementation in any order and give the same result for every order.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from conformance.model import SHORT_DTYPE, Finding, Verdict

CHECK = "consistency"
"""The name of the check that these findings carry."""

COMPUTED = ("pass", "warn")

MEANT_TO_BE_REFUSED = (
    "REFUSE-CLEAN",
    "REFUSE-SHAPE",
    "REFUSE-DEVICE",
    "REFUSE-EPS",
    "REFUSE-INTEGER",
)
"""A run written for one of these may pass by refusing, so it says nothing about its valid twins."""


def combination(dtypes: Mapping[str, str]) -> str:
    """Give a dtype combination in short words: "bf16", or "x=bf16,weight=fp32" where they differ."""
    short = {name: SHORT_DTYPE.get(dtype, dtype) for name, dtype in dtypes.items()}
    if len(set(short.values())) == 1:
        return next(iter(short.values()))
    order = sorted(short, key=lambda name: ("x", "residual", "weight", name).index(name))
    return ",".join(f"{name}={short[name]}" for name in order)


@dataclass(frozen=True)
class Conventions:
    """The conventions of one implementation.

    found: "mode/dtypes" -> the conventions that explain every run; empty where none explains all.
    findings: the warnings and failures of ACCURACY-CONVENTION.
    """

    found: Mapping[str, tuple[str, ...]]
    findings: tuple[Finding, ...]


def conventions(verdicts: Iterable[Verdict], declared: Mapping[str, str]) -> Conventions:
    """Find the convention of each (mode, dtype combination) over all its runs.

    Args:
        verdicts: all verdicts of one implementation.
        declared: mode -> the declared convention in words, e.g. "one rounding, exact sum" or only a part
            of it, "two roundings"; a mode without a declaration is absent or "".
    """
    groups: dict[tuple[str, str], list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        if verdict.conventions:
            groups[verdict.mode, combination(verdict.dtypes)].append(verdict)
    found, findings = {}, []
    for (mode, dtypes), group in sorted(groups.items()):
        group.sort(key=lambda v: v.run)
        shared = set.intersection(*(set(v.conventions) for v in group))
        key = f"{mode}/{dtypes}"
        found[key] = tuple(sorted(shared))
        claim = declared.get(mode, "")
        if not shared:
            findings.append(_changes(mode, dtypes, group, claim))
        elif claim and not any(_parts(claim) <= _parts(name) for name in shared):
            message = (
                f"{key}: the declared convention is '{claim}', but {' or '.join(sorted(shared))} "
                f"explains all {len(group)} runs; correct the declaration or the kernel"
            )
            where = {"mode": mode, "dtypes": dtypes, "run": group[0].run}
            findings.append(Finding(CHECK, "ACCURACY-CONVENTION", "fail", message, where))
    return Conventions(found, tuple(findings))


def _parts(convention: str) -> set[str]:
    return {part.strip() for part in convention.split(",")}


def _changes(mode: str, dtypes: str, group: list[Verdict], claim: str) -> Finding:
    """Say which convention explains most runs, and the first run that it does not explain."""
    counts = Counter(name for verdict in group for name in verdict.conventions)
    most = min(counts, key=lambda name: (-counts[name], name))
    other = next(v for v in group if most not in v.conventions)
    message = (
        f"{mode}/{dtypes}: the convention changes: '{most}' explains {counts[most]} of {len(group)} runs, "
        f"but {other.run} only fits '{' or '.join(sorted(other.conventions))}'"
    )
    if claim:
        message += f"; '{claim}' was declared"
    severity = "fail" if claim else "warn"
    where = {
        "mode": mode,
        "dtypes": dtypes,
        "run": other.run,
        "convention": most,
        "explains": counts[most],
        "of": len(group),
    }
    return Finding(CHECK, "ACCURACY-CONVENTION", severity, message, where)


def convention_sentences(found: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Put the conventions in words, one sentence for all combinations that share one."""
    alike: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for key, names in sorted(found.items()):
        alike[tuple(names)].append(key)
    lines = []
    for names, keys in sorted(alike.items(), key=lambda item: item[1]):
        if not names:
            text = "changes from run to run"
        elif len(names) == 1:
            text = names[0]
        elif len(names) > 3:
            text = f"undetermined: {len(names)} conventions give these outputs"
        else:
            text = "undetermined between " + " and ".join(f"'{name}'" for name in names)
        lines.append(f"{_join(keys)}: {text}")
    return tuple(lines)


def _join(keys: list[str]) -> str:
    """Join "mode/dtypes" keys by mode: "none/bf16 fp16; residual/bf16 and 6 dtype mixes"."""
    modes: dict[str, list[str]] = defaultdict(list)
    for key in keys:
        mode, _, dtypes = key.partition("/")
        modes[mode].append(dtypes)
    parts = []
    for mode, names in modes.items():
        mixes = [name for name in names if "=" in name]
        words = " ".join(name for name in names if "=" not in name or len(mixes) <= 1)
        if len(mixes) > 1:
            words += f"{' and ' if words else ''}{len(mixes)} dtype mixes"
        parts.append(f"{mode}/{words}")
    return "; ".join(parts)


def refusals(verdicts: Iterable[Verdict]) -> tuple[Finding, ...]:
    """Find the refusals that are not alike: the very same features and dtypes passed in another run.

    Such a refusal can only be for a size, a value or a repeat, and those may never be refused. Runs that were
    written to be refused are no twins: they may pass because they were refused.
    """
    refused: dict[tuple[str, str, tuple[str, ...]], list[Verdict]] = defaultdict(list)
    passed: dict[tuple[str, str, tuple[str, ...]], list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        if verdict.requirements and verdict.requirements[0] in MEANT_TO_BE_REFUSED:
            continue
        key = (verdict.mode, combination(verdict.dtypes), tuple(sorted(verdict.features)))
        if verdict.verdict == "unsupported":
            refused[key].append(verdict)
        elif verdict.verdict in COMPUTED:
            passed[key].append(verdict)
    findings = []
    for key in sorted(refused.keys() & passed.keys()):
        mode, dtypes, features = key
        runs = sorted(refused[key], key=lambda v: v.run)
        twin = min(passed[key], key=lambda v: v.run)
        more = f" and {len(runs) - 1} more" if len(runs) > 1 else ""
        said = f" ({runs[0].reason})" if runs[0].reason else ""
        message = (
            f"refused {runs[0].run}{more}{said}, but computed {twin.run}, which has the same mode, dtypes "
            f"and layouts ({mode}, {dtypes}, {' '.join(features) or 'nothing special'}); "
            "a size, a value or a repeat may not be refused"
        )
        where = {
            "mode": mode,
            "dtypes": dtypes,
            "run": runs[0].run,
            "passed": twin.run,
            "refused": len(runs),
        }
        findings.append(Finding(CHECK, "REFUSE-ALIKE", "fail", message, where))
    return tuple(findings)
