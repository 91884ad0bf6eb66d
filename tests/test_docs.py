"""The examples in the documentation run as they stand."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from small_runs import Tried, run

from conformance.calling import targets
from conformance.model import Fill

ROOT = Path(__file__).parent.parent
KERNEL = """
import torch


def fused_add_rms_norm_(x, residual, weight, eps):
    residual.add_(x)
    total = residual.float()
    y = total * torch.rsqrt(total.square().mean(-1, keepdim=True) + eps) * weight.float()
    x.copy_(y)

"""


PAIR = """
import torch


def rms_norm_fwd(x, weight, eps):
    x32 = x.float()
    rrms = torch.rsqrt(x32.square().mean(-1, keepdim=True) + eps)
    return (x32 * rrms * weight.float()).to(x.dtype), rrms.reshape(-1)


def rms_norm_bwd(dy, x, weight, rrms):
    width = x.shape[-1]
    x_hat = x.float().reshape(-1, width) * rrms[:, None]
    dy32 = dy.float().reshape(-1, width)
    a = dy32 * weight.float()
    dx = rrms[:, None] * (a - x_hat * (x_hat * a).mean(-1, keepdim=True))
    return dx.to(x.dtype).reshape(x.shape), (dy32 * x_hat).sum(0).to(weight.dtype)

"""


def guide() -> list[str]:
    """The Python blocks of the adapter guide."""
    return re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / "adapters.md").read_text(), re.M | re.S)


def test_the_declaration_of_the_adapter_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module with the guide's lines is found by module and name, and read as it declares."""
    block, _ = guide()
    (tmp_path / "guidepkg.py").write_text(KERNEL + block)
    monkeypatch.syspath_prepend(tmp_path)
    implementation = targets.load("guidepkg:mypkg")
    assert implementation.name == "mypkg"
    (call,) = implementation.calls.values()
    assert call.mutates == {"x": "y", "residual": "residual_out"}
    assert implementation.dtypes == ("float16", "bfloat16")
    sys.modules.pop("guidepkg")


def test_the_explicit_backward_of_the_adapter_guide(tried: Tried) -> None:
    """The guide's second declaration is called after the forward, and its gradients pass."""
    _, block = guide()
    (tried.folder / "pairpkg.py").write_text(PAIR + block)
    loaded = tried.bench.load("pairpkg:pair")
    assert loaded.implementation is not None, loaded.message
    backward = loaded.implementation.calls["none"].backward
    assert backward is not None
    assert backward.returns == ("dx", "dweight")
    asked = run(mode="none", gradients=("x", "weight"), upstream=("y",))
    asked = replace(asked, fills={**asked.fills, "dy": Fill(seed=101)})
    verdict = tried.bench.verdict("pairpkg:pair", asked)
    assert (verdict.verdict, verdict.findings) == ("pass", ())
    assert set(verdict.gradient_conventions) == {"dx", "dweight"}


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "CONTRIBUTING.md",
        "INTERPRETING.md",
        "reports/README.md",
        "docs/design.md",
        "docs/accuracy.md",
    ],
)
def test_relative_links_lead_somewhere(name: str) -> None:
    """Every file that a page links to exists."""
    page = ROOT / name
    links = re.findall(r"\]\(([^)#:]+)\)", page.read_text("utf-8"))
    assert links
    assert [link for link in links if not (page.parent / link).exists()] == []
