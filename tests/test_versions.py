"""What is too old is said by name, with what to install."""

import pytest

from conformance import versions


def test_this_environment_is_supported() -> None:
    """Where the tests run nothing is too old."""
    assert versions.unsupported() == ""


@pytest.mark.parametrize(("name", "found"), [("torch", "2.5.1"), ("triton", "3.1.0"), ("numpy", "1.24.4")])
def test_an_old_package_is_named(monkeypatch: pytest.MonkeyPatch, name: str, found: str) -> None:
    """The message has the package, its version, and the command that helps."""
    real = versions.metadata.version
    monkeypatch.setattr(versions.metadata, "version", lambda n: found if n == name else real(n))
    message = versions.unsupported()
    assert f"{name} {found} is too old" in message
    assert f"pip install '{name}>=" in message


def test_a_missing_torch_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without torch nothing can be judged; without Triton much can."""

    def version(name: str) -> str:
        if name in ("torch", "triton"):
            raise versions.metadata.PackageNotFoundError(name)
        return "99.0"

    monkeypatch.setattr(versions.metadata, "version", version)
    assert versions.unsupported().startswith("torch is not installed")


def test_local_versions_parse() -> None:
    """A build suffix does not disturb."""
    assert versions.parsed("2.11.0+cu130") == (2, 11)
