"""What only several runs can show: one convention per dtype combination, and refusals that are alike.

Training and forward runs share the convention of y, as they are one op. What only training runs show is in
`conformance.reporting.training`.

All functions take the verdicts of one implementation in any order and give the same result for every order.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
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


REFUSED = "refused: "
"""What the reason of a run holds that the call itself refused, before what it raised."""

FORWARD_ONLY = "forward only"
"""How the reason of a training run begins whose outputs require no gradient: it came to no backward."""


def forward_only(verdict: Verdict) -> bool:
    """Tell whether a training run came to no backward, because no output requires a gradient."""
    return (
        bool(verdict.gradients)
        and verdict.verdict == "unsupported"
        and verdict.reason.startswith(FORWARD_ONLY)
    )


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
    return tuple(
        f"{join(keys)}: {in_words(names)}" for names, keys in sorted(alike.items(), key=lambda item: item[1])
    )


def in_words(names: Sequence[str], most: int = 3) -> str:
    """Say which convention it is, given those that explain every run; more than `most` are only counted."""
    if not names:
        return "changes from run to run"
    if len(names) == 1:
        return names[0]
    if len(names) > most:
        return f"undetermined: {len(names)} conventions fit"
    return "undetermined between " + " and ".join(f"'{name}'" for name in names)


def join(keys: Iterable[str]) -> str:
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
    written to be refused are no twins: they may pass because they were refused. A training run is compared
    with training runs, since a backward may be refused where the forward is not. One that cannot be asked,
    for want of a graph or of a parameter for a gradient that arrives, was not refused by the call.
    """
    refused: dict[tuple[str, str, tuple[str, ...], bool], list[Verdict]] = defaultdict(list)
    passed: dict[tuple[str, str, tuple[str, ...], bool], list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        if verdict.requirements and verdict.requirements[0] in MEANT_TO_BE_REFUSED:
            continue
        key = (
            verdict.mode,
            combination(verdict.dtypes),
            tuple(sorted(verdict.features)),
            bool(verdict.gradients),
        )
        asked = not verdict.gradients or REFUSED in verdict.reason
        if verdict.verdict == "unsupported" and asked:
            refused[key].append(verdict)
        elif verdict.verdict in COMPUTED:
            passed[key].append(verdict)
    findings = []
    for key in sorted(refused.keys() & passed.keys()):
        mode, dtypes, features, trains = key
        runs = sorted(refused[key], key=lambda v: v.run)
        twin = min(passed[key], key=lambda v: v.run)
        more = f" and {len(runs) - 1} more" if len(runs) > 1 else ""
        special = " ".join(features) or "nothing special"
        said = f" ({runs[0].reason})" if runs[0].reason else ""
        message = (
            f"refused {'to train ' if trains else ''}{runs[0].run}{more}{said}, but computed {twin.run}, "
            f"which has the same mode, dtypes and layouts ({mode}, {dtypes}, {special}); "
            "a size, a value or a repeat may not be refused"
        )
        where = {
            "mode": mode,
            "dtypes": dtypes,
            "run": runs[0].run,
            "passed": twin.run,
            "refused": len(runs),
            **({"training": True} if trains else {}),
        }
        findings.append(Finding(CHECK, "REFUSE-ALIKE", "fail", message, where))
    return tuple(findings)
