"""No false alarm: right backwards of every kind, in every dtype, are explained."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch
from emulation import fills
from gradient_emulation import BLOCKINGS, EAGER, FORMS, Dweight, Dx, eager, gradient_problem
from representable import DTYPES
from torch import Tensor

from conformance.model import Fill
from conformance.numerics.gradients import (
    DweightConvention,
    DxConvention,
    GradientProblem,
    dweight_conventions,
    dx_conventions,
    explain_dweight,
    explain_dx,
)
from conformance.numerics.rounding import nearest

SIZES = ((5, 1), (4, 2), (9, 129), (5, 769), (3, 4099), (257, 7))
KINDS = tuple(
    itertools.product(
        FORMS,
        ("ascending", "descending", "lanes", "tree"),
        ("exact", "plus 2 ulp", "minus 2 ulp", "times 1/N"),
    )
)
MIXED: list[tuple[str, dict[str, str], float]] = [
    ("bfloat16", {"weight_dtype": "float32"}, 0.0),
    ("float16", {"weight_dtype": "float32"}, 1.0),
    ("bfloat16", {"residual_dtype": "float32"}, 0.0),
    ("float16", {"residual_dtype": "float32", "weight_dtype": "float32"}, 0.0),
    ("float32", {"residual_dtype": "bfloat16"}, 0.0),
    ("float32", {"weight_dtype": "bfloat16"}, 0.0),
    ("bfloat16", {}, 1.0),
    ("float16", {}, 1.0),
]


def kind(*key: object) -> tuple[str, str, str]:
    """One of the kinds of kernel, another for another key, the same on every machine."""
    return KINDS[zlib.crc32(repr(key).encode()) % len(KINDS)]


def judge(p: GradientProblem, *key: object) -> int:
    """Every convention by a kernel of some kind, and torch's own differentiation; the number judged."""
    judged = 0
    for which in ("dx", "dresidual") if p.forward.fused else ("dx",):
        for convention in dx_conventions(p, which):
            form, order, root = kind(*key, convention.name)
            found = explain_dx(p, Dx(convention, order, root, form)(p, which), which=which)
            assert convention.name in found.conventions, (key, which, form, order, root, found.worst)
            judged += 1
    for terms in dweight_conventions(p):
        _, order, root = kind(*key, terms.name)
        blocking = BLOCKINGS[len(terms.name + order) % len(BLOCKINGS)]
        column = explain_dweight(p, Dweight(terms, blocking, order, root)(p))
        assert terms.name in column.conventions, (key, blocking, order, root, column.worst)
        judged += 1
    for norm in EAGER:
        for which, values in eager(p, norm).items():
            assert values is not None
            right = explain_dweight(p, values) if which == "dweight" else explain_dx(p, values, which=which)
            assert right.explained, (key, norm, which, right.worst)
            judged += 1
    return judged


@pytest.mark.parametrize("shape", SIZES, ids=str)
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_right_kernels_of_one_dtype(dtype: str, fused: bool, shape: tuple[int, int]) -> None:
    judged = 0
    for name, fill in fills(shape[0]).items():
        for parallel in (False, True):
            both = fused and (parallel or name in ("scaled", "mean"))
            upstream = ("y", "residual_out") if both else ("y",)
            p = gradient_problem(
                shape, fill, dtype, fused=fused, eps=1e-5, parallel=parallel, upstream=upstream
            )
            judged += judge(p, dtype, fused, shape, name, parallel, upstream)
    assert judged >= 8 * 4


@pytest.mark.parametrize("shape", [(5, 1), (9, 257)], ids=str)
@pytest.mark.parametrize(("dtype", "dtypes", "offset"), MIXED, ids=str)
@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")
def test_right_kernels_of_mixed_dtypes_and_with_an_offset(
    dtype: str, dtypes: dict[str, str], offset: float, shape: tuple[int, int]
) -> None:
    for fused in (False, True):
        if "residual_dtype" in dtypes and not fused:
            continue
        for name in ("scaled", "mean"):
            fill = fills(shape[0])[name]
            p = gradient_problem(shape, fill, dtype, fused=fused, offset=offset, **dtypes)
            assert judge(p, dtype, sorted(dtypes), offset, shape, name) > 6


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("shape", [(17, 40999), (65537, 9)], ids=str)
def test_large_ones(shape: tuple[int, int], dtype: str) -> None:
    p = gradient_problem(shape, Fill(seed=1), dtype, fused=True)
    fused = Dx(DxConvention(False, "rounded_sum"), "lanes", "plus 2 ulp", "added inside")(p)
    assert explain_dx(p, fused).explained
    for blocking in ("rows in order", "blocks of 64"):
        assert explain_dweight(
            p, Dweight(DweightConvention(False, False, "rounded_sum"), blocking)(p)
        ).explained
    torchs = eager(p, "llama")
    assert torchs["dx"] is not None
    assert torchs["dweight"] is not None
    assert explain_dx(p, torchs["dx"]).explained
    assert explain_dweight(p, torchs["dweight"]).explained


@pytest.fixture
def flushing() -> Iterator[Callable[[bool], bool]]:
    """Switches the flushing of subnormals on and off; off again at the end, and for the judge."""
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot flush subnormals, so what flushes them cannot be emulated")
    torch.set_flush_denormal(False)
    yield torch.set_flush_denormal
    torch.set_flush_denormal(False)


EXTREMES = [
    # scale of x, of dy, of the weight
    (1e-38, 1.0, 1.0), (1e-30, 1e-6, 1.0), (1e-15, 1.0, 1.0), (1e-5, 1e-38, 1.0), (1.0, 1e-38, 1.0),
    (1.0, 1.0, 1e-39), (1.0, 1e-30, 1e-20), (1e8, 1.0, 1.0), (1e13, 1.0, 1.0), (1e17, 1e4, 1.0),
    (1.0, 1e15, 1.0), (1e15, 1e-30, 1.0),
]  # fmt: skip


@pytest.mark.parametrize("scales", EXTREMES, ids=str)
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_subnormals_may_be_flushed_anywhere_on_the_way(
    dtype: str, scales: tuple[float, float, float], flushing: Callable[[bool], bool]
) -> None:
    of_x, of_dy, of_weight = scales
    for fused, shape in itertools.product((False, True), ((4, 1), (5, 33))):
        p = scaled(gradient_problem(shape, Fill(seed=1, scale=of_x), dtype, fused=fused), of_dy, of_weight)
        for flush in (False, True):
            results: list[tuple[str, Tensor | None]] = []
            flushing(flush)
            for convention in dx_conventions(p):
                form, order, root = kind(dtype, scales, fused, shape, convention.name)
                results.append(("dx", Dx(convention, order, root, form)(p)))
            for terms in dweight_conventions(p):
                results.append(("dweight", Dweight(terms, "blocks of 64")(p)))
            for norm in EAGER:
                results += list(eager(p, norm).items())
            flushing(False)
            for which, values in results:
                assert values is not None
                found = (
                    explain_dweight(p, values) if which == "dweight" else explain_dx(p, values, which=which)
                )
                assert found.explained, (fused, shape, flush, which, found.worst)


def scaled(p: GradientProblem, of_dy: float, of_weight: float) -> GradientProblem:
    assert p.dy is not None
    assert p.forward.weight is not None
    dtype = p.forward.x_dtype
    forward = replace(p.forward, weight=nearest(p.forward.weight * of_weight, dtype))
    return replace(p, forward=forward, dy=nearest(p.dy * of_dy, dtype))


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("of_x", [3e-8, 1e-6, 1e-3, 250.0, 6000.0])
def test_fp16_from_far_under_eps_to_subnormal_gradients(of_x: float, fused: bool) -> None:
    for shape in ((4, 1), (9, 257)):
        for of_dy in (1e-7, 1.0, 30.0):
            p = gradient_problem(shape, Fill(seed=1, scale=of_x), "float16", fused=fused)
            judge(scaled(p, of_dy, 1.0), of_x, fused, shape, of_dy)


@pytest.mark.parametrize("dtype", DTYPES)
def test_zeros_in_x_dy_and_the_weight(dtype: str) -> None:
    for fused in (False, True):
        p = gradient_problem((6, 33), Fill(seed=1, zero_rows=(1, 4)), dtype, fused=fused)
        assert p.dy is not None
        assert p.forward.weight is not None
        dy, weight = p.dy.clone(), p.forward.weight.clone()
        dy[2] = 0.0
        dy[:, 5] = 0.0
        weight[::3] = 0.0
        residual = None if p.forward.residual is None else p.forward.residual.clone()
        if residual is not None:
            residual[1] = 0.0
        zeros = replace(p, forward=replace(p.forward, weight=weight, residual=residual), dy=dy)
        judge(zeros, dtype, fused, "zeros")
        dx = Dx(dx_conventions(zeros)[0])(replace(zeros, dresidual_out=None))
        a = dy[1] * weight / zeros.forward.eps**0.5
        assert torch.allclose(dx[1], a, rtol=1e-2)
        assert (dx[2] == 0).all()
