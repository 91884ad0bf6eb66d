"""Stage 2, plan: which runs an implementation is asked, and why it is not asked the others.

Plan allocates nothing and imports no torch. What a machine cannot run is `not run`; what an implementation
has no way to be asked is `unsupported`; both say why, and neither is ever a pass.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from conformance.calling.capability import can_ask
from conformance.model import Call, Case, Implementation, NotPlanned, PlannedRun, Run

DEFAULT_PROFILE = "default"
FORWARD_ONLY = "forward only: no output requires grad"

_JOINED = {DEFAULT_PROFILE: ("inference", "training")}
_ASKED_ANYWAY = ("training", "full")
"""Profiles in which a training run of a forward-only call is shown as `unsupported`, not left out."""


@dataclass(frozen=True)
class Machine:
    """What the runs have to get along with. memory: GiB free for tensors, on the device."""

    device: str  # cpu or cuda
    memory: float
    name: str = "cpu"


def selected(cases: Sequence[Case], profile: str, calls: Mapping[str, Call]) -> list[Run]:
    """The runs of a profile for the fusion modes that an implementation claims, in the files' order.

    The default profile is inference, and training for the modes whose call is not known to be forward only.
    """
    parts = set(_JOINED.get(profile, (profile,)))
    return [
        run
        for case in cases
        for run in case.runs
        if run.mode in calls
        and parts & set(run.profiles)
        and (not run.trains or profile in _ASKED_ANYWAY or not forward_only(calls[run.mode]))
    ]


def forward_only(call: Call) -> bool:
    """Whether a call is known to give no gradients, neither through autograd nor by a backward of its own."""
    return call.differentiable is False and call.backward is None


def plan(run: Run, implementation: Implementation, machine: Machine) -> PlannedRun | NotPlanned:
    """Join a run with an implementation, or say why it cannot be asked."""

    def refuse(verdict: str, reason: str) -> NotPlanned:
        return NotPlanned(implementation.name, run, verdict, reason)

    for need in run.needs:
        kind, _, amount = need.partition(":")
        if kind == "gpu" and machine.device == "cpu":
            return refuse("not run", "needs a GPU, and this machine has none")
        if kind == "memory" and float(amount) > machine.memory:
            return refuse(
                "not run",
                f"needs {amount} GiB of memory on the device; {machine.memory:.0f} GiB are free",
            )
    if machine.device not in implementation.devices:
        return refuse(
            "not run",
            f"{implementation.name} runs on {', '.join(implementation.devices)} and this is {machine.device}",
        )
    call = implementation.calls[run.mode]
    if run.trains and forward_only(call):
        return refuse("unsupported", FORWARD_ONLY)
    reason = can_ask(call, run)
    if reason is not None:
        return refuse("unsupported", reason)
    return PlannedRun(implementation.name, run)


def twins(run: Run, dtypes: Sequence[str]) -> list[Run]:
    """The neutral runs that ask for the same sizes and values: what decides whether a refusal is allowed.

    An implementation may refuse a dtype, a mix, a rank or a layout, but not a size or a value. The first
    twin keeps x's dtype and drops everything else that may be refused; the others change the dtype too. The
    twin of a training run asks for the same gradients, with the same ones arriving.
    """
    own = run.dtypes["x"]
    found = []
    for dtype in (own, *(d for d in dtypes if d != own)):
        same = {role: dtype for role in ("x", "residual", "weight") if role in run.dtypes or role == "weight"}
        fills = dict(run.fills)
        fills.setdefault("weight", replace(fills["x"], kind="bell", scale=1.0, put=(), row_scales=()))
        neutral = replace(
            run, id=f"{run.id}~{dtype}", dtypes=same, fills=fills, layouts={}, out=False, weight_offset=None,
            eps=1e-5 if run.eps is None or run.eps <= 0 else run.eps,
            shape=(run.n_rows, run.hidden_size), scenario="once", fault=None,
        )  # fmt: skip
        if (neutral.dtypes, neutral.shape) != (run.dtypes, run.shape) or run.features:
            found.append(neutral)
    return found
