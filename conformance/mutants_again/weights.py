"""Second implementations of faults of the weight and of the residual add in the forward."""

from __future__ import annotations

import torch

from conformance.mutants_again import _norm
from conformance.mutants_again._entry import Again


def _factor(change):
    """The weight changed by change(weight, row); nothing where there is no weight."""
    return lambda s: None if s.weight is None else change(s.weight, s)


def _gathered(index, wraps):
    """The weight at index(rows, columns): beyond its end it starts again, or is 0."""

    def change(weight, s):
        row = torch.arange(len(s.h), device=weight.device)[:, None]
        at = index(row, torch.arange(s.size, device=weight.device))
        taken = weight.gather(0, (at % s.size).flatten()).reshape(at.shape)
        return taken if wraps else taken.where(at < s.size, 0.0)

    return _factor(change)


def _narrow(weight, s):
    return weight.to(s.dtype).float()


def _of_x(s):
    return s.x.float()


def _wide(piece, narrow=_norm.source):
    """A fault of the second pass of wide rows alone."""
    return lambda s: piece(s) if s.x.shape[-1] > 1024 else narrow(s)


def _plus_residual(s):
    return s.y + s.residual.float()


def _sum_and_x(s):
    """The stored sum, to which x is added once more."""
    return _norm.stored_source(s) + s.x.float()


AGAIN = (
    Again("weight_ignored", r"weight is ignored", _norm.op("lanes", 2, factor=lambda s: None)),
    Again(
        "weight_absolute",
        r"sign of the weight is lost",
        _norm.op("folded", 2, factor=_factor(lambda w, s: torch.sqrt(w * w))),
    ),
    Again(
        "weight_zero_is_one",
        r"weight of 0 counts as 1",
        _norm.op("lanes", factor=_factor(lambda w, s: w + (w == 0))),
    ),
    Again(
        "weight_plus_one",
        r"1 is added to the weight",
        _norm.op("float64", 2, factor=_factor(lambda w, s: w + 1.0)),
    ),
    Again(
        "weight_reversed",
        r"read from its end",
        _norm.op("lanes", stored=True, factor=_gathered(lambda r, c: (-1 - c) + 0 * r, True)),
    ),
    Again(
        "weight_one_further_per_row",
        r"one element further for every row, and starts again",
        _norm.op("lanes", 2, factor=_gathered(lambda r, c: r + c, True)),
    ),
    Again(
        "weight_moves_with_the_row",
        r"one element further for every row",
        _norm.op("folded", factor=_gathered(lambda r, c: r + c, False)),
    ),
    Again(
        "weight_of_first_chunk",
        r"from its start again after every 1024",
        _norm.op("lanes", 2, factor=_gathered(lambda r, c: c % 1024 + 0 * r, True)),
    ),
    Again(
        "weight_cast_to_input",
        r"weight is rounded from",
        _norm.op("lanes", 2, factor=_factor(_narrow)),
    ),
    Again(
        "residual_ignored",
        r"what is normalised is x alone",
        _norm.op("lanes", 2, source=_of_x, residual_out=lambda s: s.x.float().to(s.residual.dtype)),
    ),
    Again("residual_ignored_in_norm", r"what is normalised is x alone", _norm.op("folded", source=_of_x)),
    Again(
        "residual_added_twice",
        r"x \+ residual \+ residual",
        _norm.op(
            "lanes",
            2,
            source=lambda s: s.x.float() + 2.0 * s.residual.float(),
            residual_out=lambda s: (s.x.float() + 2.0 * s.residual.float()).to(s.residual.dtype),
        ),
    ),
    Again(
        "residual_added_after_norm",
        r"added to the normalised x",
        _norm.op("folded", source=_of_x, finish=_plus_residual),
    ),
    Again(
        "residual_forgotten_in_second_pass",
        r"x alone is scaled by the statistic",
        _norm.op("lanes", 2, numerator=_wide(_of_x)),
    ),
    Again(
        "residual_added_again_in_second_pass",
        r"stored sum \+ x is scaled|x \+ x \+ residual is scaled",
        _norm.op("folded", numerator=_wide(_sum_and_x)),
        modes=("residual",),
    ),
    Again(
        "residual_out_is_x",
        r"",
        _norm.op("lanes", 2, residual_out=lambda s: s.x.float().to(s.residual.dtype)),
    ),
)
"""By the mutant's name; the expression of `says` is found in a sentence that states the fault."""
