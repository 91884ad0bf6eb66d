"""Second implementations of faults of dweight. See `_backward` for the forms."""

from __future__ import annotations

import torch

from conformance.mutants_again import _backward
from conformance.mutants_again._backward import op
from conformance.mutants_again._entry import Again


def _rows_where(kept):
    """The sum of the rows for which kept(row numbers, how many) holds, as a product with zeros and ones."""

    def reduced(s):
        at = torch.arange(len(s.terms), device=s.terms.device)
        return kept(at, len(at)).to(s.terms.dtype) @ s.terms

    return reduced


def _in_bf16(s):
    """Row after row, each sum stored in bf16."""
    total = torch.zeros(s.size, dtype=torch.bfloat16, device=s.terms.device)
    for row in s.terms.float():
        total = torch.add(total.float(), row).bfloat16()
    return total


def _narrow_partials(s):
    """Sums of eight rows in the weight's dtype, then together from the last to the first."""
    partial = [block.flip(0).sum(0).to(s.weight_dtype).to(s.terms.dtype) for block in s.terms.split(8)]
    return sum(reversed(partial), s.terms.new_zeros(s.size))


def _tile_rows(s):
    return max(1, 4096 // (1 << (s.size - 1).bit_length()))


def _first_64_tiles(s):
    return s.terms[: 64 * _tile_rows(s)].flip(0).sum(0)


def _last_again(s):
    """What a tile of rows lacks at the end is the last row again."""
    missing = -len(s.terms) % _tile_rows(s)
    return s.terms.sum(0) + (missing * s.terms[-1] if missing else 0.0)


def _first_1024_columns(s):
    return _backward.reduced(s) * (torch.arange(s.size, device=s.terms.device) < 1024)


def _first_of_batch(s):
    many = len(s.terms) // s.shape[0] if len(s.shape) > 2 else len(s.terms)
    return s.terms[:many].flip(0).sum(0)


def _from_y(s):
    """y is recovered by the weight that it was multiplied with."""
    return _backward.terms(s) if s.weight is None else s.dy * s.weight * (s.h * s.r) / s.weight


def _by_weight(s):
    return s.dy * s.h * s.r if s.weight is None else s.dy * (s.h * s.r * s.weight)


def _cut(s):
    """Toward zero in the weight's dtype."""
    stored = s.sum.to(s.weight_dtype)
    inner = torch.nextafter(stored, torch.zeros_like(stored))
    over = (stored.double().abs() > s.sum.double().abs()) & s.sum.isfinite()
    return stored if s.weight_dtype == torch.float32 else torch.where(over, inner, stored)


def _overwritten(s):
    return (s.dy if s.norm is None else s.norm) * (s.h * s.r)


AGAIN = (
    Again("dweight_without_x_hat", r"sums dy alone", op("float64", terms=lambda s: s.dy)),
    Again("dweight_of_x", r"without the rrms", op("rounded", terms=lambda s: s.dy * s.h)),
    Again("dweight_with_the_weight", r"factor of the weight", op("float64", terms=_by_weight)),
    Again(
        "dweight_x_hat_squared", r"factor of x_hat too many", op(terms=lambda s: s.dy * (s.h * s.r).square())
    ),
    Again("dweight_from_overwritten_dy", r"dx has replaced dy", op("float64", terms=_overwritten)),
    Again(
        "dweight_rrms_in_sixteen_bits",
        r"rrms that is rounded to",
        op("blocks", terms=lambda s: s.r.to(s.dtype).float() * s.dy * s.h),
    ),
    Again(
        "dweight_x_hat_from_y", r"y / weight|not finite|where the weight is 0", op("blocks", terms=_from_y)
    ),
    Again(
        "dweight_mean",
        r"mean over the",
        op("rounded", reduced=lambda s: s.terms.flip(0).mean(0) if len(s.terms) else s.terms.sum(0)),
    ),
    Again("dweight_zero", r"is 0", op("rounded", reduced=lambda s: 0.0 * s.terms.new_ones(s.size))),
    Again(
        "dweight_drops_the_last_rows",
        r"not added to dweight|is 0 everywhere",
        op("rounded", reduced=_rows_where(lambda row, n: row < n - n % 32)),
    ),
    Again(
        "dweight_rows_past_32768_lost",
        r"32768",
        op("float64", reduced=_rows_where(lambda row, n: row < 32768)),
    ),
    Again(
        "dweight_loses_partial_sums",
        r"every 8th block of 32",
        op("float64", reduced=_rows_where(lambda row, n: row // 32 % 8 < 7)),
    ),
    Again(
        "dweight_adds_64_partial_sums",
        r"only the first \d+ rows|not added",
        op("rounded", reduced=_first_64_tiles),
    ),
    Again("dweight_counts_the_last_row_again", r"last row is added", op("float64", reduced=_last_again)),
    Again(
        "dweight_columns_past_1024_zero",
        r"columns of dweight are not computed|from 1024 on",
        op("rounded", reduced=_first_1024_columns),
    ),
    Again(
        "dweight_of_the_first_batch_element",
        r"first index of dimension",
        op("float64", reduced=_first_of_batch),
    ),
    Again(
        "dweight_scalar_expanded",
        r"one number",
        op("rounded", reduced=lambda s: s.terms.new_ones(s.size) * s.terms.sum(0).sum()),
    ),
    Again(
        "dweight_accumulated_in_bf16", r"summed in bfloat16|in bfloat16 is", op("rounded", reduced=_in_bf16)
    ),
    Again(
        "dweight_partials_in_sixteen_bits", r"partial sums of 8 rows", op("rounded", reduced=_narrow_partials)
    ),
    Again("dweight_truncated", r"toward zero", op("float64", dweight=_cut)),
)
"""By the mutant's name; the expression of `says` is found in a sentence that states the fault."""
