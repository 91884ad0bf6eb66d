"""Combinations of keys that no implementation could be asked, each with what to write instead."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.model import Run

Problem = tuple[str, str, str]
"""(key, what is wrong, what to write instead)"""

_WIDTH = {"float32": 4, "float16": 2, "bfloat16": 2}
_VIEWS_OF_ROWS = ("transposed", "expanded", "split_heads", "int64_stride")


def impossible(run: Run) -> Problem | None:
    """The first reason why this run cannot be asked, or None."""
    for problems in (_scenario(run), _tensors(run), _layouts(run), _fills(run), _core(run)):
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
    present = {*run.dtypes, *(["out"] if run.out else [])}
    for tensor, layout in run.layouts.items():
        key = f"layouts.{tensor}"
        if tensor not in present:
            missing = {"residual": "mode none has no residual", "out": "out is not asked for"}
            yield (
                key,
                f"{tensor}: {layout}, but {missing.get(tensor, 'the case has no weight')}",
                "Remove it, write out: true, or keep only the modes that have the tensor.",
            )
        written = tensor == "out" or (run.mode == "residual_in_place" and tensor != "weight")
        if layout == "expanded" and written:
            yield key, f"{tensor} is written, so it cannot be expanded", "Leave this mode out."
        rows = 1 if tensor == "weight" or len(run.shape) == 1 else run.n_rows
        if layout in _VIEWS_OF_ROWS and rows < 2 and (tensor, layout) != ("weight", "expanded"):
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
        if layout != "expanded" or fill is None:
            continue
        if len(fill.row_scales) > 1 or fill.put or fill.zero_rows:
            yield (
                f"layouts.{tensor}",
                f"the rows of an expanded {tensor} are one, but its fill tells rows apart",
                "Remove row_scales, zero_rows and put.",
            )
        varied = fill.kind not in ("constant", "zeros") or fill.zero_every
        if tensor == "weight" and (varied or fill.last_column is not None):
            yield (
                "layouts.weight",
                "the columns of an expanded weight are one, but its fill tells columns apart",
                "Write weight: {kind: constant, scale: -1.5}.",
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
