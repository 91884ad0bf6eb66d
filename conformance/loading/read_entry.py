"""The keys of a case and what each may hold.

The result is plain data: lists, dicts, numbers and words, still with matrix and defaults apart. What the
keys mean together is in `conformance.loading.expand` and `conformance.loading.combinations`;
`cases/README.md` shows the format by example and `cases/case.schema.json` is its published form.
"""

from __future__ import annotations

from typing import Any

from conformance.loading.fills import SEEDS
from conformance.loading.gradients import gradients, upstream
from conformance.loading.value_readers import (
    At,
    Reader,
    boolean,
    described,
    entries,
    eps,
    integer,
    mapping,
    matching,
    number,
    text,
    word,
)
from conformance.loading.yaml_lines import Block, Items
from conformance.model import DTYPES, LAYOUTS, MODES, PROFILES, SCENARIOS, TENSORS

KINDS = ("bell", "uniform", "constant", "zeros")

FAULTS = (
    "weight_too_long",
    "weight_too_short",
    "weight_2d",
    "residual_rows",
    "residual_width",
    "eps_zero",
    "eps_negative",
    "integer_x",
    "device_mixed",
)
"""Which argument is wrong in scenario refuse; cases/README.md says how each is built."""

NON_FINITE = ("nan", "inf", "-inf")

case_id = matching(r"[a-z0-9][a-z0-9_]*", "zero_row: lower case, digits and underscores")

_dtype = word(DTYPES)
_layout = word(LAYOUTS)
_requirement = matching(r"[A-Z0-9]+(-[A-Z0-9]+)+", "FORMULA-EPS-INSIDE")


def shape(value: Any, at: At) -> tuple[int, ...]:
    """Leading dimensions (0 allowed) and hidden_size: 1 to 4 integers."""
    if not isinstance(value, Items) or not 1 <= len(value) <= 4:
        raise at.bad(
            f"is {described(value)}, but should be a list of 1 to 4 integers",
            "Write the leading dimensions and then hidden_size: [3, 257].",
        )
    for i, length in enumerate(value):
        integer(1 if i == len(value) - 1 else 0)(length, at.inside(i, value.lines[i]))
    return tuple(value)


def by_dtype(value: Any, at: At) -> Any:
    """A number, or a mapping from the tensor's dtype to a number."""
    if isinstance(value, Block):
        return mapping(dict.fromkeys(DTYPES, number))(value, at)
    return number(value, at)


def put(value: Any, at: At) -> tuple[int, int, float | str]:
    """One element to set: [row, column, value]."""
    if not isinstance(value, Items) or len(value) != 3:
        raise at.bad(
            f"is {described(value)}, but should be [row, column, value]",
            'Write e.g. [1, -1, "nan"]: the last column of the second row.',
        )
    row, column = (integer(-(2**31))(value[i], at.inside(i, value.lines[i])) for i in (0, 1))
    what = value[2]
    return row, column, what if what in NON_FINITE else number(what, at.inside(2, value.lines[2]))


FILL: dict[str, Reader] = {
    "kind": word(KINDS),
    "seed": integer(0),
    "scale": by_dtype,
    "mean": by_dtype,
    "row_scales": entries(number),
    "zero_every": integer(1),
    "last_column": by_dtype,
    "zero_rows": entries(integer(-(2**31))),
    "put": entries(put),
}

_fill = mapping(FILL)


def _weight(value: Any, at: At) -> Any:
    if value is None:
        raise at.bad("is empty (null)", "Write weight: none for a norm without a weight.")
    return "none" if value == "none" else _fill(value, at)


def dtypes(value: Any, at: At) -> dict[str, str]:
    """A dtype for all tensors, or a mapping with x and what differs from it."""
    if isinstance(value, Block):
        result: dict[str, str] = mapping(dict.fromkeys(("x", "residual", "weight"), _dtype))(value, at)
        if "x" not in result:
            raise at.bad("has no x", "Write {x: bfloat16, weight: float32}.")
        return result
    return {"x": _dtype(value, at)}


MATRIX: dict[str, Reader] = {
    "n_rows": integer(0),
    "hidden_size": integer(1),
    "shape": shape,
    "eps": eps,
    "weight_offset": number,
    "out": boolean,
    "scenario": word(SCENARIOS),
    "fault": word(FAULTS),
    "gradients": gradients,
    "upstream": upstream,
    **{f"layouts.{tensor}": _layout for tensor in TENSORS},
    **{
        f"{tensor}.{key}": {"scale": number, "mean": number, "last_column": number}.get(key, FILL[key])
        for tensor in SEEDS
        for key in ("kind", "seed", "scale", "mean", "zero_every", "last_column")
    },
}
"""What may vary within a case: keys of the case, or keys below one, with a dot."""

_row = mapping({**MATRIX, "mode": word(MODES), "dtype": dtypes})

ENTRY: dict[str, Reader] = {
    "about": text,
    "requirements": entries(_requirement, unique=True),
    "modes": entries(word(MODES), unique=True),
    "dtypes": entries(dtypes, unique=True),
    "shape": shape,
    "n_rows": integer(0),
    "hidden_size": integer(1),
    "eps": eps,
    "x": _fill,
    "residual": _fill,
    "weight": _weight,
    "dy": _fill,
    "dresidual_out": _fill,
    "gradients": gradients,
    "upstream": upstream,
    "layouts": mapping(dict.fromkeys(TENSORS, _layout)),
    "out": boolean,
    "scenario": word(SCENARIOS),
    "fault": word(FAULTS),
    "weight_offset": number,
    "profiles": entries(word(PROFILES), unique=True),
    "core": boolean,
    "flags": entries(matching(r"[a-z0-9][a-z0-9._:-]*", "odd-width or model:llama-2-7b"), unique=True),
    "needs": entries(matching(r"gpu|memory:[1-9][0-9]*", "gpu or memory:9 (GiB)"), unique=True),
    "matrix": mapping({key: entries(read, unique=True) for key, read in MATRIX.items()}),
    "exclude": entries(_row),
    "include": entries(_row),
}
"""Every key of a case but its id."""

DEFAULTS = {key: read for key, read in ENTRY.items() if key != "about"}
