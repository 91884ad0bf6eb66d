"""The exit code of a certification: what each profile has to show for a 0."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.certification import Certification, Options
from conformance.model import PROFILES
from conformance.reporting.conclude import ImplementationResult


def exit_code(profile: str, folder: Path, certified: bool, **counts: int) -> int:
    """Of one implementation with so many verdicts of each kind."""
    certification = Certification(Options(("mine",), profile=profile), folder)
    certification.__dict__["header"] = {"partial": "", "development": False}
    certification.results = (
        ImplementationResult("mine", certified=certified, complete=True, sentence="", counts=counts),
    )
    return certification.exit_code()


@pytest.mark.parametrize("profile", ["smoke", "training"])
def test_a_part_needs_no_certificate(profile: str, tmp_path: Path) -> None:
    """smoke and training alone certify nothing: 0 where something passed and nothing failed."""
    assert exit_code(profile, tmp_path, False, **{"pass": 3}) == 0
    assert exit_code(profile, tmp_path, False, warn=1, unsupported=2) == 0
    assert exit_code(profile, tmp_path, False, **{"pass": 3, "fail": 1}) == 1
    assert exit_code(profile, tmp_path, False, unsupported=9) == 1


@pytest.mark.parametrize("profile", ["default", *sorted(set(PROFILES) - {"smoke", "training"})])
def test_a_whole_profile_needs_one(profile: str, tmp_path: Path) -> None:
    """Everything else is 0 only with the certificate."""
    assert exit_code(profile, tmp_path, False, **{"pass": 3}) == 1
    assert exit_code(profile, tmp_path, True, **{"pass": 3}) == 0
