"""Patterns in words: lanes, tiles, displaced values; what tells formulas apart; where none is known."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from emulation import fills, problem
from gradient_pieces import jacobian, mean, pieces, question
from torch import Tensor

from conformance.diagnosing.apart import KINDS
from conformance.diagnosing.diagnosis import diagnose
from conformance.diagnosing.gradients import diagnose_dweight, diagnose_dx
from conformance.diagnosing.structure import describe_elements
from conformance.numerics.rounding import nearest

SHAPE = (12, 512)
COLUMN = torch.arange(SHAPE[1])
ROW = torch.arange(SHAPE[0])
NOISE = torch.randn(SHAPE, dtype=torch.float64, generator=torch.Generator().manual_seed(5))


def told(wrong: Tensor, values: Tensor | None = None) -> str:
    actual = torch.where(wrong, NOISE * 1.37 if values is None else values, NOISE)
    return "; ".join(describe_elements(actual, wrong, NOISE))


@pytest.mark.parametrize(
    ("rows", "columns", "sentence"),
    [
        (ROW >= 0, COLUMN // 32 % 2 == 1, "only columns 32 to 63 of every 64, where 64 is 2**6"),
        (
            ROW >= 0,
            (COLUMN >= 128) & (COLUMN % 64 < 8),
            "columns 0 to 7 of every 64, where 64 is 2**6, from 128 on",
        ),
        (ROW >= 0, COLUMN % 100 < 3, "only columns 0 to 2 of every 100"),
        (ROW % 4 == 3, COLUMN >= 0, "only every 4th row, from 3 on"),
        (ROW // 2 % 2 == 1, COLUMN >= 0, "only rows 2 to 3 of every 4"),
        (ROW >= 0, COLUMN >= 256, "only the last 256 of 512 columns (from 256 on, where 256 is 2**8)"),
        (ROW >= 0, COLUMN < 256, "only the first 256 of 512 columns, where 256 is 2**8"),
        (ROW >= 0, (COLUMN // 8 == 2) | (COLUMN // 8 == 7), "only 16 of 512 columns (16 to 23, 56 to 63)"),
        (
            (ROW >= 4) & (ROW < 8),
            (COLUMN >= 64) & (COLUMN < 128),
            "only rows 4 to 7 of 12, in only columns 64 to 127",
        ),
    ],
)
def test_a_pattern_is_told(rows: Tensor, columns: Tensor, sentence: str) -> None:
    assert sentence in told(rows[:, None] & columns[None, :])


@pytest.mark.parametrize(
    ("shift", "sentence"),
    [
        (-32, "what belongs 32 columns before theirs"),
        (1, "what belongs 1 column after theirs"),
        (-512, "what belongs 1 row before theirs"),
        (1025, "what belongs 2 rows after and 1 column after theirs"),
        (511, "what belongs 1 row after and 1 column before theirs"),
    ],
)
def test_displaced_values_are_told(shift: int, sentence: str) -> None:
    wrong = ((ROW > 2) & (ROW < 9))[:, None] & (COLUMN >= 64)[None, :]
    moved = NOISE.flatten().roll(-shift).reshape(SHAPE)
    assert sentence in told(wrong, moved)


def test_values_of_no_other_place_are_not_displaced() -> None:
    assert "belongs" not in told((COLUMN >= 64).expand(SHAPE))


def test_a_row_with_another_rows_scale_is_told() -> None:
    """And a row whose scale is nobody's is not."""
    p = problem((9, 1000), fills(9)["scaled"], "float32", fused=False)
    assert p.weight is not None
    r = 1.0 / (p.x.square().mean(-1, keepdim=True) + p.eps).sqrt()
    for factor, expected in ((r[2], ["scale_of_other_rows"]), (r[3] * 1.3, [])):
        used = r.clone()
        used[3] = factor
        found = diagnose(p, nearest(p.x * used * p.weight, "float32"))
        assert [m.name for m in found.matches] == expected
        if expected:
            assert found.matches[0].sentence == "row 3 has row 2's scale"
            assert found.requirement == "FORMULA-ROWS"
            assert found.notes == ()
        else:
            assert found.notes == ("no known wrong formula gives this y",)


def test_formulas_that_one_run_cannot_tell_apart_come_with_a_case() -> None:
    """eps left out and eps squared are one in bf16; where one formula fits, nothing is to be told apart."""
    p = problem((9, 1000), fills(9)["scaled"], "bfloat16", fused=False, eps=1e-6)
    assert p.weight is not None
    m = p.x.square().mean(-1, keepdim=True)
    found = diagnose(p, nearest(p.x / m.sqrt() * p.weight, "bfloat16"))
    assert {"eps_omitted", "eps_squared"} <= {c.name for c in found.matches}
    (note,) = found.notes
    assert note.startswith("eps_omitted")
    assert "cannot be told apart here; the case eps/far_under, with a mean square far under eps, does" in note
    assert diagnose(p, nearest(p.x / (m + p.eps) * p.weight, "bfloat16")).notes == ()


def test_the_cases_that_tell_apart_exist() -> None:
    ids = (Path(__file__).parents[1] / "cases" / "run_ids.txt").read_text(encoding="utf-8").splitlines()
    cases = {line.split("[")[0] for line in ids}
    assert {k.case for k in KINDS} | {k.training for k in KINDS} <= cases


def test_an_eps_of_the_backward_that_no_list_holds_is_measured() -> None:
    """In dx and in dweight; the factor 7 is in no table."""
    q = question("float32", False, fill="scaled")
    p = pieces(q)
    r = (mean(p.h.square()) + 7.0 * p.eps).rsqrt()
    dx = diagnose_dx(q, nearest(jacobian(p, p.a, r), "float32"))
    assert dx.requirement == "DX-RRMS"
    assert dx.matches[0].sentence == f"in dx eps acts as about {7.0 * p.eps:.3g}, but should be {p.eps:g}"
    dweight = diagnose_dweight(q, nearest((p.dy * p.h * r).sum(0), "float32"))
    assert dweight.requirement == "DWEIGHT-XHAT"
    assert dweight.matches[0].name == "dweight_eps_measured"


def test_a_gradient_that_no_formula_gives_says_so() -> None:
    q = question("float32", False, fill="scaled")
    p = pieces(q)
    wrong = jacobian(p, p.a) * (1.0 + 0.3 * torch.sin(torch.arange(p.a.shape[1], dtype=torch.float64)))
    assert diagnose_dx(q, nearest(wrong, "float32")).notes == ("no known wrong formula gives this dx",)


def test_memory_that_was_never_set_is_named() -> None:
    """NaN out of moderate finite numbers, in some columns or all."""
    q = question("float32", False, fill="scaled")
    right = nearest(pieces(q).dy.sum(0) * 0.0, "float32")
    found = diagnose_dweight(q, torch.full_like(right, torch.nan))
    assert [(m.name, m.requirement) for m in found.matches] == [("dweight_of_unset_memory", "MEM-READ")]


def test_what_float16_cannot_hold_is_named_for_its_range() -> None:
    """A whole row lost where its sum of squares is beyond 65504; the same loss in a small row is not."""
    p = problem((4, 300), fills(4)["rowjump"], "float16", fused=False)
    assert p.weight is not None
    x = p.x * 100.0
    large = type(p)(nearest(x, "float16"), None, p.weight, p.eps, 0.0, *["float16"] * 4)
    right = nearest(large.x / (large.x.square().mean(-1, keepdim=True) + p.eps).sqrt() * p.weight, "float16")
    total = large.x.square().sum(-1)
    lost = right.masked_fill((total > 65504.0)[:, None], torch.nan)
    assert [m.requirement for m in diagnose(large, lost).matches] == ["RANGE-LARGE"]
    small = right.clone()
    small[0], small_rows = torch.nan, total <= 65504.0
    found = diagnose(type(p)(large.x / 1024.0, None, p.weight, p.eps, 0.0, *["float16"] * 4), small)
    assert "RANGE-LARGE" not in {m.requirement for m in found.matches}
    assert small_rows.shape == (4,)
