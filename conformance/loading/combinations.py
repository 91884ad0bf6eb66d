"""Combinations of keys that no implementation could be asked, each with what to write instead."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.loading.gradients import Problem, impossible_backward
from conformance.model import UPSTREAM_OF, Run

_WIDTH = {"float32": 4, "float16": 2, "bfloat16": 2}
_MISSING = {
    "residual": ("mode none has no residual", "keep only the fused modes"),
    "weight": ("the case has no weight", "remove weight: none"),
    "out": ("out is not asked for", "write out: true"),
    "dy": ("no gradient of y arrives", "ask for gradients with y in upstream"),
    "dresidual_out": (
        "no gradient of residual_out arrives",
        "ask for gradients in mode residual with residual_out in upstream",
    ),
}
"""A tensor that a layout names: why a run does not have it, and what would give it one."""

_ONE_ELEMENT = ("weight", "dy", "dresidual_out")
"""Tensors that may be one element for all columns where they have rank 1; a gradient, below a sum."""

_VIEWS_OF_ROWS = ("transposed", "expanded", "one_element", "split_heads", "int64_stride")


def impossible(run: Run) -> Problem | None:
    """The first reason why this run cannot be asked, or None."""
    for problems in (
        impossible_backward(run), _scenario(run), _tensors(run), _layouts(run), _fills(run), _core(run),
    ):  # fmt: skip
        for problem in problems:
            return problem
    return None


def _scenario(run: Run) -> Iterator[Problem]:
    if (run.scenario == "refuse") != (run.fault is not None):
        yield (
            "fault" if run.fault else "scenario",
            f"scenario {run.scenario} with fault {run.fault or 'left out'}",
            "A fault and scenario: refuse go together.",
        )
    fault = run.fault or ""
    if fault.startswith("residual") and run.mode == "none":
        yield "fault", f"{fault} in mode none", "Write modes: [residual, residual_in_place]."
    if fault.startswith("weight") and "weight" not in run.dtypes:
        yield "fault", f"{fault} without a weight", "Remove weight: none."
    if fault and (run.hidden_size < 3 or run.n_rows < 2):
        yield (
            "fault",
            f"{fault} with {run.n_rows} rows of {run.hidden_size}",
            "Take at least 2 rows and 3 columns, so that the wrong shape cannot broadcast.",
        )
    if fault == "eps_negative" and run.eps is None:
        yield "eps", "eps_negative with eps omitted", "Give the eps that is to be passed negated."
    if fault == "device_mixed" and "gpu" not in run.needs:
        yield "fault", "device_mixed needs a second device", "Write needs: [gpu]."
    if run.scenario == "batch" and (len(run.shape) != 2 or run.n_rows < 2):
        yield "scenario", f"batch with shape {list(run.shape)}", "Take rank 2 and at least 2 rows."
    if run.scenario == "chain" and run.dtypes.get("residual", run.dtypes["x"]) != run.dtypes["x"]:
        yield "scenario", "chain with a residual of another dtype than x", "Give them one dtype."


def _tensors(run: Run) -> Iterator[Problem]:
    if run.weight_offset is not None and "weight" not in run.dtypes:
        yield "weight_offset", "there is no weight to offset", "Remove weight_offset."
    if run.out and run.mode == "residual_in_place":
        yield "out", "mode residual_in_place writes y into x", "Write modes: [none, residual]."
    residual = run.dtypes.get("residual")
    if run.mode == "residual_in_place" and residual and _WIDTH[residual] < _WIDTH[run.dtypes["x"]]:
        yield (
            "dtypes",
            f"the sum of {run.dtypes['x']} and {residual} does not fit in place into {residual}",
            "Write modes: [residual] for this combination.",
        )


def _layouts(run: Run) -> Iterator[Problem]:
    present = {*run.dtypes, *(UPSTREAM_OF[output] for output in run.upstream), *(["out"] if run.out else [])}
    for tensor, layout in run.layouts.items():
        key = f"layouts.{tensor}"
        if tensor not in present:
            missing, hint = _MISSING[tensor]
            yield key, f"{tensor}: {layout}, but {missing}", f"Remove it, or {hint}."
        written = tensor == "out" or (run.mode == "residual_in_place" and tensor != "weight")
        if layout == "expanded" and written:
            yield key, f"{tensor} is written, so it cannot be expanded", "Leave this mode out."
        if layout == "one_element" and tensor not in UPSTREAM_OF.values():
            yield key, f"{tensor} as one element would have a mean square of one value", "Write expanded."
        rank = 1 if tensor == "weight" else len(run.shape)
        rows = 1 if rank == 1 else run.n_rows
        one_element = layout == "expanded" and tensor in _ONE_ELEMENT and rank == 1
        if layout in _VIEWS_OF_ROWS and rows < 2 and not one_element:
            yield key, f"{layout} is contiguous for {rows} rows", "Take 2 rows, or another layout."
        if layout == "transposed" and run.hidden_size == 1:
            yield key, "transposed is contiguous for hidden_size 1", "Take a wider row."
        if layout == "split_heads" and len(run.shape) != 3:
            yield (
                key,
                f"split_heads with rank {len(run.shape)}",
                "Write shape: [tokens, heads, 128].",
            )
        if layout == "int64_stride":
            if len(run.shape) != 2 or run.n_rows > 4:
                yield key, f"int64_stride with shape {list(run.shape)}", "Take 2 to 4 rows, rank 2."
            if not any(need.startswith("memory:") for need in run.needs):
                yield "needs", "int64_stride without memory", "Write needs: [memory:<GiB>]."
    yield from _expanded_values(run)


def _expanded_values(run: Run) -> Iterator[Problem]:
    for tensor, layout in run.layouts.items():
        fill = run.fills.get(tensor)
        if layout not in ("expanded", "one_element") or fill is None:
            continue
        if len(fill.row_scales) > 1 or fill.put or fill.zero_rows:
            yield (
                f"layouts.{tensor}",
                f"the rows of an expanded {tensor} are one, but its fill tells rows apart",
                "Remove row_scales, zero_rows and put.",
            )
        varied = fill.kind not in ("constant", "zeros") or fill.zero_every
        one_element = layout == "one_element" or tensor == "weight" or len(run.shape) == 1
        if one_element and (varied or fill.last_column is not None):
            yield (
                f"layouts.{tensor}",
                f"the columns of an expanded {tensor} are one, but its fill tells columns apart",
                f"Write {tensor}: {{kind: constant, scale: -1.5}}.",
            )


def _fills(run: Run) -> Iterator[Problem]:
    for tensor, fill in run.fills.items():
        rows = 1 if tensor == "weight" else run.n_rows
        for row in (*fill.zero_rows, *(entry[0] for entry in fill.put)):
            if not -rows <= row < rows:
                yield tensor, f"{tensor} has {rows} rows, so no row {row}", "Correct the row."
        for _, column, _ in fill.put:
            if not -run.hidden_size <= column < run.hidden_size:
                yield (
                    tensor,
                    f"{tensor} has {run.hidden_size} columns, so no column {column}",
                    "Correct the column; -1 is the last.",
                )
        if tensor == "weight" and (len(fill.row_scales) > 1 or fill.zero_rows):
            yield tensor, "a weight has one row", "Remove row_scales and zero_rows."


def _core(run: Run) -> Iterator[Problem]:
    if not run.core:
        return
    plain = len(run.shape) == 2 and not run.features and run.scenario == "once"
    if not plain or run.dtypes["x"] == "float32" or "inference" not in run.profiles:
        yield (
            "core",
            "a core run is one plain call of rank 2 in one 16-bit dtype, with a weight, in inference",
            "Remove core: true.",
        )
