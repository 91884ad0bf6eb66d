"""The numbers of a matrix: what was killed, by what, and what would not be missed. Imports no torch.

A *kill* is a run that failed or crashed. The *kill set* of a mutant is the set of (case, check) that killed
it; mutants with one and the same set are told apart by nothing that the suite asks.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from conformance import mutants
from conformance.matrix.equivalent import DTYPES, proofs
from conformance.matrix.lines import ANSWERED, Block, Matrix, RunLine

FEW = 3
"""A mutant that no more runs than this kill is a hard one."""

SEVERAL_RUNS = "(several runs compared)"
NOT_LOADED = "(not loaded)"
"""Stand in a kill set for a case, where no single run killed."""

COMPLETES = "completes"
"""The check that a crash without any finding counts for."""


@dataclass(frozen=True)
class Survivor:
    """A mutant that no run of one dtype of x killed. claim: what shows its fault, as its label has it.

    proof: why it is right in this dtype, "" where that is not proved.
    """

    spec: str
    dtype: str
    claim: str
    proof: str = ""


@dataclass(frozen=True)
class InDtype:
    """One dtype of x. asked: mutants of which some run in it was made."""

    dtype: str
    asked: int
    killed: int
    survivors: tuple[Survivor, ...]

    @property
    def proved(self) -> tuple[Survivor, ...]:
        return tuple(s for s in self.survivors if s.proof)


class Told:
    """What a matrix says. `claims` and `proved` read a mutant's file; both can be replaced for a test."""

    def __init__(
        self, matrix: Matrix, *, claims: Mapping[str, str] | None = None,
        proved: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:  # fmt: skip
        self.matrix = matrix
        blocks = [matrix.blocks[spec] for spec in sorted(matrix.blocks)]
        self.wrong = [b for b in blocks if b.closing.expected]
        self.right = [b for b in blocks if not b.closing.expected]
        present = {f"mutant:{n}" for n in mutants.names()} & {b.closing.spec for b in self.wrong}
        self._claims = claims if claims is not None else {s: _label(s).trigger for s in present}
        self._proved = proved if proved is not None else {s: proofs(_name(s)) for s in present}

    # --- how many were killed --------------------------------------------------------------------------

    @cached_property
    def survivors(self) -> list[str]:
        """Mutants that nothing killed, but for those that are proved right in every dtype that was asked."""
        return [b.closing.spec for b in self.wrong if not kill_set(b) and not self._is_proved(b)]

    @cached_property
    def refuted(self) -> list[str]:
        """Mutants that a run killed in a dtype for which they are proved right."""
        return [
            b.closing.spec
            for b in self.wrong
            if any(r.kills and r.dtype in self._proof_of(b.closing.spec) for r in b.runs)
        ]

    def _is_proved(self, block: Block) -> bool:
        dtypes = {r.dtype for r in block.runs if r.verdict in ANSWERED}
        return bool(dtypes) and dtypes <= self._proof_of(block.closing.spec).keys()

    def _proof_of(self, spec: str) -> Mapping[str, str]:
        return self._proved.get(spec, {})

    @cached_property
    def killed(self) -> list[Block]:
        return [b for b in self.wrong if kill_set(b)]

    @cached_property
    def by_dtype(self) -> list[InDtype]:
        """For fp16, bf16 and fp32: the mutants that were asked in it, and those that no run in it killed."""
        return [self._in_dtype(dtype) for dtype in DTYPES]

    def _in_dtype(self, dtype: str) -> InDtype:
        asked = [b for b in self.wrong if any(r.dtype == dtype and r.verdict in ANSWERED for r in b.runs)]
        left = [b.closing.spec for b in asked if not any(r.kills and r.dtype == dtype for r in b.runs)]
        survivors = tuple(
            Survivor(s, dtype, self._claims.get(s, ""), self._proof_of(s).get(dtype, "")) for s in left
        )
        return InDtype(dtype, len(asked), len(asked) - len(left), survivors)

    @cached_property
    def misnamed(self) -> list[Block]:
        """Killed, and named first for another requirement than that of the label."""
        return [b for b in self.killed if b.closing.named[:1] != (b.closing.expected,)]

    @property
    def named(self) -> int:
        """Killed mutants that are named as they are labelled."""
        return len(self.killed) - len(self.misnamed)

    @cached_property
    def accused(self) -> list[Block]:
        """Right variants that failed, could not be loaded, or were not warned as they should be."""
        return [b for b in self.right if kill_set(b) or b.closing.unwarned or not b.runs]

    # --- how they differ -------------------------------------------------------------------------------

    @cached_property
    def kill_sets(self) -> dict[frozenset[tuple[str, str]], list[str]]:
        """Kill set -> the mutants that have it."""
        found: dict[frozenset[tuple[str, str]], list[str]] = defaultdict(list)
        for block in self.killed:
            found[kill_set(block)].append(block.closing.spec)
        return dict(found)

    @property
    def alike(self) -> list[list[str]]:
        """Groups of mutants with one kill set, the largest first."""
        groups = [sorted(specs) for specs in self.kill_sets.values() if len(specs) > 1]
        return sorted(groups, key=lambda g: (-len(g), g))

    @cached_property
    def by_most_cases(self) -> list[str]:
        """Mutants that more than half of the cases asked kill; those that do not load are with them."""
        return [
            b.closing.spec
            for b in self.killed
            if b.closing.error or 2 * len({r.case for r in b.runs if r.kills}) > len(_cases(b))
        ]

    @cached_property
    def by_most_runs(self) -> list[str]:
        """Likewise, of the runs."""
        return [
            b.closing.spec
            for b in self.killed
            if b.closing.error or 2 * _kills(b) > sum(r.verdict in ANSWERED for r in b.runs)
        ]

    @cached_property
    def by_few_runs(self) -> list[str]:
        """Mutants that FEW runs or fewer kill, and at least one does."""
        return [b.closing.spec for b in self.killed if 0 < _kills(b) <= FEW]

    @cached_property
    def only_compared(self) -> list[str]:
        """Mutants that show in no single run, only where several are compared."""
        return [b.closing.spec for b in self.killed if not _kills(b) and not b.closing.error]

    # --- what would not be missed ----------------------------------------------------------------------

    @cached_property
    def cases(self) -> Worth:
        return _worth(self.wrong, lambda run: run.case)

    @cached_property
    def runs(self) -> Worth:
        return _worth(self.wrong, lambda run: run.run)

    # --- how much, how long ----------------------------------------------------------------------------

    @property
    def asked(self) -> int:
        """Distinct (mutant, case, dtype of x) that were asked and answered."""
        return len({(r.spec, r.case, r.dtype) for b in self.wrong for r in b.runs if r.verdict in ANSWERED})

    @property
    def verdicts(self) -> Counter[str]:
        """All verdicts, of mutants and variants."""
        return Counter(r.verdict for b in (*self.wrong, *self.right) for r in b.runs)

    @property
    def computed(self) -> float:
        """Seconds of all implementations together, as if one process had asked them all."""
        return sum(b.closing.seconds for b in (*self.wrong, *self.right))

    def slowest(self, count: int = 5) -> tuple[list[tuple[str, float]], list[tuple[str, float]]]:
        """(implementations, cases) that took longest, with the seconds of all their runs."""
        blocks = (*self.wrong, *self.right)
        cases: dict[str, float] = defaultdict(float)
        for run in (r for b in blocks for r in b.runs):
            cases[run.case] += run.seconds
        specs = {b.closing.spec: b.closing.seconds for b in blocks}
        return _largest(specs, count), _largest(cases, count)

    @property
    def good(self) -> bool:
        """No survivor, no false alarm, no proof refuted; and mutants were asked at all."""
        return bool(self.wrong) and not (self.survivors or self.accused or self.refuted)


@dataclass(frozen=True)
class Worth:
    """What cases, or runs, are worth, by what they kill.

    nothing: killed no mutant. replaceable: killed some, each of which another kills in that dtype too. alone:
    the only one to kill some mutant in some dtype.
    """

    nothing: tuple[str, ...]
    replaceable: tuple[str, ...]
    alone: tuple[str, ...]


def kill_set(block: Block) -> frozenset[tuple[str, str]]:
    """The (case, check) that killed; () where nothing did."""
    found = {(r.case, check) for r in block.runs if r.kills for check, _ in r.failed or ((COMPLETES, ""),)}
    found |= {(SEVERAL_RUNS, check) for check, _ in block.closing.overall}
    if block.closing.error:
        found.add((NOT_LOADED, block.closing.error))
    return frozenset(found)


def _worth(blocks: Iterable[Block], key: Callable[[RunLine], str]) -> Worth:
    killers: dict[tuple[str, str], set[str]] = defaultdict(set)
    asked: set[str] = set()
    for run in (r for b in blocks for r in b.runs if r.verdict in ANSWERED):
        name = key(run)
        asked.add(name)
        if run.kills:
            killers[run.spec, run.dtype].add(name)
    kills = set().union(*killers.values())
    alone = {name for names in killers.values() if len(names) == 1 for name in names}
    return Worth(tuple(sorted(asked - kills)), tuple(sorted(kills - alone)), tuple(sorted(alone)))


def _largest(seconds: Mapping[str, float], count: int) -> list[tuple[str, float]]:
    return sorted(seconds.items(), key=lambda item: (-item[1], item[0]))[:count]


def _kills(block: Block) -> int:
    return sum(r.kills for r in block.runs)


def _cases(block: Block) -> set[str]:
    return {r.case for r in block.runs if r.verdict in ANSWERED}


def _name(spec: str) -> str:
    return spec.partition(":")[2]


def _label(spec: str) -> mutants.Label:
    return mutants.label(_name(spec))
