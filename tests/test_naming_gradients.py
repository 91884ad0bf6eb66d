"""What a wrong gradient is named for: the formula of many runs, never one that few runs equal by chance."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from emulation import tensor
from gradient_pieces import DTYPES, jacobian, mean, pieces, question
from reporting_samples import REQUIREMENTS, failing, shuffled, training, wrong

from conformance.diagnosing.gradient_candidates import dweight_candidates, dx_candidates
from conformance.diagnosing.gradients import diagnose_dweight, diagnose_dx
from conformance.model import Fill, Verdict
from conformance.numerics.rounding import nearest
from conformance.reporting.naming import name_failures

ONE_BY_CHANCE = ("dx_weight_twice", "DX-WEIGHT", "the weight multiplies dy twice")
ROWS_BY_CHANCE = ("dx_zero", "DX-ROWS", "it is 0 everywhere")


def wrong_dx(run: str, requirement: str, *candidates: tuple[str, str, str], **changes) -> Verdict:
    return failing(run, wrong(requirement, *candidates, check="dx"), gradients=("x", "weight"), **changes)


def named(verdicts: list[Verdict]) -> tuple[str, ...]:
    found = name_failures(verdicts, REQUIREMENTS)
    assert name_failures(shuffled(verdicts, 3), REQUIREMENTS) == found
    return found.named


# --- without a consensus -------------------------------------------------------------------------------


def test_the_formula_that_few_runs_match_names_nothing():
    plain = [wrong_dx(f"a[{i}]", "DX-ACCURACY") for i in range(9)]
    chance = [wrong_dx("a[9]", "DX-WEIGHT", ONE_BY_CHANCE)]
    right = [training(f"b[{i}]") for i in range(20)]
    assert named([*plain, *chance, *right]) == ("DX-ACCURACY",)
    assert named([*plain[:1], *chance, *right]) == ("DX-WEIGHT",)


@pytest.mark.parametrize(
    ("check", "general"),
    [("dx", "DX-ACCURACY"), ("dresidual", "DRESIDUAL-ACCURACY"), ("dweight", "DWEIGHT-ACCURACY")],
)
def test_each_gradient_falls_back_to_its_own_accuracy(check: str, general: str):
    verdicts = [
        failing("a[0]", wrong("DX-WEIGHT", ONE_BY_CHANCE, check=check)),
        *(failing(f"a[{i}]", wrong(general, check=check)) for i in range(1, 4)),
        *(training(f"b[{i}]", gradients=("x", "residual", "weight")) for i in range(20)),
    ]
    assert named(verdicts) == (general,)


def test_a_formula_of_few_special_runs_yields_to_what_they_ask():
    special = {"neutral": False, "features": ("x:row_slice",), "requirements": ("DX-ROWS", "STRIDE-X")}
    verdicts = [wrong_dx("a[0]", "DX-WEIGHT", ONE_BY_CHANCE, **special)]
    verdicts += [wrong_dx(f"a[{i}]", "STRIDE-X", **special) for i in range(1, 5)]
    assert named([*verdicts, *(training(f"b[{i}]") for i in range(20))]) == ("STRIDE-X",)


def test_the_requirement_of_most_neutral_runs_is_named():
    verdicts = [wrong_dx(f"a[{i}]", "DX-ACCURACY") for i in range(3)]
    verdicts += [wrong_dx("a[3]", "STRIDE-X"), *(training(f"b[{i}]") for i in range(20))]
    assert named(verdicts) == ("DX-ACCURACY",)


def test_a_formula_of_half_of_the_runs_still_names_them():
    verdicts = [wrong_dx(f"a[{i}]", "DX-ROWS", ROWS_BY_CHANCE) for i in range(3)]
    verdicts += [wrong_dx(f"c[{i}]", "DX-ACCURACY") for i in range(3)]
    assert named([*verdicts, *(training(f"b[{i}]") for i in range(20))]) == ("DX-ROWS",)


# --- a sum in 16 bits ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_sum_in_an_order_of_its_own_is_one_in_16_bits(dtype: str):
    q = question(dtype, False, (9, 257))
    p = pieces(q)
    sums = torch.zeros_like(p.w)
    for row in (p.dy * p.x_hat)[[4, 0, 7, 2, 8, 1, 6, 3, 5]]:
        sums = nearest(sums + row, dtype)
    found = diagnose_dweight(q, sums)
    assert [m.name for m in found.matches] == [f"dweight_noise_of_{dtype}"]
    assert found.requirement == "DWEIGHT-ACCUMULATION"


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_factor_is_no_sum_in_16_bits(dtype: str):
    q = question(dtype, False, (9, 257))
    p = pieces(q)
    ulps = 2.0**-7 if dtype == "bfloat16" else 2.0**-10
    for factor in (1.0 + ulps, 1.0 - ulps):
        found = diagnose_dweight(q, nearest((p.dy * p.x_hat).sum(0) * factor, dtype))
        assert "DWEIGHT-ACCUMULATION" not in {m.requirement for m in found.matches}


def test_columns_of_two_conventions_are_no_sum_in_16_bits():
    q = question("bfloat16", False, (9, 257))
    p = pieces(q)
    dweight = (p.dy * p.x_hat).sum(0)
    dweight[128:] = (p.dy * nearest(p.x_hat, "bfloat16")).sum(0)[128:]
    found = diagnose_dweight(q, nearest(dweight, "bfloat16"))
    assert found.structure
    assert found.matches == ()


def test_few_columns_do_not_tell_a_sum_in_16_bits():
    q = question("bfloat16", False, (9, 5))
    p = pieces(q)
    noise = tensor(Fill(seed=77), (1, 5), "float32")[0]
    found = diagnose_dweight(q, nearest((p.dy * p.x_hat).sum(0) * (1.0 + 0.01 * noise), "bfloat16"))
    assert found.structure
    assert "DWEIGHT-ACCUMULATION" not in {m.requirement for m in found.matches}


def test_float16_is_not_blamed_where_there_is_none():
    names = {c.name for c in dweight_candidates(question("bfloat16", False), (37,))}
    assert not [n for n in names if n.startswith(("dweight_summed_in_float16", "dweight_noise_of_float16"))]
    assert "dweight_summed_in_bfloat16_order" in names


# --- dx ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_eps_that_is_added_twice(dtype: str):
    q = question(dtype, False, eps=0.25)
    p = pieces(q)
    twice = 1.0 / (mean(p.h.square()) + 2 * p.eps).sqrt()
    found = diagnose_dx(q, nearest(jacobian(p, p.a, twice), dtype))
    assert (found.requirement, found.matches[0].name) == ("DX-RRMS", "eps_times_2")
    found = diagnose_dweight(q, nearest((p.dy * p.h * twice).sum(0), dtype))
    assert (found.requirement, found.matches[0].name) == ("DWEIGHT-XHAT", "dweight_eps_times_2")


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_offset_that_is_added_twice(dtype: str):
    q = question(dtype, False, offset=1.0)
    p = pieces(q)
    found = diagnose_dx(q, nearest(jacobian(p, p.dy * (p.w + 1.0)), dtype))
    assert (found.requirement, found.matches[0].name) == ("DX-WEIGHT", "dx_offset_twice")


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_sum_of_chunks(dtype: str):
    q = question(dtype, False)
    p = pieces(q)
    products = p.x_hat * p.a
    so_far = torch.cat(
        [products[:, : i + 64].sum(-1, keepdim=True).expand(-1, 64) for i in range(0, 257, 64)], -1
    )
    found = diagnose_dx(q, nearest(p.r * (p.a - p.x_hat * so_far[:, :257] / 257), dtype))
    assert (found.requirement, found.matches[0].name) == ("DX-PROJECTION", "projection_so_far_64")
    means = torch.stack([mean(chunk) for chunk in products.split(64, -1)]).mean(0)
    found = diagnose_dx(q, nearest(p.r * (p.a - p.x_hat * means), dtype))
    assert (found.requirement, found.matches[0].name) == ("DX-PROJECTION", "projection_mean_of_means_64")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_what_dx_rounds_on_the_way(dtype: str):
    q = question(dtype, False)
    p = pieces(q)
    x_hat = nearest(p.x_hat, dtype)
    found = diagnose_dx(q, nearest(p.r * (p.a - x_hat * mean(x_hat * p.a)), dtype))
    assert (found.requirement, found.matches[0].name) == ("DX-ACCURACY", "dx_x_hat_rounded")
    found = diagnose_dx(q, nearest(p.r * (p.a - p.x_hat * nearest(p.c, dtype)), dtype))
    assert (found.requirement, found.matches[0].name) == ("DX-ACCURACY", "dx_row_mean_rounded")


def test_a_dx_of_0_in_one_column_tells_no_formula():
    q = question("float32", False, (9, 1), eps=0.25)
    names = {c.name for c in dx_candidates(q)}
    assert not names & {"dx_centred", "dx_of_layer_norm", "eps_omitted", "dx_weight_moves"}
    found = diagnose_dx(q, torch.zeros(9, 1, dtype=torch.float64))
    assert {m.requirement for m in found.matches} == {"DX-ROWS"}


def test_the_same_of_a_fused_operator_is_named_for_dresidual():
    q = question("bfloat16", True)
    p = pieces(replace(q, dresidual_out=None))
    assert q.dresidual_out is not None
    x_hat = nearest(p.x_hat, "bfloat16")
    value = p.r * (p.a - x_hat * mean(x_hat * p.a)) + q.dresidual_out
    found = diagnose_dx(q, nearest(value, "bfloat16"), "dresidual")
    assert found.requirement in ("DRESIDUAL-ACCURACY", None)
    assert "dx_x_hat_rounded" in {m.name for m in found.matches}
