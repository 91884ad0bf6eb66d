"""Faults of the projection, the term of dx along x_hat: left out, divided or summed wrongly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from conformance.diagnosing.candidate import power_of_two, up_to_multiple
from conformance.diagnosing.gradient_rows import DxCandidate, Form, Setting, Source
from conformance.numerics.gradient_conventions import GradientProblem

ORDER = 161

_PROJECTION = "DX-PROJECTION"


def dx_candidates(problem: GradientProblem) -> Iterator[DxCandidate]:
    if problem.dy is None:
        return
    size, n_rows = problem.forward.hidden_size, problem.forward.n_rows
    factors: dict[str, tuple[float, str]] = {
        "no_projection": (0.0, "dx lacks the term along x_hat"),
        "projection_added": (-1.0, "dx adds the term along x_hat, but should subtract it"),
        "projection_twice": (2.0, "dx subtracts the term along x_hat twice"),
        "projection_halved": (0.5, "dx subtracts half of the term along x_hat"),
    }
    divisors = {
        1: "the sum is not divided at all",
        size - 1: "hidden_size - 1",
        size + 1: "hidden_size + 1",
        power_of_two(size): "the next power of two",
        power_of_two(size + 1) // 2: "the power of two below",
        n_rows: "the number of rows",
        n_rows * size: "the number of elements",
    }
    for multiple in (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192):
        divisors.setdefault(up_to_multiple(size, multiple), f"hidden_size up to a multiple of {multiple}")
    for divisor, text in divisors.items():
        if divisor not in (0, size):
            sentence = f"the row sum in dx is divided by {divisor}, not by {size}: {text}"
            factors[f"projection_divisor_{divisor}"] = (size / divisor, sentence)
    for name, (factor, sentence) in factors.items():
        yield DxCandidate(name, _PROJECTION, sentence, partial(_times, factor=factor))
    yield from _partial_sums(size)
    yield from _in_chunks(size)
    others: dict[str, tuple[str, Callable[[Setting], Iterator[Form]]]] = {
        "x_and_dy_swapped": ("x and dy are swapped in dx", _swapped),
    }
    if size > 1:  # a centred row of one column is 0, as much else is
        others["dx_centred"] = ("dx subtracts the row's mean, as the Jacobian of a LayerNorm does", _centred)
        others["dx_of_layer_norm"] = ("dx is that of a LayerNorm: x_hat is centred too", _layer_norm)
    for name, (sentence, build) in others.items():
        yield DxCandidate(name, _PROJECTION, sentence, build)
    if problem.forward.fused:
        for which in ("x", "residual"):
            yield DxCandidate(
                f"dx_from_{which}_alone",
                _PROJECTION,
                f"dx takes x_hat from {which} alone, not from x + residual",
                partial(_alone, which=which),
            )


def _times(s: Setting, factor: float) -> Iterator[Form]:
    form = s.jacobian()
    yield replace(form, second=form.second * factor, second_scale=form.second_scale * abs(factor))


def _partial_sums(size: int) -> Iterator[DxCandidate]:
    """The row sum leaves out what does not fill a vector, a block, or the tile."""
    dropped = {k: f"the last {k}" if k > 1 else "the last column" for k in (1, 2, 3, 4)}
    for width in (1 << k for k in range(1, 15)):
        if size > width:
            if size % width:
                dropped[size % width] = f"the last {size % width}, what is left over after steps of {width}"
            dropped.setdefault(size - width, f"all but the first {width}")
    for k, text in dropped.items():
        if 0 < k < size:
            yield DxCandidate(
                f"projection_drops_last_{k}",
                _PROJECTION,
                f"the row sum in dx leaves out columns: {text} (of {size})",
                partial(_first_columns, kept=size - k),
            )


def _in_chunks(size: int) -> Iterator[DxCandidate]:
    """The row sum is taken by chunks, and used before it is whole, or averaged as if all were full."""
    for chunk in (1 << k for k in range(5, 14)):
        if chunk < size:
            yield DxCandidate(
                f"projection_so_far_{chunk}",
                _PROJECTION,
                f"dx uses the row sum of the columns so far, a chunk of {chunk} at a time",
                partial(_so_far, chunk=chunk),
            )
        if chunk < size and size % chunk:
            yield DxCandidate(
                f"projection_mean_of_means_{chunk}",
                _PROJECTION,
                f"the row mean in dx is the mean of those of chunks of {chunk}, the last not full",
                partial(_mean_of_means, chunk=chunk),
            )


def _so_far(s: Setting, chunk: int) -> Iterator[Form]:
    products = s.source.x_hat * s.a
    size = products.shape[-1]
    last = (torch.arange(size, device=products.device) // chunk + 1) * chunk - 1
    last = last.clamp_max(size - 1)
    along = s.source.rrms * s.source.x_hat
    yield replace(
        s.jacobian(),
        second=along * products.cumsum(-1)[:, last] / size,
        second_scale=along.abs() * products.abs().cumsum(-1)[:, last] / size,
    )


def _mean_of_means(s: Setting, chunk: int) -> Iterator[Form]:
    size = s.rows.hidden_size
    chunks = -(-size // chunk)
    short = torch.arange(size, device=s.rows.x.device) >= size // chunk * chunk
    count = torch.where(short, float(size % chunk), float(chunk))
    yield s.jacobian(projected=s.a * (size / (chunks * count)))


def _first_columns(s: Setting, kept: int) -> Iterator[Form]:
    inside = torch.arange(s.rows.hidden_size, device=s.rows.x.device) < kept
    yield s.jacobian(projected=s.a * inside)


def _centred(s: Setting) -> Iterator[Form]:
    form = s.jacobian()
    mean = form.first.mean(-1, keepdim=True)
    scale = form.first.abs().mean(-1, keepdim=True)
    yield replace(form, second=form.second + mean, second_scale=form.second_scale + scale)
    whole = (form.first - form.second).mean(-1, keepdim=True)
    scale = scale + form.second.abs().mean(-1, keepdim=True)
    yield replace(form, second=form.second + whole, second_scale=form.second_scale + scale)


def _layer_norm(s: Setting) -> Iterator[Form]:
    h = s.source.h - s.source.h.mean(-1, keepdim=True)
    mean = h.square().mean(-1, keepdim=True)
    for rrms in (1.0 / (mean + s.rows.eps).sqrt(), s.source.rrms):
        form = s.jacobian(source=Source(h, mean, rrms, s.source.relative))
        shift = form.first.mean(-1, keepdim=True)
        scale = form.second_scale + form.first.abs().mean(-1, keepdim=True)
        yield replace(form, second=form.second + shift, second_scale=scale)
        yield form


def _swapped(s: Setting) -> Iterator[Form]:
    """The rrms is the saved one, or that of what stands in x's place."""
    dy = s.rows.dy
    mean = dy.square().mean(-1, keepdim=True)
    for rrms in (s.source.rrms, 1.0 / (mean + s.rows.eps).sqrt()):
        yield s.jacobian(s.weighted(s.source.h), source=Source(dy, mean, rrms, s.source.relative))


def _alone(s: Setting, which: str) -> Iterator[Form]:
    h = s.rows.x if which == "x" else s.rows.residual
    assert h is not None
    mean: Tensor = h.square().mean(-1, keepdim=True)
    for rrms in (s.source.rrms, 1.0 / (mean + s.rows.eps).sqrt()):
        yield s.jacobian(source=Source(h, mean, rrms, s.source.relative))
