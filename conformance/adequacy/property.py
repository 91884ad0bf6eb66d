"""What a property of the inputs is: data with two small functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from conformance.loading.combinations import impossible
from conformance.model import Run

DEAREST = 1 << 20
"""Elements of x above which a changed run is not asked: an answer is to come in minutes."""


@dataclass(frozen=True)
class Property:
    """One way in which inputs are blind.

    Attributes:
        name: two to five words that complete "blind by".
        sentence: what the inputs are like, and which wrong kernel passes them.
        remedy: what to write in a case.
        lacks: whether one run is blind in this way; True also where it could not be otherwise.
        changes: the run with this one thing changed, the gentlest way first; nothing where it cannot be.
        shows: how the ids of the requirements begin whose mutants are tried with it first. It saves time and
            decides nothing: a mutant that these do not show is tried with all the others.
        beyond: properties that are more basic; it is tried only where the change of none of these shows the
            mutant, since its own change makes theirs too.
        over_all: whether runs together are blind, where `lacks` for each of them does not say it.
    """

    name: str
    sentence: str
    remedy: str
    lacks: Callable[[Run], bool]
    changes: Callable[[Run], Iterable[Run | None]]
    shows: tuple[str, ...] = ()
    beyond: tuple[str, ...] = ()
    over_all: Callable[[Sequence[Run]], bool] | None = None

    def blind(self, runs: Sequence[Run]) -> bool:
        """Whether none of these runs has what it takes."""
        return self.over_all(runs) if self.over_all else all(self.lacks(run) for run in runs)

    def changed(self, run: Run) -> Iterator[Run]:
        """The run with the one thing changed, in each way that can be asked; its id says so."""
        for number, made in enumerate(self.changes(run)):
            if made is None:
                continue
            made = replace(
                made, id=f"{run.id}~{self.name}{'' if number == 0 else f' {number + 1}'}", core=False
            )
            if made.n_rows * made.hidden_size <= DEAREST and impossible(made) is None:
                yield made

    def aims_at(self, requirement: str) -> bool:
        """Whether the mutants of a requirement are tried with it first."""
        return requirement.startswith(self.shows) if self.shows else False
