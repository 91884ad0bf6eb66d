"""The answer in words for somebody who has never seen it, and the same as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from conformance import mutants
from conformance.adequacy.measure import Adequacy, Outcome, bundled_for
from conformance.adequacy.properties import PROPERTIES
from conformance.adequacy.property import Property
from conformance.model import SHORT_DTYPE, Run

WIDTH = 110


def text(found: Adequacy) -> str:
    """Counts first; then what no run has, what some runs have, and what no single change explains."""
    lines = [_asked_about(found.runs), _counts(found), *_not_asked(found)]
    plain, partly = hiding(found, partly=False), hiding(found, partly=True)
    if plain:
        lines += ["", "What hides mutants. A mutant stands under each property whose change alone shows it."]
    for one, names in plain.items():
        lines += _property(one, names)
    if partly:
        lines += ["", "Other runs of yours do have the following, but not those that these mutants need:"]
    for one, names in partly.items():
        lines += _property(one, names)
    lines += _unexplained(found)
    for state, said in (("unfinished", "Not decided"), ("broken", "The suite itself failed on")):
        lines += ["", f"{said}:"] if found.of_state(state) else []
        lines += [f"  {o.mutant}: {o.why}" for o in found.of_state(state)]
    first = additions(found)
    if first:
        lines += ["", *_wrapped(_advice(found, first))]
    return "\n".join(lines)


def as_json(found: Adequacy) -> dict[str, Any]:
    """The same: counts, the properties with their mutants, and every outcome."""
    return {
        "runs": [run.id for run in found.runs],
        "counts": {
            "asked": len(_decided(found)),
            "seen": len(found.of_state("seen")),
            "hidden": len(found.of_state("hidden")),
        },
        "not_asked": {reason: list(names) for reason, names in _out_of_reach(found).items()},
        "properties": [
            {
                "name": one.name, "sentence": one.sentence, "remedy": one.remedy, "partly": partly,
                "hides": list(names),
            }
            for partly in (False, True)
            for one, names in hiding(found, partly).items()
        ],
        "additions": [{"name": one.name, "shows": list(names)} for one, names in additions(found)],
        "mutants": [_mutant(o) for o in found.outcomes],
    }  # fmt: skip


def hiding(found: Adequacy, partly: bool) -> dict[Property, tuple[str, ...]]:
    """Property -> the mutants that it hides, the property that hides most of them first.

    partly: of properties that other runs of the user have.
    """
    groups: dict[str, tuple[str, ...]] = {}
    for outcome in found.of_state("hidden"):
        for by in outcome.hidden_by:
            if by.partly is partly:
                groups[by.name] = (*groups.get(by.name, ()), outcome.mutant)
    known = [(one, groups[one.name]) for one in PROPERTIES if one.name in groups]
    return dict(sorted(known, key=lambda item: -len(item[1])))


def additions(found: Adequacy) -> list[tuple[Property, tuple[str, ...]]]:
    """A short list of properties to add, each with the mutants that it shows beyond those before it."""
    left = {o.mutant: {h.name for h in o.hidden_by} for o in found.of_state("hidden") if o.hidden_by}
    chosen = []
    while left:
        best = max(PROPERTIES, key=lambda p: sum(p.name in names for names in left.values()))
        shown = tuple(mutant for mutant, names in left.items() if best.name in names)
        chosen.append((best, shown))
        left = {mutant: names for mutant, names in left.items() if mutant not in shown}
    return chosen


# --- counts ----------------------------------------------------------------------------------------------


def _decided(found: Adequacy) -> list[Outcome]:
    return [o for o in found.outcomes if o.state in ("seen", "hidden")]


def _counts(found: Adequacy) -> str:
    return f"sees {len(found.of_state('seen'))} of {len(_decided(found))} mutants"


def _asked_about(runs: Sequence[Run]) -> str:
    trains = sum(run.trains for run in runs)
    modes = ", ".join(dict.fromkeys(run.mode for run in runs))
    dtypes = ", ".join(dict.fromkeys(SHORT_DTYPE[run.dtypes["x"]] for run in runs))
    widths = sorted({run.hidden_size for run in runs})
    width = f"width {widths[0]}" if len(widths) == 1 else f"widths {widths[0]} to {widths[-1]}"
    training = f"{trains} of them training runs" if trains else "none of them a training run"
    return f"{_number(len(runs), 'run')}, {training} (mode {modes}; {dtypes}; {width})"


def _out_of_reach(found: Adequacy) -> Mapping[str, tuple[str, ...]]:
    """Reason -> the mutants that were not asked, and those that could not be."""
    reasons = dict(found.not_asked)
    for outcome in found.of_state("out of reach"):
        reason = f"no run could be put to them ({outcome.why})"
        reasons[reason] = (*reasons.get(reason, ()), outcome.mutant)
    return reasons


def _not_asked(found: Adequacy) -> list[str]:
    return [
        line
        for reason, names in sorted(_out_of_reach(found).items(), key=lambda item: -len(item[1]))
        for line in _wrapped(f"not counted: {_number(len(names), 'mutant')}, since {reason}{_few(names)}")
    ]


def _few(names: Sequence[str]) -> str:
    return f": {', '.join(names)}" if len(names) <= 4 else ""


# --- properties ------------------------------------------------------------------------------------------


def _property(one: Property, names: Sequence[str]) -> list[str]:
    return [
        "",
        f"{one.name}: hides {len(names)}",
        *_wrapped(f"{_capital(one.sentence)}.", "  "),
        *_wrapped(f"In a case: {one.remedy}.", "  "),
        *_wrapped(", ".join(names), "    "),
    ]


def _advice(found: Adequacy, chosen: Sequence[tuple[Property, tuple[str, ...]]]) -> str:
    """The shortest way: which additions show how many more."""
    seen, total = len(found.of_state("seen")), len(_decided(found))
    told = []
    for one, shown in chosen[:3]:
        seen += len(shown)
        told.append(f"without '{one.name}' these cases would see {seen}")
    rest = sum(len(shown) for _, shown in chosen[3:])
    more = f"; all {len(chosen)} that are listed together, {seen + rest}" if rest else ""
    return f"In this order: {', '.join(told)}{more}, of {total}."


def _unexplained(found: Adequacy) -> list[str]:
    lines: list[str] = []
    for outcome in found.of_state("hidden"):
        if not outcome.hidden_by:
            label = mutants.label(outcome.mutant)
            lines += ["", *_wrapped(f"{outcome.mutant}: {label.fault.removeprefix('Mutant: ')}", "  ")]
            lines += _wrapped(f"It takes: {label.trigger}. {_where(outcome)}", "    ")
    if lines:
        lines[:0] = ["", f"No single change of your runs shows {_number(len(_bare(found)), 'mutant')}:"]
    return lines


def _bare(found: Adequacy) -> list[Outcome]:
    return [o for o in found.of_state("hidden") if not o.hidden_by]


def _where(outcome: Outcome) -> str:
    if outcome.bundled:
        return f"The bundled run {outcome.bundled} sees it."
    label = mutants.label(outcome.mutant)
    written = ", ".join(run.id for run in bundled_for(label)[:3])
    return f"Bundled runs written for {label.breaks}: {written}." if written else f"It breaks {label.breaks}."


def _mutant(outcome: Outcome) -> dict[str, Any]:
    label = mutants.label(outcome.mutant)
    return {
        "name": outcome.mutant, "state": outcome.state, "breaks": label.breaks, "backward": label.backward,
        "asked": outcome.asked, "run": outcome.run,
        "hidden_by": [{"name": h.name, "partly": h.partly, "run": h.run} for h in outcome.hidden_by],
        "bundled": outcome.bundled, "why": outcome.why, "seconds": outcome.seconds,
    }  # fmt: skip


def _capital(sentence: str) -> str:
    """With a capital letter, but for the names of tensors and arguments."""
    first = sentence.split()[0].rstrip(",")
    return sentence if first in ("x", "dy", "eps", "weight_offset") else sentence[0].upper() + sentence[1:]


def _number(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")


def _wrapped(line: str, indent: str = "") -> Iterable[str]:
    return textwrap.wrap(
        line, WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
