"""The measurement as Markdown: one line a suite, then the mutants by the family of what they break."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from conformance.score import Score
from conformance.yardstick.measure import Measured
from conformance.yardstick.rules import Suite
from conformance.yardstick.suites import chosen

_HEAD = (
    "| rules (our re-implementation) | forward mutants | backward mutants | right variants rejected "
    "| shapes of x left out |"
)


def tables(
    found: Sequence[Measured],
    suites: Sequence[str] = (),
    *,
    elements: int | None = None,
    own: Sequence[Score] | None = None,
) -> str:
    """Both tables. elements: the limit that was measured with. own: this suite's score of the same."""
    used = chosen(suites)
    return f"{_counts(found, used, elements, own)}\n\n{_families(found, used)}"


def missed(found: Sequence[Measured]) -> str:
    """The mutants that are asked something and to which no rule objects, a line each."""
    left = [m for m in found if m.wrong and m.answers and not any(map(m.objected, m.answers))]
    lines = []
    for m in left:
        lines.append(f"no rule objects to {m.spec} ({m.breaks}); asked by {', '.join(m.answers)}")
    return "\n".join(lines)


def rejected(found: Sequence[Measured]) -> str:
    """The right variants that a rule objects to, a line each, with its first objection."""
    return "\n".join(
        f"{suite} rejects {m.spec}: {answer.objection}"
        for m in found
        if not m.wrong
        for suite, answer in m.answers.items()
        if answer.objection
    )


def _counts(
    found: Sequence[Measured], suites: Sequence[Suite], elements: int | None, own: Sequence[Score] | None
) -> str:
    groups = _groups(found)
    lines = [_HEAD, "| --- | --- | --- | --- | --- |"]
    for suite in suites:
        limit = suite.elements if elements is None else elements
        left = f"above {limit:,} elements" if limit else "none"
        cells = [_share(group, [suite]) for group in groups]
        lines.append(f"| {suite.title} @ {suite.commit[:7]} | {' | '.join(cells)} | {left} |")
    if len(suites) > 1:
        cells = [_share(group, suites) for group in groups]
        lines.append(f"| any of them | {' | '.join(cells)} | |")
    if own is not None:
        failed = {score.spec for score in own if score.failed}
        cells = [f"{sum(m.spec in failed for m in group)} / {len(group)}" for group in groups]
        lines.append(f"| this suite | {' | '.join(cells)} | none |")
    return "\n".join(lines)


def _groups(found: Iterable[Measured]) -> tuple[list[Measured], list[Measured], list[Measured]]:
    """Mutants of the forward, mutants of the backward, right variants."""
    whole = list(found)
    wrong, right = [m for m in whole if m.wrong], [m for m in whole if not m.wrong]
    return [m for m in wrong if not m.backward], [m for m in wrong if m.backward], right


def _share(group: Sequence[Measured], suites: Sequence[Suite]) -> str:
    """Objected to / asked, by any of the suites."""
    names = [suite.name for suite in suites]
    asked = [m for m in group if any(name in m.answers for name in names)]
    if not asked:
        return "not asked"
    return f"{sum(any(m.objected(name) for name in names) for m in asked)} / {len(asked)}"


def _families(found: Sequence[Measured], suites: Sequence[Suite]) -> str:
    """Caught / asked for each family of requirements, so that what a suite's inputs do not show is seen."""
    families = sorted({m.breaks.split("-", 1)[0] for m in found if m.wrong})
    lines = [
        f"| the mutant breaks | {' | '.join(suite.name for suite in suites)} | any |",
        "| --- |" + " --- |" * (len(suites) + 1),
    ]
    for family in families:
        group = [m for m in found if m.wrong and m.breaks.split("-", 1)[0] == family]
        cells = [_share(group, [suite]) for suite in suites] + [_share(group, suites)]
        lines.append(f"| {family} | {' | '.join(cells)} |")
    return "\n".join(lines)
