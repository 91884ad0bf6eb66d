"""What only several training runs can show: whether the op is differentiable in all, and its conventions.

All functions take the verdicts of one implementation in any order and give the same result for every order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from conformance.model import GRADIENT_OF, Finding, Verdict
from conformance.reporting.consistency import CHECK, COMPUTED, combination, forward_only, in_words, join

BACKWARD = ("DX", "DRESIDUAL", "DWEIGHT", "GRADMODE")
"""The requirement families that only training runs are asked, in the order in which a page shows them."""


def gradmode_alike(verdicts: Iterable[Verdict]) -> tuple[Finding, ...]:
    """Find the modes in which some training runs gave outputs without a graph, and others with one.

    An op without any graph is forward only, which is no fault. Where it loses its graph for a dtype, a size
    or a layout, training goes on in silence without that gradient.
    """
    without: dict[str, list[Verdict]] = defaultdict(list)
    graph: dict[str, list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        if forward_only(verdict):
            without[verdict.mode].append(verdict)
        elif has_gradients(verdict):
            graph[verdict.mode].append(verdict)
    findings = []
    for mode in sorted(without.keys() & graph.keys()):
        runs = sorted(without[mode], key=lambda v: v.run)
        first = runs[0]
        twin = min(graph[mode], key=lambda v: _distance(first, v))
        more = f" and {len(runs) - 1} more" if len(runs) > 1 else ""
        message = (
            f"no output of {first.run}{more} requires a gradient, although an input does; those of "
            f"{twin.run} do. Make every dtype, size and layout differentiable, or refuse it with an exception"
        )
        where = {
            "mode": mode,
            "dtypes": combination(first.dtypes),
            "run": first.run,
            "passed": twin.run,
            "without": len(runs),
            "training": True,
        }
        findings.append(Finding(CHECK, "GRADMODE-ALIKE", "fail", message, where))
    return tuple(findings)


def has_gradients(verdict: Verdict) -> bool:
    """Tell whether a training run came to a backward, as far as its verdict shows."""
    if not verdict.gradients:
        return False
    if verdict.verdict in COMPUTED or verdict.gradient_conventions:
        return True
    about = {f.requirement for f in verdict.findings} - {"GRADMODE-UNASKED"}  # that needs no graph
    return any(requirement.split("-", 1)[0] in BACKWARD for requirement in about)


def _distance(one: Verdict, other: Verdict) -> tuple[bool, bool, bool, bool, int, str]:
    """Sort the runs with a graph: one that passed, and that differs in as little as possible, first."""
    return (
        other.verdict not in COMPUTED,
        combination(other.dtypes) != combination(one.dtypes),
        sorted(other.features) != sorted(one.features),
        other.case != one.case,
        abs(other.n_rows * other.hidden_size - one.n_rows * one.hidden_size),
        other.run,
    )


def gradient_conventions(verdicts: Iterable[Verdict]) -> dict[str, dict[str, str]]:
    """Give "mode/dtypes" -> gradient -> the conventions that explain it in every run, in words.

    They need not be one: dx and dweight may round in different places, and where a sum is split may depend on
    the size. So this is told, and never warned of.
    """
    groups: dict[tuple[str, str], list[tuple[str, ...]]] = defaultdict(list)
    for verdict in verdicts:
        key = f"{verdict.mode}/{combination(verdict.dtypes)}"
        for gradient, names in verdict.gradient_conventions.items():
            if names:
                groups[key, gradient].append(names)
    order = list(GRADIENT_OF.values())
    found: dict[str, dict[str, str]] = {}
    ranked = sorted(groups, key=lambda k: (k[0], order.index(k[1]) if k[1] in order else len(order), k[1]))
    for key, gradient in ranked:
        shared = set.intersection(*(set(names) for names in groups[key, gradient]))
        found.setdefault(key, {})[gradient] = in_words(sorted(shared), most=2)
    return found


def gradient_words(words: Mapping[str, str]) -> str:
    """Put the conventions of some gradients in one line: "dx: exact sum, a rounded; dweight: exact sum"."""
    alike: dict[str, list[str]] = defaultdict(list)
    for gradient, text in words.items():
        alike[text].append(gradient)
    return "; ".join(f"{' and '.join(names)}: {text}" for text, names in alike.items())


def gradient_sentences(found: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
    """Put them in words, one sentence for all mode and dtype combinations that share them."""
    alike: dict[str, list[str]] = defaultdict(list)
    for key, words in sorted(found.items()):
        alike[gradient_words(words)].append(key)
    return tuple(f"{join(keys)}: {text}" for text, keys in sorted(alike.items(), key=lambda item: item[1]))
