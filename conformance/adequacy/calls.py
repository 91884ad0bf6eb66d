"""Properties of how often and how wrongly an implementation is called, and of the gradients asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from conformance.adequacy.fills import bell_like, centre, has_nonfinite, one_value, with_fill
from conformance.adequacy.property import Property
from conformance.model import Run

FAULTS = (
    "weight_too_long", "weight_too_short", "weight_2d", "residual_rows", "residual_width", "eps_negative",
    "integer_x",
)  # fmt: skip


def _scenarios(*scenarios: str, training: bool = False) -> Callable[[Run], list[Run]]:
    """Changes of the scenario of a run that makes one call; training: of training runs only."""

    def changes(run: Run) -> list[Run]:
        if run.scenario != "once" or (training and not run.trains):
            return []
        return [replace(run, scenario=scenario) for scenario in scenarios]

    return changes


def _other_than(*scenarios: str) -> Callable[[Run], bool]:
    return lambda run: run.scenario not in scenarios


def _faults(run: Run) -> Iterator[Run]:
    if run.scenario == "once" and not run.trains:
        for fault in FAULTS:
            eps = -run.eps if fault == "eps_negative" and run.eps is not None else run.eps
            yield replace(run, scenario="refuse", fault=fault, eps=eps)


CALLS = (
    Property(
        "called once",
        "every run makes one call, so a kernel that keeps something from the call before passes",
        "`scenario: new_contents` and `scenario: repeat`",
        _other_than("repeat", "new_contents", "batch", "chain"), _scenarios("new_contents", "repeat"),
        ("INVARIANCE-", "GRADMODE-REPEAT", "GRADMODE-GRAPHS", "MEM-UNWRITTEN"),
    ),
    Property(
        "nothing wrong is passed",
        "no run passes an argument that cannot be right, so a kernel that computes something of it passes",
        "`scenario: refuse` with `fault: weight_too_long`, and the other faults",
        _other_than("refuse"), _faults, ("REFUSE-",),
    ),
    Property(
        "one graph at a time",
        "every backward follows its forward and runs once, so one that keeps things outside its graph passes",
        "`scenario: interleaved` and `scenario: retained`",
        _other_than("interleaved", "retained"), _scenarios("interleaved", "retained", training=True),
        ("GRADMODE-",),
    ),
    Property(
        "saved statistic not looked at",
        "no run asks what the forward saved, so one that saves it in a dtype too small passes",
        "`scenario: saved_statistic`",
        _other_than("saved_statistic"), _scenarios("saved_statistic", training=True), ("RRMS-", "DX-RRMS"),
    ),
)  # fmt: skip


# --- gradients -------------------------------------------------------------------------------------------


def _arriving(run: Run) -> list[str]:
    return [t for t in ("dy", "dresidual_out") if t in run.fills]


def _fewer(run: Run) -> Iterator[Run]:
    if len(run.gradients) > 1:
        for wanted in run.gradients:
            yield replace(run, gradients=(wanted,))


def _upstream(*outputs: str) -> Callable[[Run], list[Run]]:
    """The run with gradients arriving at these outputs, in mode residual."""

    def changes(run: Run) -> list[Run]:
        if not run.trains or run.mode != "residual":
            return []
        given = run.fills.get("dy", run.fills.get("dresidual_out"))
        assert given is not None
        seeds = {"y": ("dy", 101), "residual_out": ("dresidual_out", 102)}
        fills = {t: f for t, f in run.fills.items() if t not in _arriving(run)}
        for output in outputs:
            tensor, seed = seeds[output]
            fills[tensor] = run.fills.get(tensor, replace(given, seed=seed))
        return [replace(run, upstream=outputs, fills=fills)]

    return changes


def _arrives(*outputs: str) -> Callable[[Run], bool]:
    return lambda run: run.upstream != outputs


def _bell_dy(run: Run) -> Iterator[Run]:
    fills = dict(run.fills)
    for number, tensor in enumerate(_arriving(run)):
        fills[tensor] = bell_like(fills[tensor], 101 + number)
    if run.trains:
        yield replace(run, fills=fills)


def _large_dy(run: Run) -> Iterator[Run]:
    if "dy" in run.fills:
        made = with_fill(run, "dy", scale=3000.0)
        yield made
        yield with_fill(made, "x", scale=0.01)


def _infinite_dy(run: Run) -> Iterator[Run]:
    if "dy" in run.fills and run.n_rows:
        yield with_fill(run, "dy", put=((0, run.hidden_size // 2, "inf"),))


TRAINING = (
    Property(
        "constant dy",
        "the gradient that arrives is one number everywhere, as below a sum, so a backward that reads it at "
        "the wrong place, or takes a mean of it, passes",
        "leave `dy` out: it is then a bell",
        lambda run: all(one_value(run.fills[t]) is not None for t in _arriving(run)), _bell_dy,
        ("DX-", "DWEIGHT-", "DRESIDUAL-", "GRADMODE-"),
    ),
    Property(
        "no mean in dy",
        "dy has mean 0, so a backward that subtracts its mean passes",
        "`dy: {mean: 1.0}`",
        lambda run: "dy" not in run.fills or centre(run.fills["dy"]) == 0.0,
        lambda run: [with_fill(run, "dy", mean=1.0)] if "dy" in run.fills else [],
        ("DX-PROJECTION",), ("constant dy",),
    ),
    Property(
        "no large dy",
        "dy is never large, so a backward that overflows on the way passes",
        "`dtypes: [float16]` with `dy: {scale: 3000.0}`",
        lambda run: "dy" not in run.fills or abs(run.fills["dy"].scale) < 100.0, _large_dy,
        ("DX-ACCURACY", "DWEIGHT-ACCURACY"), ("no fp16",),
    ),
    Property(
        "dy always finite",
        "no NaN or Inf arrives, so a backward that drops one passes",
        '`dy: {put: [[0, 5, "inf"]]}`',
        lambda run: "dy" not in run.fills or not has_nonfinite(run.fills["dy"]),
        _infinite_dy,
        ("SPECIAL-NONFINITE",),
    ),
    Property(
        "all gradients are asked",
        "every input requires a gradient, so a backward that is wrong where one is frozen passes",
        "`matrix: {gradients: [all, [x], [weight]]}`",
        lambda run: len(run.gradients) == len(run.dtypes) or not run.trains, _fewer,
        ("GRADMODE-", "DX-PRESENT", "DWEIGHT-PRESENT", "DRESIDUAL-PRESENT"),
    ),
    Property(
        "no gradient of both outputs",
        "the gradients of y and residual_out never arrive together, so a backward that adds them up wrongly "
        "passes",
        "`modes: [residual]`, with `upstream` left out",
        _arrives("y", "residual_out"), _upstream("y", "residual_out"), ("DRESIDUAL-",),
    ),
    Property(
        "residual_out never alone",
        "the gradient of residual_out never arrives alone, so a backward that needs one of y passes",
        "`modes: [residual]` with `upstream: [residual_out]`",
        _arrives("residual_out"), _upstream("residual_out"), ("DRESIDUAL-",),
    ),
    Property(
        "y never alone",
        "the gradient of y never arrives alone in mode residual, so a backward that needs both passes",
        "`modes: [residual]` with `upstream: [y]`",
        _arrives("y"), _upstream("y"), ("DRESIDUAL-", "GRADMODE-"),
    ),
)  # fmt: skip
