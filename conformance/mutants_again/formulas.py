"""Second implementations of the faults of the forward's formula: eps, root, divisor, mean, bias, gain.

Each is the fault of the mutant of the same name in another form: see `_norm` for the forms.
"""

from __future__ import annotations

import torch

from conformance.mutants_again import _norm
from conformance.mutants_again._entry import Again


def _mean(s):
    return s.total / s.divisor


def _eps_outside(s):
    return (_mean(s).sqrt() + s.eps).reciprocal()


def _eps_as_floor(s):
    mean = _mean(s)
    return torch.where(mean < s.eps, torch.full_like(mean, s.eps), mean).pow(-0.5)


def _eps(value):
    """Another eps: a function of the right one and of x's dtype."""
    return lambda s: (_mean(s) + value(s)).pow(-0.5)


def _in_half(s):
    return float(torch.tensor(s.eps).half()) if s.dtype == torch.float16 else s.eps


def _default(value):
    """(x, weight, eps) with another default; an eps that is passed is honoured."""
    right = _norm.op("lanes")

    def rms_norm(x, weight, eps=None):
        return right["rms_norm"](x, weight, value(x) if eps is None else eps)

    return {"rms_norm": rms_norm}


def _divided_by(value):
    return {"divisor": value}


def _centred(s):
    return s.h - _norm.doubled(s.h) / s.size


def _centred_squares(s):
    return _centred(s).square()


def _one_half_each(s):
    """The statistic of each half of a single row; of whole rows where there are more."""
    if len(s.h) != 1 or s.size < 2:
        return _norm.rrms(s)
    middle = s.size // 2
    left = torch.arange(s.size, device=s.h.device)[None, :] < middle
    first = _norm.folded(s.square.where(left, 0.0)) / middle
    second = _norm.folded(s.square.where(~left, 0.0)) / (s.size - middle)
    return torch.where(left, (first + s.eps).rsqrt(), (second + s.eps).rsqrt())


def _biased(bias):
    """y + bias, where bias is a function of the row."""
    return lambda s: s.y if bias(s) is None else s.y + bias(s)


AGAIN = (
    Again("eps_outside", r"added to the root", _norm.op("folded", rrms=_eps_outside)),
    Again("eps_as_floor", r"lower limit of the mean square", _norm.op("lanes", 2, rrms=_eps_as_floor)),
    Again("eps_hard_coded", r"eps is 1e-06", _norm.op("float64", rrms=_eps(lambda s: 1e-6))),
    Again(
        "eps_in_half", r"eps is rounded to float16|eps is 0|left out", _norm.op("folded", rrms=_eps(_in_half))
    ),
    Again(
        "eps_in_the_sum",
        r"added to the sum of squares",
        _norm.op("lanes", rrms=lambda s: (s.size / (s.total + s.eps)).sqrt()),
    ),
    Again("eps_omitted", r"eps is left out", _norm.op("float64", 2, rrms=lambda s: _mean(s) ** -0.5)),
    Again("eps_squared", r"eps is squared|left out", _norm.op("folded", 2, rrms=_eps(lambda s: s.eps**2))),
    Again(
        "eps_times_ten",
        r"ten times too large",
        _norm.op("chunks", stored=True, rrms=_eps(lambda s: s.eps * 10)),
    ),
    Again("eps_default_large", r"eps is 0\.001|root of eps", _default(lambda x: 1e-3)),
    Again("eps_default_of_dtype", r"machine epsilon of", _default(lambda x: torch.finfo(x.dtype).eps)),
    Again(
        "no_root",
        r"root is missing",
        _norm.op("lanes", 2, stored=True, rrms=lambda s: 1.0 / (_mean(s) + s.eps)),
    ),
    Again(
        "divides_by_rsqrt",
        r"root mean square, or divided by its reciprocal",
        _norm.op("folded", rrms=lambda s: torch.sqrt(_mean(s) + s.eps)),
    ),
    Again(
        "divisor_counts_nonzero", r"", _norm.op("lanes", divisor=lambda s: (s.h != 0).sum(-1, True).clamp(1))
    ),
    Again(
        "divisor_is_the_block",
        r"power of two|divided by",
        _norm.op("chunks", divisor=lambda s: 1 << (s.size - 1).bit_length()),
    ),
    Again(
        "divisor_minus_one",
        r"hidden_size - 1|divided by",
        _norm.op("folded", 2, divisor=lambda s: s.size - 1),
    ),
    Again(
        "divisor_rounded_to_vector",
        r"multiple of 8|divided by",
        _norm.op("float64", stored=True, divisor=lambda s: (s.size + 7) // 8 * 8),
    ),
    Again("layer_norm", r"LayerNorm", _norm.op("folded", 2, squares=_centred_squares, numerator=_centred)),
    Again("centred_variance", r"variance about the mean", _norm.op("chunks", 2, squares=_centred_squares)),
    Again("bias_added", r"constant is added", _norm.op("lanes", finish=_biased(lambda s: 0.01))),
    Again("bias_is_the_weight", r"added as a bias", _norm.op("folded", finish=_biased(lambda s: s.factor))),
    Again(
        "one_percent_too_large",
        r"but for the factor 1\.0|scaled by 1 \+",
        _norm.op("lanes", finish=lambda s: s.y * 1.01),
    ),
    Again(
        "coarse_rsqrt",
        r"but for the factor 1\.0|scaled by 1 \+|factor of its own",
        _norm.op("folded", 2, rrms=lambda s: _norm.rrms(s) * (1 + 2.0**-10)),
    ),
    Again(
        "statistic_of_all_rows",
        r"all rows share|one statistic",
        _norm.op("chunks", 2, total=lambda s: s.square.mean(0, True).sum(-1, True).expand(len(s.h), 1)),
    ),
    Again(
        "scale_of_previous_row",
        r"row before|previous row",
        _norm.op("lanes", stored=True, rrms=lambda s: torch.cat([_norm.rrms(s)[-1:], _norm.rrms(s)[:-1]])),
    ),
    Again("single_row_in_two_halves", r"statistic of its own", _norm.op("chunks", rrms=_one_half_each)),
    Again(
        "returns_zeros",
        r"y is 0 everywhere|is 0",
        _norm.op("chunks", numerator=lambda s: 0 * s.x.nan_to_num(0, 0, 0)),
    ),
)
"""By the mutant's name; the expression of `says` is found in a sentence that states the fault."""
