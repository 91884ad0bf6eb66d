"""The fills of one run: what the case gives, what its matrix varies, and what is left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from conformance.loading.value_readers import At
from conformance.model import Fill

SEEDS = {"x": 1, "residual": 2, "weight": 3, "dy": 101, "dresidual_out": 102}
"""Seeds left out: all different, those of the gradients far from the others, so that dy is never x."""

_RESIDUAL_OVER_X = 2.4  # three times the mean magnitude of a bell: it matters, and the sum rounds

Place = Callable[[str], At]
"""Where a key of the case was written."""

_NOT_THERE = {
    "residual": "Remove the key, or add a fused mode.",
    "weight": "Remove the key.",
    "dy": "Remove the key, or ask for gradients with y in upstream.",
    "dresidual_out": "Remove the key, or ask for gradients in mode residual with residual_out in upstream.",
}


def fills_of(
    values: Mapping[str, Any],
    varied: Mapping[str, Mapping[str, Any]],
    dtypes: Mapping[str, str],
    place: Place,
) -> dict[str, Fill]:
    """The fill of every tensor in `dtypes`; `varied` holds what the matrix sets below a tensor's key.

    Raises:
        BadCase: the matrix varies a tensor that the run does not have, or a number for its dtype is missing.
    """
    for tensor in varied:
        if tensor != "layouts" and tensor not in dtypes:
            raise not_there(tensor, place)
    given = {tensor: dict(values[tensor]) for tensor in dtypes if tensor in values}
    x = {**given.get("x", {}), **varied.get("x", {})}
    if "residual" in dtypes and "residual" not in given:
        given["residual"] = _residual_like(x)
    return {
        tensor: _fill(tensor, {**given.get(tensor, {}), **varied.get(tensor, {})}, dtype, place)
        for tensor, dtype in dtypes.items()
    }


def not_there(tensor: str, place: Place) -> Exception:
    """The BadCase of values for a tensor that no run of the case has."""
    return place(tensor).bad(f"gives values to {tensor}, but the case has none", _NOT_THERE[tensor])


def _residual_like(x: Mapping[str, Any]) -> dict[str, Any]:
    """The residual of a case that gives none: a bell over x's rows, 2.4 times as wide."""
    scale = x.get("scale", 1.0)
    if isinstance(scale, Mapping):
        wider: Any = {dtype: value * _RESIDUAL_OVER_X for dtype, value in scale.items()}
    else:
        wider = scale * _RESIDUAL_OVER_X
    fill = {"seed": x.get("seed", SEEDS["x"]) + 1, "scale": wider}
    return {**fill, "row_scales": x["row_scales"]} if "row_scales" in x else fill


def _fill(tensor: str, keys: dict[str, Any], dtype: str, place: Place) -> Fill:
    keys = {"seed": SEEDS[tensor], **keys}
    for name in ("scale", "mean", "last_column"):
        if isinstance(keys.get(name), Mapping):
            if dtype not in keys[name]:
                raise place(tensor).bad(
                    f"{tensor}.{name} has no number for {dtype}", f"Add {dtype}: <number> to it."
                )
            keys[name] = keys[name][dtype]
    for name in ("row_scales", "zero_rows", "put"):
        if name in keys:
            keys[name] = tuple(keys[name])
    return Fill(**keys)
