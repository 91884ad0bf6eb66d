"""The diagnosis of gradients: a wrong formula is named, a right one never, wrong elements are described."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from emulation import tensor
from gradient_pieces import DTYPES, Pieces, jacobian, mean, pieces, question, total
from torch import Tensor

from conformance.diagnosing.gradient_candidates import dweight_candidates, dx_candidates
from conformance.diagnosing.gradients import diagnose_dweight, diagnose_dx
from conformance.model import Fill
from conformance.numerics.gradients import explain_dweight, explain_dx
from conformance.numerics.rounding import nearest

# --- dx ----------------------------------------------------------------------------------------------------

DX: dict[str, tuple[str, Callable[[Pieces], Tensor]]] = {
    "dx_without_weight": ("DX-WEIGHT", lambda p: jacobian(p, p.dy)),
    "dx_weight_twice": ("DX-WEIGHT", lambda p: jacobian(p, p.a * p.w)),
    "dx_weight_absolute": ("DX-WEIGHT", lambda p: jacobian(p, p.dy * p.w.abs())),
    "dx_offset_added": ("DX-WEIGHT", lambda p: jacobian(p, p.dy * (p.w + 1.0))),
    "dx_weight_twice_in_projection": ("DX-WEIGHT", lambda p: p.r * (p.a - p.x_hat * p.w * p.c)),
    "dx_weight_missing_in_projection": (
        "DX-WEIGHT",
        lambda p: p.r * (p.a - p.x_hat * mean(p.x_hat * p.dy)),
    ),
    "dx_weight_missing_in_first": ("DX-WEIGHT", lambda p: p.r * (p.dy - p.x_hat * p.c)),
    "dx_weight_moves_round": (
        "DX-WEIGHT",
        lambda p: jacobian(p, p.dy * torch.stack([p.w.roll(-i) for i in range(len(p.dy))])),
    ),
    "no_projection": ("DX-PROJECTION", lambda p: p.r * p.a),
    "projection_added": ("DX-PROJECTION", lambda p: p.r * (p.a + p.x_hat * p.c)),
    "projection_divisor_1": ("DX-PROJECTION", lambda p: p.r * (p.a - p.x_hat * p.c * 257)),
    "projection_divisor_256": ("DX-PROJECTION", lambda p: p.r * (p.a - p.x_hat * p.c * 257 / 256)),
    "projection_divisor_512": ("DX-PROJECTION", lambda p: p.r * (p.a - p.x_hat * p.c * 257 / 512)),
    "projection_drops_last_1": (
        "DX-PROJECTION",
        lambda p: p.r * (p.a - p.x_hat * (p.x_hat * p.a)[:, :-1].sum(-1, keepdim=True) / 257),
    ),
    "dx_centred": ("DX-PROJECTION", lambda p: p.r * (p.a - mean(p.a) - p.x_hat * p.c)),
    "x_and_dy_swapped": (
        "DX-PROJECTION",
        lambda p: p.r * (p.h * p.w - p.dy * p.r * mean(p.dy * p.r * p.h * p.w)),
    ),
    "rrms_powers_minus_1_minus_1": ("DX-RRMS", lambda p: p.ds / p.r),
    "rrms_powers_1_1": ("DX-RRMS", lambda p: p.ds * p.r),
    "rrms_powers_2_2": ("DX-RRMS", lambda p: p.ds * p.r**2),
    "rrms_powers_0_minus_1": ("DX-RRMS", lambda p: p.r * p.a - p.x_hat * p.c),
    "rrms_powers_0_minus_2": ("DX-RRMS", lambda p: p.r * p.a - p.h * p.c),
    "rms_for_rrms": ("DX-RRMS", lambda p: jacobian(p, p.a, 1.0 / p.r)),
    "eps_omitted": ("DX-RRMS", lambda p: jacobian(p, p.a, 1.0 / mean(p.h.square()).sqrt())),
    "eps_0.001": ("DX-RRMS", lambda p: jacobian(p, p.a, 1.0 / (mean(p.h.square()) + 1e-3).sqrt())),
    "eps_outside": ("DX-RRMS", lambda p: jacobian(p, p.a, 1.0 / (mean(p.h.square()).sqrt() + p.eps))),
    "rrms_in_bfloat16": ("DX-RRMS", lambda p: jacobian(p, p.a, nearest(p.r, "bfloat16"))),
    "dx_dy_of_first_row": ("DX-ROWS", lambda p: jacobian(p, p.a[:1].expand_as(p.a))),
    "dx_dy_of_row_after": ("DX-ROWS", lambda p: jacobian(p, p.a.roll(-1, 0))),
    "dx_rrms_of_row_after": ("DX-ROWS", lambda p: jacobian(p, p.a, p.r.roll(-1, 0))),
    "dx_all_of_row_before": ("DX-ROWS", lambda p: jacobian(p, p.a).roll(1, 0)),
    "dx_sum_of_4_rows": (
        "DX-ROWS",
        lambda p: p.r * (p.a - p.x_hat * torch.cat([c.mean(0).expand(len(c), 1) for c in p.c.split(4)])),
    ),
    "dx_rrms_of_first_of_8": (
        "DX-ROWS",
        lambda p: jacobian(p, p.a, p.r[torch.arange(len(p.r)) // 8 * 8]),
    ),
    "dx_sum_of_all_rows": ("DX-ROWS", lambda p: p.r * (p.a - p.x_hat * p.c.mean())),
    "dx_mean_of_rows": ("DX-ROWS", lambda p: p.ds.mean(0, keepdim=True).expand_as(p.ds)),
}


@pytest.mark.parametrize("turn", range(len(DX)), ids=list(DX))
def test_a_wrong_dx_is_named(turn: int) -> None:
    """Dtypes take turns. The fault is among the matches on every fill where it shows, and leads on one."""
    name = list(DX)[turn]
    requirement, formula = DX[name]
    dtype, led = DTYPES[turn % 3], False
    for fill in ("scaled", "rowjump"):
        q = question(dtype, False, fill=fill)
        values = nearest(formula(pieces(q)), dtype)
        found = explain_dx(q, values)
        diagnosis = diagnose_dx(q, values, found=found)
        if found.explained:
            assert diagnosis.matches == diagnosis.structure == ()
            continue
        names = {m.name: m.requirement for m in diagnosis.matches}
        assert name in names, (fill, names, diagnosis.structure)
        assert names[name] == requirement
        assert diagnosis.structure
        assert diagnosis.requirement in (requirement, None)
        led |= diagnosis.requirement == requirement
    assert led


RESIDUAL: dict[str, tuple[str, Callable[[Pieces], Tensor]]] = {
    "dresidual_out_before_jacobian": ("DRESIDUAL-AFTER", lambda p: jacobian(p, (p.dy + p.d) * p.w)),
    "dresidual_out_before_and_after": ("DRESIDUAL-AFTER", lambda p: jacobian(p, p.a + p.d) + p.d),
    "dresidual_out_lost": ("DRESIDUAL-ADDED", lambda p: p.ds),
    "dresidual_out_twice": ("DRESIDUAL-ADDED", lambda p: p.ds + 2 * p.d),
    "dresidual_out_subtracted": ("DRESIDUAL-ADDED", lambda p: p.ds - p.d),
    "dresidual_out_weighted": ("DRESIDUAL-ADDED", lambda p: p.ds + p.d * p.w),
    "dresidual_out_scaled": ("DRESIDUAL-ADDED", lambda p: p.ds + p.d * p.r),
    "dresidual_out_alone": ("DRESIDUAL-SAME", lambda p: p.d),
}


@pytest.mark.parametrize("which", ["dx", "dresidual"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", list(RESIDUAL))
def test_faults_of_the_gradient_of_residual_out(name: str, dtype: str, which: str) -> None:
    requirement, formula = RESIDUAL[name]
    q = question(dtype, True, (9, 129))
    found = diagnose_dx(q, nearest(formula(pieces(q)), dtype), which)
    assert found.requirement == requirement
    assert found.matches[0].name == name


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("which", ["x", "residual"])
def test_dx_of_one_addend_alone(dtype: str, which: str) -> None:
    q = question(dtype, True, (9, 129))
    p = pieces(q)
    h = q.forward.x if which == "x" else q.forward.residual
    assert h is not None
    found = diagnose_dx(q, nearest(total(p, jacobian(replace(p, h=h), p.a)), dtype))
    assert (found.requirement, found.matches[0].name) == ("DX-PROJECTION", f"dx_from_{which}_alone")


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_offset_that_is_forgotten(dtype: str) -> None:
    q = question(dtype, False, offset=1.0)
    p = pieces(q)
    found = diagnose_dx(q, nearest(jacobian(p, p.dy * (p.w - 1.0)), dtype))
    assert (found.requirement, found.matches[0].name) == ("DX-WEIGHT", "dx_offset_missing")


# --- dweight -----------------------------------------------------------------------------------------------


def blocks(t: Tensor, rows: int) -> Tensor:
    """Sums of blocks of rows that follow each other."""
    return torch.stack([block.sum(0) for block in t.split(rows)])


def in_order(t: Tensor, dtype: str) -> Tensor:
    sums = torch.zeros_like(t[0])
    for row in t:
        sums = nearest(sums + row, dtype)
    return sums


DWEIGHT: dict[str, tuple[str, Callable[[Pieces], Tensor]]] = {
    "dweight_without_x_hat": ("DWEIGHT-XHAT", lambda p: p.dy.sum(0)),
    "dweight_of_x": ("DWEIGHT-XHAT", lambda p: (p.dy * p.h).sum(0)),
    "dweight_x_hat_squared": ("DWEIGHT-XHAT", lambda p: (p.dy * p.x_hat**2).sum(0)),
    "dweight_of_y": ("DWEIGHT-XHAT", lambda p: (p.a * p.x_hat).sum(0)),
    "dweight_rrms_twice": ("DWEIGHT-XHAT", lambda p: (p.dy * p.x_hat * p.r).sum(0)),
    "dweight_from_dx": ("DWEIGHT-XHAT", lambda p: (p.ds * p.x_hat).sum(0)),
    "dweight_x_hat_of_row_before": ("DWEIGHT-XHAT", lambda p: (p.dy * p.x_hat.roll(1, 0)).sum(0)),
    "dweight_eps_0.001": (
        "DWEIGHT-XHAT",
        lambda p: (p.dy * p.h / (mean(p.h.square()) + 1e-3).sqrt()).sum(0),
    ),
    "dweight_rms_for_rrms": ("DWEIGHT-XHAT", lambda p: (p.dy * p.h / p.r).sum(0)),
    "dweight_is_one_sum": ("DWEIGHT-AXES", lambda p: (p.dy * p.x_hat).sum().expand_as(p.w)),
    "dweight_zero": ("DWEIGHT-ROWS", lambda p: torch.zeros_like(p.w)),
    "dweight_mean": ("DWEIGHT-ROWS", lambda p: (p.dy * p.x_hat).mean(0)),
    "dweight_twice": ("DWEIGHT-ROWS", lambda p: 2 * (p.dy * p.x_hat).sum(0)),
    "dweight_first_32_rows": ("DWEIGHT-ROWS", lambda p: (p.dy * p.x_hat)[:32].sum(0)),
    "dweight_first_1_rows": ("DWEIGHT-ROWS", lambda p: (p.dy * p.x_hat)[0]),
    "dweight_from_row_32": ("DWEIGHT-ROWS", lambda p: (p.dy * p.x_hat)[32:].sum(0)),
    "dweight_even_blocks_of_4": ("DWEIGHT-ROWS", lambda p: blocks(p.dy * p.x_hat, 4)[::2].sum(0)),
    "dweight_loses_4th_block_of_8": (
        "DWEIGHT-ROWS",
        lambda p: blocks(p.dy * p.x_hat, 8)[[0, 1, 2, 4]].sum(0),
    ),
    "dweight_last_row_again_31": (
        "DWEIGHT-ROWS",
        lambda p: (p.dy * p.x_hat).sum(0) + 31 * (p.dy * p.x_hat)[-1],
    ),
    "dweight_last_row_twice": ("DWEIGHT-ROWS", lambda p: (p.dy * p.x_hat).sum(0) + (p.dy * p.x_hat)[-1]),
    "dweight_summed_in_bfloat16_order": (
        "DWEIGHT-ACCUMULATION",
        lambda p: in_order(p.dy * p.x_hat, "bfloat16"),
    ),
    "dweight_partials_in_bfloat16_8": (
        "DWEIGHT-ACCUMULATION",
        lambda p: nearest(blocks(p.dy * p.x_hat, 8), "bfloat16").sum(0),
    ),
}


@pytest.mark.parametrize("turn", range(len(DWEIGHT)), ids=list(DWEIGHT))
def test_a_wrong_dweight_is_named(turn: int) -> None:
    """As for dx; the weight is fp32 beside 16-bit activations in one of three."""
    name = list(DWEIGHT)[turn]
    requirement, formula = DWEIGHT[name]
    dtype, led = DTYPES[turn % 3], False
    for fill in ("scaled", "rowjump"):
        q = question(dtype, False, fill=fill, weight_dtype="float32")
        values = nearest(formula(pieces(q)), "float32")
        found = explain_dweight(q, values)
        diagnosis = diagnose_dweight(q, values, found)
        if found.explained:
            assert diagnosis.matches == diagnosis.structure == ()
            continue
        names = {m.name: m.requirement for m in diagnosis.matches}
        assert name in names, (fill, names, diagnosis.structure)
        assert names[name] == requirement
        assert diagnosis.structure
        led |= diagnosis.requirement == requirement
    assert led


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("dweight_first_rows", lambda t: t[:21].sum(0)),
        ("dweight_last_rows", lambda t: t[21:].sum(0)),
        ("dweight_without_row", lambda t: t.sum(0) - t[21]),
        ("dweight_row_twice", lambda t: t.sum(0) + t[21]),
    ],
)
def test_rows_that_no_block_size_explains_are_measured(
    name: str, formula: Callable[[Tensor], Tensor]
) -> None:
    q = question("bfloat16", False, fill="mean", weight_dtype="float32")
    p = pieces(q)
    found = diagnose_dweight(q, nearest(formula(p.dy * p.x_hat), "float32"))
    assert [(m.name, m.requirement) for m in found.matches] == [(name, "DWEIGHT-ROWS")]
    assert " 2" in found.matches[0].sentence


def test_one_batch_element_stands_for_all() -> None:
    """The leading dimensions of x tell a lost dimension from lost rows."""
    q = question("float32", False, (12, 65))
    p = pieces(q)
    found = diagnose_dweight(q, nearest((p.dy * p.x_hat)[:4].sum(0), "float32"), leading=(3, 4))
    assert (found.requirement, found.matches[0].name) == ("DWEIGHT-AXES", "dweight_first_of_dimension_0")


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_x_hat_recovered_from_y(dtype: str) -> None:
    """0 / 0 where the weight is 0, and noise where it is tiny."""
    q = question(dtype, False)
    weight = q.forward.weight
    assert weight is not None
    weight = weight.clone()
    weight[::9] = 0.0
    q = replace(q, forward=replace(q.forward, weight=weight))
    p = pieces(q)
    y = nearest(p.x_hat * p.w, dtype)
    dweight = nearest((p.dy * (y / p.w)).sum(0), dtype)
    assert diagnose_dweight(q, dweight).requirement == "DWEIGHT-ZERO-WEIGHTS"
    exact = nearest((p.dy * (p.x_hat * p.w / p.w)).sum(0), dtype)
    assert diagnose_dweight(q, exact).requirement == "DWEIGHT-ZERO-WEIGHTS"
    x_hat = y / p.w
    dx = nearest(p.r * (p.a - x_hat * mean(x_hat * p.a)), dtype)
    assert diagnose_dx(q, dx).requirement == "DWEIGHT-ZERO-WEIGHTS"


def test_noise_where_the_weight_is_tiny() -> None:
    """Nothing else is wrong, so the places say it."""
    q = question("bfloat16", False, weight_dtype="float32")
    weight = q.forward.weight
    assert weight is not None
    weight = weight.clone()
    weight[::9] = 2.0**-30
    q = replace(q, forward=replace(q.forward, weight=weight))
    p = pieces(q)
    dweight = (p.dy * p.x_hat).sum(0)
    dweight[::9] *= 1.5
    found = diagnose_dweight(q, nearest(dweight, "float32"))
    assert [m.name for m in found.matches] == ["dweight_at_tiny_weights"]


# --- what is right, and what is only described -----------------------------------------------------------


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_no_candidate_is_named_for_a_right_gradient(dtype: str, fused: bool) -> None:
    for fill in ("scaled", "mean", "tail"):
        q = question(dtype, fused, (9, 65), fill)
        p = pieces(q)
        right = nearest(total(p, p.ds), dtype)
        for which in ("dx", "dresidual") if fused else ("dx",):
            assert diagnose_dx(q, right, which).matches == ()
        assert diagnose_dweight(q, nearest((p.dy * p.x_hat).sum(0), dtype)).matches == ()


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_no_formula_gives_has_no_match(dtype: str) -> None:
    q = question(dtype, True, (9, 65))
    p = pieces(q)
    noise = tensor(Fill(seed=77), (9, 65), "float32")
    assert diagnose_dx(q, nearest(total(p, p.ds) * (1 + 0.1 * noise), dtype)).matches == ()
    dweight = (p.dy * p.x_hat).sum(0) * (1 + 0.3 * noise[0])
    assert diagnose_dweight(q, nearest(dweight, dtype)).matches == ()


def test_the_wrong_elements_are_described() -> None:
    q = question("float32", False, (6, 100))
    p = pieces(q)
    dx, dweight = p.ds, (p.dy * p.x_hat).sum(0)
    dx[:, 96:] = 0.0
    found = diagnose_dx(q, nearest(dx, "float32"))
    assert found.structure == (
        "every wrong element is 0",
        "every row is affected, in only the last 4 of 100 columns (from 96 on)",
    )
    assert [(m.name, m.requirement) for m in found.matches] == [("dx_tail_columns", "DX-ROWS")]
    dx = p.ds
    dx[4:] = 0.0
    found = diagnose_dx(q, nearest(dx, "float32"))
    assert [(m.name, m.requirement) for m in found.matches] == [("dx_rows_zero", "DX-ROWS")]
    dweight[96:] = 0.0
    found = diagnose_dweight(q, nearest(dweight, "float32"))
    assert found.structure == ("every wrong element is 0", "in only the last 4 of 100 columns (from 96 on)")
    assert [(m.name, m.requirement) for m in found.matches] == [("dweight_tail_columns", "DWEIGHT-ROWS")]
    nothing = diagnose_dx(q, torch.full((6, 100), math.nan, dtype=torch.float64))
    assert nothing.structure == ("every wrong element is NaN", "every row is affected, in every column")


def test_candidates_have_names_of_their_own_and_whole_sentences() -> None:
    q = question("float16", True, (64, 64), offset=1.0, weight_dtype="float32")
    for listed in (list(dx_candidates(q)), list(dweight_candidates(q, (8, 8)))):
        assert len({c.name for c in listed}) == len(listed) > 60
        assert all(c.sentence and not c.sentence.endswith(".") for c in listed)
