"""Stage 5: verdicts go in; a result file, a page and a summary come out. Nothing is judged here.

Writer, read and Result are the result file (`conformance.reporting.results`); conclude_all gives the verdict
on each implementation after its last run; merge joins files; page and summary show them.

Raises IncompleteReport for a file that is not whole and DifferentCases for files that do not fit together.
"""

from __future__ import annotations

from conformance.reporting.conclude import ImplementationResult, conclude, declared_convention
from conformance.reporting.merge import conclude_all, merge, write
from conformance.reporting.results import Result, Writer, read
from conformance.reporting.scrub import scrub

__all__ = [
    "ImplementationResult",
    "Result",
    "Writer",
    "conclude",
    "conclude_all",
    "declared_convention",
    "merge",
    "read",
    "scrub",
    "write",
]
