"""The examples in the documentation run as they stand."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from conformance.calling import targets

ROOT = Path(__file__).parent.parent
KERNEL = """
import torch


def fused_add_rms_norm_(x, residual, weight, eps):
    residual.add_(x)
    total = residual.float()
    y = total * torch.rsqrt(total.square().mean(-1, keepdim=True) + eps) * weight.float()
    x.copy_(y)

"""


def test_the_declaration_of_the_adapter_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module with the guide's lines is found by module and name, and read as it declares."""
    (block,) = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / "adapters.md").read_text(), re.M | re.S)
    (tmp_path / "guidepkg.py").write_text(KERNEL + block)
    monkeypatch.syspath_prepend(tmp_path)
    implementation = targets.load("guidepkg:mypkg")
    assert implementation.name == "mypkg"
    (call,) = implementation.calls.values()
    assert call.mutates == {"x": "y", "residual": "residual_out"}
    assert implementation.dtypes == ("float16", "bfloat16")
    sys.modules.pop("guidepkg")


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "INTERPRETING.md", "reports/README.md"])
def test_relative_links_lead_somewhere(name: str) -> None:
    """Every file that a page links to exists."""
    page = ROOT / name
    links = re.findall(r"\]\(([^)#:]+)\)", page.read_text("utf-8"))
    assert links
    assert [link for link in links if not (page.parent / link).exists()] == []
