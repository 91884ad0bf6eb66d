"""What the plugin prints while it runs: the heading of a run, and one failing run in a few lines."""

from __future__ import annotations

from conformance.certification import Options
from conformance.model import Finding, Verdict
from conformance.plan import Machine
from conformance.reporting.showing import reproduce, visible

_SHOWN = 4


def heading(options: Options, machine: Machine) -> list[str]:
    """What is about to happen, for pytest's header."""
    how = (
        "no GPU: Triton kernels run through Triton's interpreter"
        if machine.device == "cpu"
        else f"on {machine.name}"
    )
    names = ", ".join(options.specs)
    asked = f"profile {options.profile}, grade {options.grade}"
    return [f"RMSNorm conformance: {visible(names)} | {asked} | {how}"]


def failure(verdict: Verdict, spec: str) -> str:
    """One failing run: its findings, most severe first, and the command that asks it again."""
    lines = [f"{visible(verdict.implementation)} {verdict.verdict}: {verdict.run}"]
    findings = [f for f in verdict.findings if f.severity != "info"]
    lines += [f"  {_line(f)}" for f in findings[:_SHOWN]]
    if len(findings) > _SHOWN:
        lines.append(f"  and {len(findings) - _SHOWN} more findings")
    if verdict.reason:
        lines.append(f"  {visible(verdict.reason)}")
    lines.append(f"  {visible(reproduce(spec, verdict.run))}")
    return "\n".join(lines)


def _line(finding: Finding) -> str:
    return f"{finding.severity} {finding.requirement}: {visible(finding.message)}"
