"""Made-up verdicts and headers for the tests of the reporting; no implementation was run for them."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

from conformance.model import Finding, Requirement, Verdict
from conformance.reporting.merge import conclude_all
from conformance.reporting.results import Result, Writer, read

REQUIREMENTS = {
    r.id: r
    for r in (
        Requirement("RUN-COMPLETES", 0, "MUST", "A call returns.", "why", "source"),
        Requirement("MEM-WRITE", 10, "MUST", "Nothing is written outside the outputs.", "why", "source"),
        Requirement("REFUSE-ALIKE", 31, "MUST", "A refusal is alike everywhere.", "why", "source"),
        Requirement("FORMULA-EPS-INSIDE", 50, "MUST", "eps is added inside the root.", "why", "source"),
        Requirement("FORMULA-DIVISOR", 54, "MUST", "The sum is divided by hidden_size.", "why", "source"),
        Requirement("TAIL-COLUMNS", 61, "MUST", "Every column is summed once.", "why", "source"),
        Requirement("STRIDE-X", 80, "MUST", "Any row stride of x is right or refused.", "why", "source"),
        Requirement("SIZE-WIDTH", 93, "MUST", "Every hidden_size is right.", "why", "source"),
        Requirement("ACCURACY-CONVENTION", 115, "SHOULD", "One convention.", "why", "source"),
        Requirement("ACCURACY-INTERVAL", 120, "MUST", "y lies in the interval.", "why", "source"),
        Requirement("DWEIGHT-PRESENT", 135, "MUST", "weight gets a gradient.", "why", "source"),
        Requirement("GRADMODE-ALIKE", 136, "MUST", "Differentiable everywhere or nowhere.", "why", "source"),
        Requirement("DX-WEIGHT", 160, "MUST", "The weight multiplies dy once.", "why", "source"),
        Requirement("DX-ROWS", 163, "MUST", "A row of dx is that row's alone.", "why", "source"),
        Requirement("DWEIGHT-XHAT", 164, "MUST", "dweight sums dy * x_hat.", "why", "source"),
        Requirement(
            "GRADMODE-RETAINED", 172, "MUST", "A second backward is like the first.", "why", "source"
        ),
        Requirement("DX-ACCURACY", 180, "MUST", "dx lies in the interval.", "why", "source"),
        Requirement("DWEIGHT-ACCURACY", 182, "MUST", "dweight lies in the interval.", "why", "source"),
    )
}

EPS_OUTSIDE = ("eps_outside", "FORMULA-EPS-INSIDE", "equals the result with eps outside the root")
NO_TAIL = ("no_tail", "TAIL-COLUMNS", "equals the result without the last columns")


def make(run: str = "core/plain[none,bf16,h=4096]", **changes: Any) -> Verdict:
    """Make a verdict; a passing core run unless changed. `x` sets all dtypes."""
    x = changes.pop("x", "bfloat16")
    mode = changes.get("mode", "none")
    dtypes = {"x": x, "residual": x, "weight": x} if mode != "none" else {"x": x, "weight": x}
    values: dict[str, Any] = {
        "implementation": "mine",
        "run": run,
        "case": run.partition("[")[0],
        "mode": mode,
        "dtypes": dtypes,
        "verdict": "pass",
        "conventions": ("one rounding",),
        "requirements": ("SIZE-WIDTH",),
        "n_rows": 64,
        "hidden_size": 4096,
    }
    return Verdict(**{**values, **changes})


def wrong(requirement: str, *candidates: tuple[str, str, str], check: str = "values") -> Finding:
    """Make a failing finding."""
    where = {
        "tensor": "y",
        "index": [3, 17],
        "actual": 1.5,
        "expected": 1.0,
        "low": 0.99609375,
        "high": 1.00390625,
    }
    message = f"y[3, 17] is 1.5, but should be 1.0 ({requirement})"
    return Finding(check, requirement, "fail", message, where, candidates)


def training(run: str = "gradients/plain[none,bf16,h=257]", **changes: Any) -> Verdict:
    """Make the verdict of a training run; it passes and asks for dx and dweight unless changed."""
    gradients = changes.setdefault("gradients", ("x", "weight"))
    names = {"x": "dx", "residual": "dresidual", "weight": "dweight"}
    found = {names[g]: ("exact sum",) for g in gradients} if changes.get("verdict", "pass") == "pass" else {}
    changes.setdefault("gradient_conventions", found)
    changes.setdefault("requirements", ("DX-WEIGHT",))
    return make(run, **{"n_rows": 7, "hidden_size": 257, **changes})


def failing(run: str, *findings: Finding, **changes: Any) -> Verdict:
    """Make a failing verdict."""
    changes.setdefault("conventions", ())
    return make(run, verdict="fail", findings=findings, **changes)


def core(implementation: str = "mine", modes: tuple[str, ...] = ("none",)) -> list[Verdict]:
    """Make the passing core of some modes: 3 widths, 2 row counts, 2 dtypes."""
    return [
        make(
            f"core/plain[{mode},{short},rows={rows},h={width}]",
            implementation=implementation,
            mode=mode,
            x=x,
            core=True,
            n_rows=rows,
            hidden_size=width,
            conventions=("one rounding",) if mode == "none" else ("one rounding, exact sum",),
        )
        for mode in modes
        for short, x in (("fp16", "float16"), ("bf16", "bfloat16"))
        for rows in (1, 64)
        for width in (4096, 4097, 8192)
    ]


def header(*names: str, modes: tuple[str, ...] = ("none",), **changes: Any) -> dict[str, Any]:
    """Make a header for some implementations."""
    return {
        "suite": "0.1.0",
        "cases_digest": "sha256:0123",
        "profile": "default",
        "grade": "strict",
        "device": "cpu",
        "torch": "2.13.0",
        "triton": "3.9.0",
        "python": "3.11.7",
        "numpy": "2.3.0",
        "options": ["--impl=" + name for name in names],
        "implementations": [
            {"name": name, "spec": f"pkg:{name}", "version": "1.0", "modes": list(modes)} for name in names
        ],
        **changes,
    }


def shuffled(verdicts: list[Verdict], seed: int) -> list[Verdict]:
    """Give the same verdicts in another order."""
    other = list(verdicts)
    random.Random(seed).shuffle(other)
    return other


def renamed(verdicts: list[Verdict], name: str) -> list[Verdict]:
    """Give the same verdicts for another implementation."""
    return [replace(v, implementation=name) for v in verdicts]


def written(path: Path, head: dict, verdicts: list[Verdict], interrupted: str = "") -> Path:
    """Write a whole file as the plugin does."""
    with Writer(path, head) as writer:
        back = [writer.verdict(v) for v in verdicts]
        whole = {**head, "partial": head.get("partial", "")}
        results = conclude_all(whole, back, REQUIREMENTS, interrupted)
        writer.close(results, 0 if all(r.certified for r in results) else 1, interrupted)
    return path


def some() -> list[Verdict]:
    """Make a core, a failure with non-finite statistics, and a run that was not asked."""
    return [
        *core(),
        failing(
            "eps[1]",
            wrong("SIZE-WIDTH", EPS_OUTSIDE),
            stats={"ulp": 3.5, "bias": math.nan, "gain": -math.inf},
        ),
        make("gpu[1]", verdict="not run", reason="needs a GPU", conventions=()),
    ]


HOSTILE = (
    "<script>document.title='HACKED'</script>",
    "<img src=x onerror=\"document.title='HACKED'\">",
    '"><svg onload="document.title=\'HACKED\'">',
    "javascript:document.title='HACKED'",
    "{{ 7 * 7 }}{% raw %}",
    "\x1b[31mred\x1b[0m\x1b]0;HACKED\x07",
    "\u202egnp.exe\u2066\u200b",
    "</style><style>body{display:none}</style></script></title>",
    "![x](http://evil.example/x.png) [a](javascript:alert(1)) @team #1 `code` | cell",
    "line\rone\nline two\x00",
)
"""Names and texts that try to be more than text; HACKED in the title would show that a script ran."""


def hostile_result(folder: Path) -> Result:
    """Write and read a file in which every free text is hostile."""
    head = header(*HOSTILE, options=list(HOSTILE), device=HOSTILE[0], torch=HOSTILE[1], driver=HOSTILE[2])
    for entry, text in zip(head["implementations"], HOSTILE, strict=True):
        for key in ("spec", "version", "package", "digest", "homepage", "issues"):
            entry[key] = text
        entry["recognised"] = [text]
        entry["declared"] = {"none": text}
    verdicts = []
    for text in HOSTILE:
        finding = Finding(
            text, text, "fail", text, {"tensor": text, "actual": text, text: text}, ((text,) * 3,)
        )
        for number, verdict in enumerate(("fail", "crash", "unsupported", "not run", "broken", "warn")):
            verdicts.append(
                make(
                    f"{text}[{number}]",
                    implementation=text,
                    verdict=verdict,
                    reason=text,
                    findings=(finding,) if verdict in ("fail", "warn") else (),
                    conventions=(text,),
                    not_covered=(text,),
                    features=(text,),
                    requirements=(text,),
                    obtained=text,
                    stats={text: 1.0},
                    gradients=(text,),
                    gradient_conventions={text: (text,)},
                )
            )
    return read(written(folder / "hostile.jsonl", head, verdicts))
