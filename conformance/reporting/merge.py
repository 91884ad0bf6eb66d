"""Joins result files: shards of one run, or runs of several implementations, and concludes again.

The order of the files does not matter: implementations and verdicts are sorted, and the verdict on each
implementation is computed anew from all its verdicts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from conformance.errors import DifferentCases, IncompleteReport
from conformance.model import VERDICTS, Requirement, Verdict
from conformance.reporting.conclude import ImplementationResult, conclude
from conformance.reporting.results import Result, Writer

SAME = ("suite", "cases_digest", "grade", "profile", "seed")
"""Header keys that must be equal in all files."""

ENVIRONMENT = ("device", "driver", "torch", "triton", "python", "numpy")
"""Header keys that belong to an implementation after a merge, since they may differ."""

SAME_ENTRY = ("spec", "version", "package", "digest", "modes", "declared", "missing")
"""Keys of an implementation that must be equal in all files that hold it."""

SHARD = re.compile(r"shard (\d+)/(\d+)\Z")
"""How `partial` names a shard; every other text is a run that nothing completes."""

SEVERAL = "several"
"""A header value of a merged file whose parts differ; each implementation's entry has its own."""


def conclude_all(
    header: Mapping[str, Any],
    verdicts: Sequence[Verdict],
    requirements: Mapping[str, Requirement],
    interrupted: str = "",
) -> tuple[ImplementationResult, ...]:
    """Conclude on every implementation of a header, in its order.

    Args:
        header: a result file's header; its `partial` and `development` decide whether a run is complete.
        verdicts: of all implementations, as the writer gave them back.
        requirements: id -> Requirement.
        interrupted: why planned runs have no verdict; else "".
    """
    results = []
    for entry in header["implementations"]:
        own_partial = entry.get("partial")
        partial = header.get("partial", "") if own_partial is None else own_partial
        why = [f"only a part was asked ({partial})"] if partial else []
        if interrupted:
            why.append(f"the run did not end ({interrupted})")
        if header.get("development"):
            why.append("a development run, with the user's own cases or waivers")
        results.append(
            conclude(
                entry["name"],
                verdicts,
                requirements,
                complete=not why,
                profile=header["profile"],
                declared=entry.get("declared", {}),
                modes=entry.get("modes", ()),
                grade=header["grade"],
                incomplete_because="; ".join(why),
                missing=entry.get("missing", ""),
            )
        )
    return tuple(results)


def merge(results: Sequence[Result], requirements: Mapping[str, Requirement]) -> Result:
    """Join results and conclude again.

    Args:
        results: one or more, each read from a whole file.
        requirements: id -> Requirement.

    Raises:
        DifferentCases: another suite version, cases digest, grade, profile or seed; one implementation in
            different versions or on different machines; or the same run twice.
        IncompleteReport: a result without a footer, or none at all.
    """
    if not results:
        raise IncompleteReport("there is nothing to merge", "name at least one result file")
    if any(result.footer is None for result in results):
        raise IncompleteReport("a result without a footer cannot be merged", "run the suite again")
    for key in SAME:
        _all_equal(key, [result.header[key] for result in results])
    entries = _join_entries(results)
    verdicts = _join_verdicts(results)
    header = {
        **results[0].header,
        **{key: _common([result.header[key] for result in results]) for key in ENVIRONMENT},
        "development": any(result.header["development"] for result in results),
        "options": sorted({option for result in results for option in result.header["options"]}),
        "partial": "; ".join(sorted({e["partial"] for e in entries if e["partial"]})),
        "implementations": entries,
    }
    interrupted = sorted({r.footer["interrupted"] for r in results if r.footer} - {""})
    implementations = conclude_all(header, verdicts, requirements, "; ".join(interrupted))
    counts = Counter(v.verdict for v in verdicts)
    footer = {
        "type": "footer",
        "verdicts": len(verdicts),
        "implementations": len(entries),
        "counts": {verdict: counts[verdict] for verdict in VERDICTS},
        "exit": 0 if all(one.certified for one in implementations) else 1,
        "interrupted": "; ".join(interrupted),
    }
    return Result(header, verdicts, implementations, footer)


def write(path: str | Path, result: Result) -> None:
    """Write a whole result, e.g. a merged one, to a file.

    Raises:
        IncompleteReport: the result has no footer.
    """
    if result.footer is None:
        raise IncompleteReport("a result without a footer cannot be written", "run the suite again")
    header = {key: value for key, value in result.header.items() if key not in ("type", "schema")}
    with Writer(path, header) as writer:
        for verdict in result.verdicts:
            writer.verdict(verdict)
        writer.close(result.implementations, result.footer["exit"], result.footer["interrupted"])


def _all_equal(what: str, values: Sequence[Any], of: str = "") -> None:
    first = values[0]
    other = next((value for value in values if value != first), first)
    if other != first:
        raise DifferentCases(
            f"{of}{what.replace('_', ' ')} {first!r} in one file, {other!r} in another",
            "merge only results of the same suite, cases, profile and grade; run one of them again",
        )


def _common(values: Sequence[str]) -> str:
    return values[0] if len(set(values)) == 1 else SEVERAL


def _join_entries(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Give one entry an implementation, sorted by name, with its own environment and completeness."""
    held: dict[str, list[tuple[Result, Mapping[str, Any]]]] = {}
    for result in results:
        for entry in result.header["implementations"]:
            held.setdefault(entry["name"], []).append((result, entry))
    entries = []
    for name, parts in sorted(held.items()):
        for key in SAME_ENTRY:
            _all_equal(key, [_plain(entry[key]) for _, entry in parts], f"{name}: ")
        environments = [
            entry["environment"] or {key: result.header[key] for key in ENVIRONMENT}
            for result, entry in parts
        ]
        for key in ENVIRONMENT:
            _all_equal(key, [environment.get(key, "") for environment in environments], f"{name}: ")
        partial = [
            result.header["partial"] if entry["partial"] is None else entry["partial"]
            for result, entry in parts
        ]
        entries.append(
            {
                **parts[0][1],
                "environment": environments[0],
                "partial": _join_partial(sorted(partial)),
            }
        )
    return entries


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _join_partial(parts: Sequence[str]) -> str:
    """Give "" where one whole run or all shards of one split are there, else what there is."""
    if "" in parts:
        return ""
    names = [name for part in parts for name in part.split("; ")]
    shards = [SHARD.match(name) for name in names]
    found = {(int(m[1]), int(m[2])) for m in shards if m}
    if all(shards) and found:
        totals = {total for _, total in found}
        if len(totals) == 1:
            total = totals.pop()
            if {index for index, _ in found} == set(range(1, total + 1)):
                return ""
    return "; ".join(sorted(set(names)))


def _join_verdicts(results: Sequence[Result]) -> tuple[Verdict, ...]:
    joined: dict[tuple[str, str], Verdict] = {}
    for result in results:
        for verdict in result.verdicts:
            key = (verdict.implementation, verdict.run)
            if key in joined:
                raise DifferentCases(
                    f"{verdict.implementation} has two verdicts for {verdict.run}",
                    "merge shards of one run, or runs of different implementations; leave out one file",
                )
            joined[key] = verdict
    return tuple(joined[key] for key in sorted(joined))
