"""Which runs a right variant is asked today: a spread over the costs, another one each day.

Runs are sorted by cost and every `step`-th is taken. The rotation, by default the number of the day, says
with which to begin: after `step` days each run was asked once, and every day asks cheap and dear ones.
Variants begin at different places, so that one day asks many runs.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Sequence
from typing import TypeVar

_Run = TypeVar("_Run")
_DAY = 24 * 60 * 60


def today() -> int:
    """The rotation of this day (UTC): the same for every process until midnight."""
    return int(time.time()) // _DAY


def rotated(runs: Sequence[_Run], number: int, rotation: int, name: str = "") -> list[_Run]:
    """At least `number` of the runs, evenly spread; all where there are no more.

    `step` rotations after each other give every run exactly once. name: of the variant, which shifts it.
    """
    step = max(1, len(runs) // number)
    return list(runs)[(rotation + zlib.crc32(name.encode())) % step :: step]
