"""Second implementations of faults of dx and dresidual. See `_backward` for the forms."""

from __future__ import annotations

import torch

from conformance.mutants_again import _backward, _norm
from conformance.mutants_again._backward import op
from conformance.mutants_again._entry import Again


def _along(factor):
    """The term along x, factor times; factor is a function of the state."""
    return lambda s: s.used * s.a - factor(s) * s.h * (s.used**3 / s.size) * s.dot


def _centred(s):
    return _backward.norm(s) - s.used * _norm.in_chunks(s.a) / s.size


def _swapped(s):
    a = s.h if s.weight is None else s.weight * s.h
    return s.r * a - s.dy * (s.r**3 / s.size) * _norm.in_chunks(a * s.dy)


def _narrow_dot(s):
    """Products and partial sums of a * x_hat in x's dtype, even and odd columns added."""
    sums = _norm.folded((s.a * (s.h * s.r)).to(s.dtype))
    return sums.to(s.h.dtype) / s.r


def _tile_dot(s):
    """Tiles of four rows share the mean of their projections."""
    own = _norm.in_chunks(s.a * s.h * s.r)
    tiles = [t.mean(0, keepdim=True).expand_as(t) for t in own.split(4)]
    return torch.cat(tiles) / s.r if tiles else own


def _tile_rows(s):
    """How many rows a tile of 4096 elements holds."""
    return max(1, 4096 // (1 << (s.size - 1).bit_length()))


def _first_of_tile(s):
    return s.r[torch.arange(len(s.r)) // _tile_rows(s) * _tile_rows(s)]


def _first_of_tile_terms(s):
    return s.dy * s.h * _first_of_tile(s)


def _moved(s):
    if s.weight is None:
        return s.dy
    at = torch.arange(len(s.dy))[:, None] + torch.arange(s.size)
    return s.dy * s.weight.gather(0, at.clamp(max=s.size - 1).flatten()).reshape(at.shape) * (at < s.size)


def _again(value):
    """rrms computed again, with value(state) for eps."""
    return lambda s: (_norm.in_chunks(s.h * s.h) / s.size + value(s)).clamp(min=1e-30).pow(-0.5)


def _left_out(fault):
    """A fault where eps is left out alone."""
    right = op("rounded")

    def rms_norm(x, weight, eps=None):
        return (fault if eps is None else right)["rms_norm"](x, weight, eps)

    def fused_add_rms_norm(x, residual, weight, eps=None):
        return (fault if eps is None else right)["fused_add_rms_norm"](x, residual, weight, eps)

    return {"rms_norm": rms_norm, "fused_add_rms_norm": fused_add_rms_norm}


def _toward_zero(value, dtype):
    stored = value.to(dtype)
    inner = torch.nextafter(stored, torch.zeros_like(stored))
    over = (stored.double().abs() > value.double().abs()) & value.isfinite()
    return stored if dtype == torch.float32 else torch.where(over, inner, stored)


def _detached():
    """y in plain operations, with its statistic out of the graph."""

    def norm(h, weight, eps, dtype):
        with torch.no_grad():
            rms = (_norm.folded(h * h) / h.shape[-1] + eps).sqrt()
        y = h / rms
        return (y if weight is None else y * weight.float()).to(dtype)

    def rms_norm(x, weight, eps=1e-6):
        _norm.check(x, weight)
        return norm(_norm.rows(x).float(), weight, eps, x.dtype).reshape(x.shape)

    def fused_add_rms_norm(x, residual, weight, eps=1e-6):
        _norm.check(x, weight, residual)
        total = _norm.rows(x).float() + _norm.rows(residual).float()
        y = norm(total, weight, eps, x.dtype)
        return y.reshape(x.shape), total.to(residual.dtype).reshape(x.shape)

    return {"rms_norm": rms_norm, "fused_add_rms_norm": fused_add_rms_norm}


def _through_norm(s):
    """The norm's part alone, or zeros."""
    return torch.zeros_like(s.d) if s.norm is None else s.norm


def _before(s):
    return s.d if s.norm is None else s.norm


def _with_d(s):
    dy = s.dy if s.d is None else s.dy + s.d
    return dy if s.weight is None else dy * s.weight


def _twice_d(s):
    return _backward.total(s) if s.d is None else _backward.total(s) + s.d


AGAIN = (
    Again(
        "dx_without_the_weight",
        r"dx is computed without the weight|lacks the weight",
        op("float64", weighted=lambda s: s.dy),
    ),
    Again(
        "dx_weight_offset_forgotten",
        r"without the weight_offset",
        op(weighted=lambda s: s.dy if s.weight is None else s.dy * s.stored_weight),
    ),
    Again(
        "dx_weight_twice_in_projection",
        r"along x_hat, is multiplied by the weight twice",
        op("rounded", norm=_along(lambda s: 1.0 if s.weight is None else s.weight)),
    ),
    Again(
        "dx_projection_without_the_weight",
        r"along x_hat, lacks the weight",
        op(dot=lambda s: _norm.in_chunks(s.dy * s.h)),
    ),
    Again(
        "dx_weight_moves_with_the_row", r"one element further for every row", op("float64", weighted=_moved)
    ),
    Again("dx_without_projection", r"lacks the term along x_hat", op("rounded", norm=lambda s: s.a * s.used)),
    Again("statistic_detached", r"lacks the term along x_hat", _detached()),
    Again("dx_projection_added", r"adds the term along x_hat", op(norm=_along(lambda s: -1.0))),
    Again("dx_projection_is_a_sum", r"not divided", op("rounded", norm=_along(lambda s: s.size))),
    Again(
        "dx_projection_divides_by_the_block",
        r"power of two",
        op("float64", norm=_along(lambda s: s.size / (1 << (s.size - 1).bit_length()))),
    ),
    Again(
        "dx_projection_divisor_minus_one",
        r"row sum in dx is divided by",
        op(norm=_along(lambda s: s.size / max(1, s.size - 1))),
    ),
    Again(
        "dx_projection_drops_the_tail",
        r"row sum in dx leaves out columns",
        op(
            "rounded",
            dot=lambda s: _norm.folded((s.a * s.h)[:, : s.size - s.size % 8]) if s.size >= 8 else 0.0 * s.r,
        ),
    ),
    Again("dx_of_layer_norm", r"LayerNorm", op("float64", norm=_centred)),
    Again("x_and_dy_swapped", r"swapped", op("rounded", norm=_swapped)),
    Again("dx_rrms_squared", r"rrms", op("float64", norm=lambda s: _backward.norm(s) * s.used)),
    Again(
        "dx_projection_not_scaled",
        r"rrms",
        op("rounded", norm=lambda s: s.used * s.a - s.h * s.used * (s.used * s.dot / s.size)),
    ),
    Again(
        "rms_saved_and_not_inverted",
        r"rms|root mean square",
        op(used=lambda s: s.r.reciprocal(), terms=lambda s: s.dy * s.h / s.r),
    ),
    Again(
        "rrms_read_in_bf16",
        r"rounded to bfloat16",
        op(
            "float64",
            used=lambda s: s.r.bfloat16().double(),
            terms=lambda s: s.dy * s.h * s.r.bfloat16().double(),
        ),
    ),
    Again(
        "rrms_recomputed_with_own_eps",
        r"eps 1e-06",
        op(
            "rounded",
            used=_again(lambda s: 1e-6),
            terms=lambda s: s.dy * (s.h * _again(lambda s: 1e-6)(s)).to(s.dtype).float(),
        ),
    ),
    Again(
        "rrms_recomputed_without_eps",
        r"lacks eps",
        op("float64", used=_again(lambda s: 0.0), terms=lambda s: s.dy * s.h * _again(lambda s: 0.0)(s)),
    ),
    Again(
        "eps_default_of_backward",
        r"0\.001",
        _left_out(op(used=_again(lambda s: 1e-3), terms=lambda s: s.dy * s.h * _again(lambda s: 1e-3)(s))),
    ),
    Again(
        "dx_rrms_of_the_next_row",
        r"rrms of the row after",
        op("float64", norm=lambda s: torch.cat([s.r[1:], s.r[:1]]) / s.r * _backward.norm(s)),
    ),
    Again("dx_tile_shares_one_projection", r"4 rows", op("rounded", dot=_tile_dot)),
    Again("rrms_of_the_tile", r"rrms of the first", op(used=_first_of_tile, terms=_first_of_tile_terms)),
    Again("dx_row_sum_in_sixteen_bits", r"row (sum|mean)", op("rounded", dot=_narrow_dot)),
    Again(
        "dx_truncated", r"truncated|toward zero", op("float64", dx=lambda s: _toward_zero(s.total, s.dtype))
    ),
    Again(
        "dresidual_out_before_the_jacobian",
        r"before the norm's Jacobian",
        op("float64", weighted=_with_d, total=_before),
    ),
    Again("dresidual_out_doubled", r"added twice", op("rounded", total=_twice_d)),
    Again("dresidual_out_lost", r"is lost", op("float64", total=_through_norm)),
    Again(
        "dresidual_out_only_in_dresidual",
        r"is lost",
        op("rounded", dx=lambda s: _through_norm(s).to(s.dtype)),
    ),
    Again(
        "dresidual_out_only_in_dx",
        r"is lost",
        op("float64", dresidual=lambda s: _through_norm(s).to(s.residual_dtype)),
    ),
    Again(
        "dresidual_skips_the_norm",
        r"residual_out alone",
        op("rounded", dresidual=lambda s: (0.0 * s.norm if s.d is None else s.d).to(s.residual_dtype)),
    ),
    Again(
        "dresidual_through_dtype_of_x",
        r"passes through|rounded to b?float16",
        op("float64", dresidual=lambda s: s.total.to(s.dtype).to(s.residual_dtype)),
    ),
)
"""By the mutant's name; the expression of `says` is found in a sentence that states the fault."""
