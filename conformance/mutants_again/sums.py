"""Second implementations of faults of the row's sum, of its precision, and of what is stored."""

from __future__ import annotations

import torch

from conformance.mutants_again import _norm
from conformance.mutants_again._entry import Again


def _without(kept):
    """The sum of the columns for which kept(columns, hidden_size) holds, in lanes."""

    def total(s):
        columns = torch.arange(s.size, device=s.h.device)
        return _norm.interleaved(s.square.where(kept(columns, s.size), 0.0))

    return total


def _borders(s):
    """Each chunk of 1024 from its first column to that of the next, both included."""
    total = _norm.folded(s.square)
    for border in range(1024, s.size, 1024):
        total = total + s.square[:, border, None]
    return total


def _into_next_row(s):
    """A dense tensor read one element past the row's end."""
    flat = torch.cat([s.square.flatten(), s.square.new_zeros(1)])
    ends = (torch.arange(len(s.h), device=s.h.device) + 1) * s.size
    return _norm.in_chunks(s.square) + flat[ends][:, None]


def _lossy(s):
    """Sums of 8 columns, folded first half on second half; the one in the middle is lost."""
    missing = -s.size % 8
    threads = torch.nn.functional.pad(s.square, (0, missing)).unflatten(-1, (-1, 8))
    threads = _norm.doubled(threads.flatten(0, 1)).unflatten(0, (len(s.h), -1))[..., 0]
    while threads.shape[-1] > 1:
        half = threads.shape[-1] // 2
        threads = torch.stack([threads[:, :half], threads[:, half : half * 2]]).sum(0)
    return threads


def _of_ones(s):
    """Lanes up to the next power of two hold 1."""
    block = 1 << (s.size - 1).bit_length()
    return _norm.interleaved(torch.nn.functional.pad(s.square, (0, block - s.size), value=1.0))


def _tile_of_four(s):
    """Rows of at most 128 columns share one sum by fours."""
    own = _norm.in_chunks(s.square)
    if s.size > 128:
        return own
    return torch.cat([t.mean(0, keepdim=True).expand(len(t), 1) for t in own.split(4)]) if len(own) else own


def _in_own_dtype(s):
    """Squares and every partial sum in x's dtype, even and odd columns added."""
    values = s.h.to(s.dtype)
    return _norm.folded(values * values).float()


def _kept_in_own_dtype(s):
    return _norm.interleaved(s.square).to(s.dtype).float()


def _half_squares(s):
    return s.x.square().float() if s.dtype == torch.float16 else s.h.square()


def _scaled_half_squares(s):
    return (s.x * 2.0**-8).square().float() * 2.0**16 if s.dtype == torch.float16 else s.h.square()


def _toward_zero(value, dtype):
    """fp32 cut to 16 bits: the sign and size of what is nearest, one step in where that is too large."""
    if dtype == torch.float32:
        return value
    stored = value.to(dtype)
    inner = torch.nextafter(stored, torch.zeros_like(stored))
    return torch.where((stored.float().abs() > value.abs()) & value.isfinite(), inner, stored)


def _from_zero(s):
    if s.dtype == torch.float32:
        return s.y
    stored = s.y.to(s.dtype)
    outer = torch.nextafter(stored, torch.full_like(stored, torch.inf) * stored.sign())
    return torch.where((stored.float().abs() < s.y.abs()) & s.y.isfinite(), outer, stored)


def _sign_of_25th(s):
    wrong = torch.arange(s.y.numel(), device=s.y.device).reshape(s.y.shape) % 25 == 24
    return s.y * (1.0 - 2.0 * wrong)


def _past_65535(s):
    return s.y * (torch.arange(len(s.y), device=s.y.device) < 65535)[:, None]


AGAIN = (
    Again(
        "drops_last_column",
        r"leaves out columns",
        _norm.op("chunks", total=_without(lambda c, n: c != n - 1)),
    ),
    Again(
        "drops_tail_of_eight",
        r"leaves out columns",
        _norm.op("chunks", 2, total=_without(lambda c, n: c < n - n % 8)),
    ),
    Again(
        "sums_first_8192",
        r"leaves out columns.*first 8192|leaves out columns: the last",
        _norm.op("chunks", total=_without(lambda c, n: c < 8192)),
    ),
    Again(
        "sums_half_the_lanes",
        r"first half of every 64",
        _norm.op("chunks", 2, stored=True, total=_without(lambda c, n: c // 32 % 2 == 0)),
    ),
    Again("counts_chunk_borders_twice", r"every 1024 is counted twice", _norm.op(total=_borders)),
    Again(
        "counts_next_row",
        r"goes on into the first element of the next row",
        _norm.op("chunks", 2, total=_into_next_row),
    ),
    Again("loses_odd_partial_sums", r"loses a partial sum", _norm.op(total=_lossy)),
    Again("tail_filled_with_ones", r"count as 1 in the sum", _norm.op(total=_of_ones)),
    Again(
        "tile_shares_one_statistic", r"4 rows share one statistic", _norm.op("chunks", 2, total=_tile_of_four)
    ),
    Again("sum_in_dtype", r"added up in|rounded to (b?float16)", _norm.op(total=_in_own_dtype)),
    Again(
        "sum_overflows_half",
        r"sum of squares is (rounded to|kept in)",
        _norm.op("chunks", 2, total=_kept_in_own_dtype),
    ),
    Again("square_in_half", r"squares are rounded to float16", _norm.op("folded", 2, squares=_half_squares)),
    Again("small_squares_vanish", r"divided by 256", _norm.op("lanes", squares=_scaled_half_squares)),
    Again(
        "rrms_in_bf16",
        r"reciprocal root is (rounded to|kept in) bfloat16",
        _norm.op("lanes", 2, rrms=lambda s: _norm.rrms(s).bfloat16().float()),
    ),
    Again(
        "rrms_in_dtype",
        r"reciprocal root is (rounded to|kept in)",
        _norm.op("float64", rrms=lambda s: _norm.rrms(s).to(s.dtype).float()),
    ),
    Again(
        "input_through_bf16",
        r"input passes through bfloat16",
        _norm.op("lanes", 2, numerator=lambda s: s.h.bfloat16().float()),
    ),
    Again(
        "input_clamped_to_half",
        r"clamped to the range of float16",
        _norm.op(
            "folded",
            2,
            source=lambda s: (
                torch.minimum(_norm.source(s).abs(), torch.tensor(65504.0)) * _norm.source(s).sign()
            ),
        ),
    ),
    Again(
        "y_truncated",
        r"truncated toward zero",
        _norm.op("lanes", 2, store=lambda s: _toward_zero(s.y, s.dtype)),
    ),
    Again("y_rounded_away", r"rounded away from zero|biased by \+", _norm.op("folded", store=_from_zero)),
    Again("sign_flips", "", _norm.op("lanes", 2, finish=_sign_of_25th)),
    Again("rows_past_65535_zero", r"", _norm.op("lanes", finish=_past_65535)),
    Again(
        "residual_kept_in_bf16",
        r"",
        _norm.op("lanes", residual_out=lambda s: _norm.source(s).bfloat16().to(s.residual.dtype)),
    ),
    Again(
        "residual_truncated",
        r"truncated",
        _norm.op("folded", residual_out=lambda s: _toward_zero(_norm.source(s), s.residual.dtype)),
    ),
)
"""By the mutant's name; the expression of `says` is found in a sentence that states the fault."""
