"""Small runs, and small implementations put to them through a real worker."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

from conformance.bench import Bench
from conformance.load import requirements
from conformance.model import UPSTREAM_OF, Fill, Finding, Run, Verdict
from conformance.plan import Machine

RIGHT = '''
import torch


def norm(x, weight, eps):
    """One rounding, in whatever memory torch gives."""
    x32 = x.float()
    y = x32 * torch.rsqrt(x32.square().mean(-1, keepdim=True) + eps)
    return (y * weight.float()).to(x.dtype)
'''


def run(width: int = 32, rows: int = 3, mode: str = "none", dtype: str = "float32", **changes: Any) -> Run:
    """One small question in one dtype; `changes` go to `conformance.model.Run`."""
    dtypes = (
        {"x": dtype, "weight": dtype} if mode == "none" else dict.fromkeys(("x", "residual", "weight"), dtype)
    )
    changes.setdefault("dtypes", dtypes)
    fills = {role: Fill(seed=i + 1) for i, role in enumerate(changes["dtypes"])}
    values: dict[str, Any] = {
        "id": f"test/one[{mode},{dtype},{rows}x{width}]", "case": "test/one", "file": "test.yaml",
        "about": "a test", "mode": mode, "shape": (rows, width), "eps": 1e-5, "fills": fills, "layouts": {},
        "requirements": ("ACCURACY-INTERVAL",),
    }  # fmt: skip
    return Run(**{**values, **changes})


def training(
    width: int = 32, rows: int = 3, mode: str = "none", dtype: str = "float32", **changes: Any
) -> Run:
    """One small training run: every input requires a gradient, and that of every output arrives."""
    plain = run(width, rows, mode, dtype, **changes)
    outputs = ("y",) if mode == "none" else ("y", "residual_out")
    wanted = {"gradients": tuple(plain.dtypes), "upstream": outputs, "profiles": ("training",), **changes}
    arriving = {UPSTREAM_OF[o]: Fill(seed=11 + i) for i, o in enumerate(wanted["upstream"])}
    return replace(plain, **{**wanted, "fills": {**plain.fills, **arriving}})


class Tried:
    """A bench, and the folder its workers import from."""

    def __init__(self, folder: Path, timeout: float = 60.0) -> None:
        self.folder = folder
        self.bench = Bench(Machine("cpu", 8), "strict", requirements(), timeout=timeout, paths=[str(folder)])

    def write(self, name: str, source: str) -> str:
        """Make `name`.py and give the spec of its rms_norm."""
        (self.folder / f"{name}.py").write_text(RIGHT + textwrap.dedent(source))
        return f"{name}:rms_norm"

    def verdict(self, spec: str, asked: Run) -> Verdict:
        loaded = self.bench.load(spec)
        assert loaded.implementation is not None, f"{loaded.message} {loaded.hint}"
        return self.bench.verdict(spec, asked)

    def close(self) -> None:
        self.bench.close()


def failing(verdict: Verdict, requirement: str) -> Finding:
    """The failure of `requirement`; an error that shows the verdict where there is none."""
    found = [f for f in verdict.failed if f.requirement == requirement]
    assert found, f"{verdict.verdict} {verdict.reason} {verdict.findings}"
    return found[0]
