"""Run ids: `eps/near[residual,bf16,h=4097]`, made only of what the case file says.

An id never holds a counter, so adding a run changes no other id, and the committed list
`cases/run_ids.txt` shows every change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from conformance.model import SHORT_DTYPE

_SHORT_KEY = {
    "hidden_size": "h",
    "n_rows": "rows",
    "weight_offset": "offset",
    "layouts.x": "x",
    "layouts.residual": "residual",
    "layouts.weight": "weight",
    "layouts.out": "out",
    "layouts.dy": "dy",
    "layouts.dresidual_out": "dresidual_out",
    "gradients": "grad",
    "upstream": "up",
}
_SHORT_TENSOR = {"x": "x", "residual": "r", "weight": "w"}


def dtype_word(dtypes: Mapping[str, str]) -> str:
    """ "bf16", or "x=bf16+w=fp32": x and each tensor whose dtype differs from x's."""
    differing = {t: d for t, d in dtypes.items() if t == "x" or d != dtypes["x"]}
    if len(differing) == 1:
        return SHORT_DTYPE[dtypes["x"]]
    return "+".join(f"{_SHORT_TENSOR[t]}={SHORT_DTYPE[d]}" for t, d in sorted(differing.items(), key=_order))


def _order(pair: tuple[str, str]) -> int:
    return list(_SHORT_TENSOR).index(pair[0])


def value_word(value: Any) -> str:
    """A matrix value in an id: 1e-5, 0.5, 4097, true, 2x3x257, row_slice, x+w."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        names = any(isinstance(part, str) for part in value)
        return ("+" if names else "x").join(str(_SHORT_TENSOR.get(part, part)) for part in value)
    if not isinstance(value, float):
        return str(value)
    if value and not 0.01 <= abs(value) < 1e7:
        mantissa, _, exponent = f"{value:.11e}".partition("e")
        return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"
    return f"{value:.12g}"


def run_id(case: str, mode: str, dtypes: Mapping[str, str], row: Mapping[str, Any]) -> str:
    """The id of one run; `row` holds the matrix keys in the order of the case file."""
    words = [mode, dtype_word(dtypes)]
    words += [f"{_SHORT_KEY.get(key, key)}={value_word(value)}" for key, value in row.items()]
    return f"{case}[{','.join(words)}]"


def main() -> None:
    """Print the ids of all bundled runs, sorted: the contents of cases/run_ids.txt."""
    from conformance.load import bundled, load

    for id_ in sorted(run.id for case in load([bundled()]) for run in case.runs):
        print(id_)


if __name__ == "__main__":
    main()
