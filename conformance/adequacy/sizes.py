"""Properties of sizes, dtypes and layouts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from conformance.adequacy.fills import with_rows
from conformance.adequacy.property import Property
from conformance.adequacy.values import ROW_SCALES
from conformance.model import Run

ONE_BLOCK = 1024
"""Columns that kernels often have in one block; a wider row takes a second pass of a loop."""

FEW_ROWS = 64
"""Rows up to which a kernel needs no second round of programs, and a sum over rows no second stage."""

MANY_ROWS = 65537


def _sized(run: Run, rows: int | None = None, width: int | None = None) -> Run:
    """The run with another number of rows, then of rank 2, or another width."""
    leading = run.shape[:-1] if rows is None else (rows,)
    return replace(run, shape=(*leading, run.hidden_size if width is None else width))


def _widths(*widths: int) -> Callable[[Run], Iterator[Run]]:
    """Changes of the width; no more rows than keep a wide one cheap."""

    def changes(run: Run) -> Iterator[Run]:
        for width in widths:
            rows = 3 if run.n_rows > 3 and width > ONE_BLOCK else None
            yield _sized(run, rows, width)

    return changes


def _odd(run: Run) -> Iterator[Run]:
    yield _sized(run, width=run.hidden_size + 1)
    yield from _widths(33, 5, 769)(run)


def _several(run: Run) -> Iterator[Run]:
    yield with_rows(_sized(run, 5), row_scales=ROW_SCALES)


def _more(run: Run) -> Iterator[Run]:
    yield _sized(run, 257, min(run.hidden_size, 256))


def _many(run: Run) -> Iterator[Run]:
    yield _sized(run, MANY_ROWS, 8)


SIZES = (
    Property(
        "one row",
        "every run has a single row, so a kernel that mixes rows up, or forgets all but the first, passes",
        "`n_rows: 5` with `x: {row_scales: [1.0, 0.05, 20.0, 0.4]}`",
        lambda run: run.n_rows < 2, _several,
        ("FORMULA-ROWS", "FORMULA-WEIGHT-INDEX", "DX-", "DWEIGHT-", "TAIL-COLUMNS", "MEM-", "STRIDE-",
         "SPECIAL-NONFINITE", "ACCURACY-"),
    ),
    Property(
        "never one row",
        "no run has a single row, so a kernel with a path of its own for one token passes",
        "`n_rows: 1`",
        lambda run: run.n_rows != 1, lambda run: [_sized(run, 1)],
        ("FORMULA-ROWS", "SIZE-ONE-ROW", "OUTPUT-SHAPE"),
    ),
    Property(
        "few rows",
        f"no run has more than {FEW_ROWS} rows, so a kernel whose sum over rows loses a part passes",
        "`n_rows: 257`",
        lambda run: run.n_rows <= FEW_ROWS, _more,
        ("DWEIGHT-", "FORMULA-ROWS", "SIZE-MANY-ROWS", "INVARIANCE-"), ("one row",),
    ),
    Property(
        "no batch past 65536 rows",
        "no run has more rows than 16 bits count, so a kernel that stops there passes",
        f"`n_rows: {MANY_ROWS}` with `hidden_size: 8`",
        lambda run: run.n_rows < MANY_ROWS, _many,
        ("SIZE-MANY-ROWS", "DWEIGHT-ROWS"), ("one row", "few rows"),
    ),
    Property(
        "no empty batch",
        "no run has 0 rows, so a kernel that fails on an empty batch passes",
        "`n_rows: 0`",
        lambda run: run.n_rows > 0, lambda run: [_sized(run, 0)], ("SIZE-ZERO-ROWS", "DWEIGHT-ZERO-ROWS"),
    ),
    Property(
        "no odd width",
        "every width is a multiple of 8, so a kernel that drops, invents or overwrites what does not fill a "
        "vector or a block passes",
        "`hidden_size: 33`, and one past every width that you use",
        lambda run: run.hidden_size % 8 == 0, _odd,
        ("TAIL-", "FORMULA-DIVISOR", "MEM-", "REFUSE-ALIKE", "DX-PROJECTION", "SPECIAL-NONFINITE",
         "ACCURACY-", "RUN-COMPLETES"),
    ),
    Property(
        "no wide row",
        f"no row is wider than a block of {ONE_BLOCK}, so a kernel that is wrong from its second block on "
        "passes",
        "`hidden_size: 1025`, 4097 and 8193, with `n_rows: 3`",
        lambda run: run.hidden_size <= ONE_BLOCK, _widths(1025, 4097, 8193, 16384),
        ("TAIL-", "SIZE-WIDTH", "RESIDUAL-ADDED", "MEM-UNWRITTEN", "FORMULA-WEIGHT-INDEX", "DWEIGHT-ROWS",
         "GRADMODE-ALIKE", "ACCURACY-", "RANGE-LARGE"),
    ),
    Property(
        "no width 1",
        "no row is one element wide, so a kernel that cannot do with one passes",
        "`hidden_size: 1`",
        lambda run: run.hidden_size != 1, _widths(1), ("SIZE-WIDTH",),
    ),
    Property(
        "rank 2 only",
        "x always has rank 2, so a kernel that loses leading dimensions, or dimensions of 1, passes",
        "`shape: [2, 3, 64]`, `shape: [64]` and `shape: [1, 64]`",
        lambda run: len(run.shape) == 2 and run.n_rows != 1,
        lambda run: [replace(run, shape=(*s, run.hidden_size)) for s in ((2, 3), (1,), ())],
        ("OUTPUT-SHAPE", "STRIDE-RANK", "DWEIGHT-AXES", "DWEIGHT-SHAPE"),
    ),
)  # fmt: skip


# --- dtypes ----------------------------------------------------------------------------------------------

_16_BITS = (
    "ACCURACY-", "RESIDUAL-", "OUTPUT-DTYPE", "DX-ACCURACY", "DX-FORM", "DX-RRMS", "DWEIGHT-", "RRMS-SAVED",
    "GRADMODE-ALIKE", "FORMULA-EPS", "HONEST-STATE", "RANGE-LARGE", "DRESIDUAL-FORM",
)  # fmt: skip


def _in(dtype: str) -> Callable[[Run], list[Run]]:
    return lambda run: [replace(run, dtypes=dict.fromkeys(run.dtypes, dtype))]


def _no(dtype: str) -> Callable[[Run], bool]:
    return lambda run: run.dtypes["x"] != dtype


def _mixed(run: Run) -> Iterator[Run]:
    for tensor in ("weight", "residual"):
        if tensor in run.dtypes:
            yield replace(run, dtypes={**dict.fromkeys(run.dtypes, "bfloat16"), tensor: "float32"})


DTYPES = (
    Property(
        "no bf16",
        "x is never bfloat16, so a kernel that loses bits or changes dtypes there passes",
        "`dtypes: [float32, float16, bfloat16]`",
        _no("bfloat16"), _in("bfloat16"), _16_BITS,
    ),
    Property(
        "no fp16",
        "x is never float16, so a kernel that overflows, or goes through bfloat16, passes",
        "`dtypes: [float32, float16, bfloat16]`",
        _no("float16"), _in("float16"), (*_16_BITS, "RANGE-"),
    ),
    Property(
        "no fp32",
        "x is never float32, so a fault below the rounding of 16 bits passes",
        "`dtypes: [float32, float16, bfloat16]`",
        _no("float32"), _in("float32"),
        ("ACCURACY-", "FORMULA-", "TAIL-", "RESIDUAL-", "DX-", "DWEIGHT-", "DRESIDUAL-"),
    ),
    Property(
        "one dtype for all tensors",
        "x, residual and weight always have one dtype, so a kernel that casts one to that of another passes",
        "`dtypes: [{x: bfloat16, weight: float32}, {x: bfloat16, residual: float32}]`",
        lambda run: len(set(run.dtypes.values())) < 2, _mixed,
        ("DTYPE-", "RESIDUAL-DTYPE", "DWEIGHT-DTYPE", "DRESIDUAL-", "DWEIGHT-ACC"), ("no bf16",),
    ),
)  # fmt: skip


# --- layouts ---------------------------------------------------------------------------------------------

_ROWS_APART = ("row_slice", "transposed", "column_step")
_UNALIGNED = ("odd_base", "column_offset")


def _lies(tensor: str, *layouts: str) -> Callable[[Run], list[Run]]:
    """Changes of one tensor's layout, where the run has it and it is plain."""

    def changes(run: Run) -> list[Run]:
        if tensor not in run.fills:
            return []
        return [replace(run, layouts={**run.layouts, tensor: layout}) for layout in layouts]

    return changes


def _none_of(tensor: str, *layouts: str) -> Callable[[Run], bool]:
    return lambda run: run.layouts.get(tensor, "contiguous") not in layouts


def _out(run: Run) -> Iterator[Run]:
    for layout in ({}, {"out": "row_slice"}):
        yield replace(run, out=True, layouts={**run.layouts, **layout})


def _heads(run: Run) -> Iterator[Run]:
    yield replace(run, shape=(3, 2, run.hidden_size), layouts={**run.layouts, "x": "split_heads"})


LAYOUTS = (
    Property(
        "contiguous x",
        "the rows of x follow each other without a gap, so a kernel that takes its stride for its width "
        "passes",
        "`layouts: {x: row_slice}`, transposed and column_step",
        _none_of("x", *_ROWS_APART), _lies("x", *_ROWS_APART),
        ("STRIDE-X", "INPLACE-STORAGE", "MEM-", "REFUSE-CLEAN"), ("one row",),
    ),
    Property(
        "aligned x",
        "x starts at an aligned address, so a kernel that rounds addresses down passes",
        "`layouts: {x: odd_base}` and column_offset",
        _none_of("x", *_UNALIGNED), _lies("x", *_UNALIGNED), ("ALIGN-X",),
    ),
    Property(
        "contiguous residual",
        "the residual lies as x lies, so a kernel that takes the stride of one for the other passes",
        "`layouts: {residual: row_slice}`",
        _none_of("residual", *_ROWS_APART), _lies("residual", *_ROWS_APART),
        ("STRIDE-RESIDUAL", "INPLACE-STORAGE"),
    ),
    Property(
        "contiguous weight",
        "the weights follow each other, so a kernel that ignores their stride passes",
        "`layouts: {weight: column_step}`",
        _none_of("weight", "column_step"), _lies("weight", "column_step"),
        ("STRIDE-WEIGHT",), ("unit weights",),
    ),
    Property(
        "aligned weight",
        "the weight starts at an aligned address, so a kernel that rounds addresses down passes",
        "`layouts: {weight: odd_base}`",
        _none_of("weight", "odd_base"), _lies("weight", "odd_base"), ("ALIGN-WEIGHT",),
    ),
    Property(
        "no split heads",
        "x is never a view of heads in a wider projection, so a kernel that takes its rows for dense passes",
        "`shape: [3, 2, 64]` with `layouts: {x: split_heads}`",
        _none_of("x", "split_heads"), _heads, ("STRIDE-RANK",), ("rank 2 only", "contiguous x"),
    ),
    Property(
        "out never passed",
        "no run passes `out`, so a kernel that ignores it, or writes past its rows, passes",
        "`out: true`, also with `layouts: {out: row_slice}`",
        lambda run: not run.out, _out, ("OUTPUT-PARAMETER", "MEM-WRITE", "RUN-COMPLETES", "STRIDE-"),
    ),
    Property(
        "contiguous dy",
        "the gradient of y is contiguous, so a backward that ignores its strides passes",
        "`layouts: {dy: transposed}`",
        _none_of("dy", "expanded", "one_element", *_ROWS_APART), _lies("dy", "row_slice", "transposed"),
        ("GRADMODE-DY-LAYOUT",),
    ),
)  # fmt: skip
