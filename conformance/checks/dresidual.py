"""Check dresidual: the values of dx, in residual's dtype, by the same rule."""

from conformance.checks.dx import asked, judged
from conformance.model import Finding
from conformance.seen import Seen

NAME = "dresidual"
REQUIREMENTS = ("DRESIDUAL-ADDED", "DRESIDUAL-AFTER", "DRESIDUAL-SAME", "DRESIDUAL-ACCURACY", "DX-WEIGHT")


def applies(seen: Seen) -> bool:
    return asked(seen, "residual")


def check(seen: Seen) -> list[Finding]:
    return judged(seen, "residual", "DRESIDUAL-ACCURACY")
