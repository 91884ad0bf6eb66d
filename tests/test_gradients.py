"""The rule for dx, dresidual and dweight at its edges: for every dtype and convention the last value inside
passes, the next fails."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from gradient_emulation import Dweight, Dx, gradient_problem
from representable import DTYPES, changed, step
from torch import Tensor

from conformance.model import Fill
from conformance.numerics.conventions import Problem
from conformance.numerics.gradients import (
    DweightConvention,
    DxConvention,
    GradientProblem,
    dweight_conventions,
    dweight_interval,
    dx_conventions,
    dx_interval,
    explain_dweight,
    explain_dx,
    wrong_dweight,
    wrong_dx,
)

SHAPE = (5, 129)

MIXED: list[tuple[str, dict[str, str], float]] = [
    *[(dtype, {}, 0.0) for dtype in DTYPES],
    *[(dtype, {}, 1.0) for dtype in DTYPES],
    ("bfloat16", {"weight_dtype": "float32"}, 0.0),
    ("float16", {"weight_dtype": "float32"}, 1.0),
    ("float16", {"residual_dtype": "float32"}, 0.0),
    ("bfloat16", {"residual_dtype": "float32"}, 0.0),
    ("float32", {"residual_dtype": "bfloat16"}, 0.0),
    ("float32", {"weight_dtype": "bfloat16"}, 0.0),
]


def every_problem() -> list[tuple[str, GradientProblem]]:
    """Dtypes, with an offset and mixed ones too, plain and fused, with each gradient that may arrive."""
    found = []
    for dtype, dtypes, offset in MIXED:
        for fused in (False, True):
            if "residual_dtype" in dtypes and not fused:
                continue
            for upstream in (("y",), ("y", "residual_out"), ("residual_out",)) if fused else (("y",),):
                p = gradient_problem(
                    SHAPE, Fill(seed=1), dtype, fused=fused, offset=offset, upstream=upstream, **dtypes
                )
                label = (
                    f"{dtype} {dtypes or ''} {offset:g} {'fused' if fused else 'plain'} {'+'.join(upstream)}"
                )
                found.append((label, p))
    return found


EVERY = every_problem()
EACH = pytest.mark.parametrize("p", [p for _, p in EVERY], ids=[label for label, _ in EVERY])


def wanted(p: GradientProblem) -> tuple[str, ...]:
    return ("dx", "dresidual") if p.forward.fused else ("dx",)


@EACH
def test_the_ends_of_the_interval_of_dx_pass_and_the_next_values_fail(p: GradientProblem) -> None:
    for which in wanted(p):
        for convention in dx_conventions(p, which):
            for edge, outward in zip(dx_interval(p, convention, which), (-1, 1), strict=True):
                found = explain_dx(p, edge, which=which)
                assert convention.name in found.conventions, found.worst
                assert found.worst is None
                assert found.compared == edge.numel()
                beyond = step(edge, p.dtype_of(which), outward)
                values, places = edge.clone(), [[0, 0], [2, 77], [SHAPE[0] - 1, SHAPE[1] - 1]]
                for row, column in places:
                    values[row, column] = beyond[row, column]
                assert wrong_dx(p, values, convention, which).nonzero().tolist() == places


@EACH
def test_the_ends_of_the_interval_of_dweight_pass_and_the_next_values_fail(p: GradientProblem) -> None:
    for convention in dweight_conventions(p):
        for edge, outward in zip(dweight_interval(p, convention), (-1, 1), strict=True):
            found = explain_dweight(p, edge)
            assert convention.name in found.conventions, found.worst
            assert found.worst is None
            assert found.compared == SHAPE[1]
            beyond = step(edge, p.dweight_dtype, outward)
            values, columns = edge.clone(), [0, 77, SHAPE[1] - 1]
            values[columns] = beyond[columns]
            assert wrong_dweight(p, values, convention).nonzero().flatten().tolist() == columns


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_one_element_outside_every_convention_is_the_finding(dtype: str, fused: bool) -> None:
    p = gradient_problem(SHAPE, Fill(seed=1), dtype, fused=fused)
    right = Dx(dx_conventions(p)[0])(p)
    highest = torch.stack([dx_interval(p, c)[1] for c in dx_conventions(p)]).amax(0)
    found = explain_dx(p, changed(right, 3, 100, float(step(highest, dtype, 1)[3, 100])))
    assert not found.explained
    assert found.conventions == ()
    assert found.worst is not None
    assert found.worst.count == 1
    (wrong,) = found.wrong
    assert wrong == found.worst.element
    assert wrong.index == (3, 100)
    assert wrong.low <= wrong.expected <= wrong.high < wrong.actual

    dweight = Dweight(dweight_conventions(p)[0])(p)
    highest = torch.stack([dweight_interval(p, c)[1] for c in dweight_conventions(p)]).amax(0)
    dweight[100] = step(highest, dtype, 1)[100]
    column = explain_dweight(p, dweight)
    assert not column.explained
    assert [w.index for w in column.wrong] == [(100,)]
    assert column.worst is not None
    assert column.worst.count == 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_in_sixteen_bits_a_kernel_comes_out_in_its_own_convention(dtype: str) -> None:
    for fused in (False, True):
        p = gradient_problem((9, 1000), Fill(seed=1), dtype, fused=fused)
        for convention in dx_conventions(p):
            assert explain_dx(p, Dx(convention)(p)).conventions == (convention.name,)
        for terms in dweight_conventions(p):
            # Mixed differs from the rounded sum by the statistic alone: in fp16 often too little to see.
            found = explain_dweight(p, Dweight(terms)(p)).conventions
            assert {name.replace("mixed", "rounded sum") for name in found} == {
                terms.name.replace("mixed", "rounded sum")
            }


def test_elements_of_two_conventions_do_not_mix() -> None:
    p = gradient_problem(SHAPE, Fill(seed=1), "bfloat16", fused=True)
    one, other = (Dx(c)(p) for c in (dx_conventions(p)[0], dx_conventions(p)[-1]))
    patched = one.clone()
    patched[1:] = other[1:]
    assert explain_dx(p, one).explained
    assert explain_dx(p, other).explained
    assert not explain_dx(p, patched).explained


def test_names_do_not_depend_on_which_gradients_arrive() -> None:
    """So that the conventions of several runs can be intersected."""
    p = gradient_problem(SHAPE, Fill(seed=1), "bfloat16", fused=True)
    names = {c.name for c in dx_conventions(p)}
    assert "exact sum, a rounded, added after rounding" in names
    assert p.dy is not None
    alone = replace(p, dy=None)
    assert set(explain_dx(alone, Dx(dx_conventions(p)[0])(replace(p, dy=p.dy * 0))).conventions) == names
    without = replace(p, dresidual_out=None)
    found = explain_dx(without, Dx(dx_conventions(p)[0])(without)).conventions
    assert found == ("exact sum, a in fp32, added once", "exact sum, a in fp32, added after rounding")
    assert len({c.name for c in dweight_conventions(p)}) == 12


def test_an_fp32_gradient_has_no_rounded_convention() -> None:
    plain = gradient_problem(SHAPE, Fill(seed=1), "float32", fused=False)
    assert [c.name for c in dx_conventions(plain)] == ["a in fp32"]
    assert [c.name for c in dweight_conventions(plain)] == ["x_hat in fp32, product in fp32"]


def test_the_total_may_pass_through_residual_outs_dtype() -> None:
    p = gradient_problem(SHAPE, Fill(seed=1), "float32", fused=True, residual_dtype="bfloat16")
    stored = DxConvention(False, "rounded_sum", norm_rounded="residual", rounds_total=True)
    values = Dx(stored)(p)
    assert torch.equal(values, values.bfloat16().double())
    assert explain_dx(p, values).conventions == (stored.name,)
    assert explain_dx(p, values, which="dresidual").explained
    assert stored.name not in {c.name for c in dx_conventions(p, "dresidual")}


def test_dresidual_of_fp32_is_not_what_went_through_sixteen_bits() -> None:
    p = gradient_problem(SHAPE, Fill(seed=1), "bfloat16", fused=True, residual_dtype="float32")
    fine = Dx(DxConvention(False, "exact_sum"))(p, "dresidual")
    assert explain_dx(p, fine, which="dresidual").explained
    assert not explain_dx(p, fine.bfloat16().double(), which="dresidual").explained
    assert explain_dx(p, fine.bfloat16().double(), which="dx").explained


def test_no_weight() -> None:
    p = gradient_problem((4, 33), Fill(seed=1), "bfloat16", fused=False)
    bare = replace(p, forward=replace(p.forward, weight=None))
    found = explain_dx(bare, Dx(DxConvention(False))(bare))
    assert found.conventions == ("a in fp32", "a rounded")
    with pytest.raises(ValueError, match="no weight, so it has no dweight"):
        explain_dweight(bare, torch.zeros(33, dtype=torch.float64))


def test_the_share_of_the_allowed_error() -> None:
    p = gradient_problem(SHAPE, Fill(seed=1), "float32", fused=True)
    right = explain_dx(p, Dx(dx_conventions(p)[0])(p))
    assert 0.0 < right.share < 0.5
    low = dx_interval(p, dx_conventions(p)[0])[0]
    assert explain_dx(p, low).share == pytest.approx(1.0, abs=0.05)
    assert explain_dweight(p, dweight_interval(p, dweight_conventions(p)[0])[1]).share == pytest.approx(
        1.0, abs=0.05
    )


def test_zero_elements_never_explain_dx_and_zero_rows_give_a_dweight_of_zeros() -> None:
    none = torch.zeros(0, 7, dtype=torch.float64)
    weight = torch.ones(7, dtype=torch.float64)
    forward = Problem(none, None, weight, 1e-6, 0.0, "float16", "", "float16", "float16")
    p = GradientProblem(forward, none, None, "float16", "", "float16")
    assert not explain_dx(p, none).explained
    assert explain_dx(p, none).compared == 0
    zeros = explain_dweight(p, weight * 0.0)
    assert zeros.explained
    assert zeros.compared == 7
    assert len(zeros.conventions) == 4
    for value in (2.0**-24, float("nan")):
        assert not explain_dweight(p, weight * value).explained


def test_every_row_and_column_is_judged_once() -> None:
    for shape in ((1000, 300), (3, 40999)):
        p = gradient_problem(shape, Fill(seed=1), "float16", fused=False)
        right = Dx(DxConvention(False))(p)
        assert explain_dx(p, right).compared == right.numel()
        for row in (0, shape[0] // 2, shape[0] - 1):
            found = explain_dx(p, changed(right, row, shape[1] - 1, 900.0))
            assert [w.index for w in found.wrong] == [(row, shape[1] - 1)]
        dweight = Dweight(DweightConvention(False, False))(p)
        assert explain_dweight(p, dweight).compared == shape[1]
        for column in (0, shape[1] // 2, shape[1] - 1):
            found_column = explain_dweight(p, moved(dweight, column, 9e3))
            assert [w.index for w in found_column.wrong] == [(column,)]


def moved(values: Tensor, column: int, value: float) -> Tensor:
    values = values.clone()
    values[column] = value
    return values


def test_refusals() -> None:
    p = gradient_problem((2, 3), Fill(), "float16", fused=False)
    with pytest.raises(ValueError, match=r"should be a float64 copy of shape \(2, 3\)"):
        explain_dx(p, torch.zeros(2, 4, dtype=torch.float64))
    with pytest.raises(ValueError, match=r"should be a float64 copy of shape \(3,\)"):
        explain_dweight(p, torch.zeros(1, dtype=torch.float64))
    with pytest.raises(ValueError, match="no residual, so it has no dresidual"):
        explain_dx(p, p.forward.x, which="dresidual")
    with pytest.raises(ValueError, match="should be 'dx' or 'dresidual'"):
        p.dtype_of("dweight")
    with pytest.raises(ValueError, match="without a residual"):
        replace(p, dresidual_out=p.dy)
    with pytest.raises(ValueError, match=r"dy has shape \(3, 2\)"):
        replace(p, dy=torch.zeros(3, 2, dtype=torch.float64))
    with pytest.raises(ValueError, match="dy has dtype"):
        replace(p, dy=torch.zeros(2, 3))
    with pytest.raises(ValueError, match="should be one of"):
        replace(p, dx_dtype="int8")
