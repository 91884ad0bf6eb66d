"""Faults copied from LayerNorm: a mean subtracted, a bias added."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch

from conformance.diagnosing.candidate import Candidate, Rows
from conformance.numerics.conventions import Problem
from conformance.numerics.intervals import Parts, U

ORDER = 55


def candidates(problem: Problem) -> Iterator[Candidate]:
    if problem.hidden_size > 1:
        for name, sentence, centred, unbiased in (
            (
                "centred_variance",
                "the statistic is the variance about the mean, not the mean square",
                False,
                0,
            ),
            (
                "centred_sample_variance",
                "the statistic is the sample variance, not the mean square",
                False,
                1,
            ),
            ("layer_norm", "the mean is subtracted: this is LayerNorm", True, 0),
            ("layer_norm_sample", "the mean is subtracted and the sample variance used: LayerNorm", True, 1),
        ):
            yield Candidate(
                name,
                "FORMULA-NO-MEAN",
                sentence,
                partial(_centred, centred=centred, unbiased=unbiased),
            )
        yield Candidate(
            "mean_subtracted_at_the_end",
            "FORMULA-NO-MEAN",
            "the mean is subtracted from x, though not in the statistic",
            lambda rows: _centred(rows, True, None),
        )
    if problem.weight is not None:
        yield Candidate(
            "bias_is_the_weight",
            "FORMULA-NO-BIAS",
            "the weight is added as a bias after the product",
            lambda rows: rows.right(added=rows.weight),
        )
    yield Candidate("bias_constant", "FORMULA-NO-BIAS", "a constant is added to every element", _constant)


def _centred(rows: Rows, centred: bool, unbiased: int | None) -> Iterator[Parts]:
    for numerator, source in rows.sources:
        mean = source.mean(-1, keepdim=True)
        deviation = source - mean
        if unbiased is None:
            power = source.square().sum(-1, keepdim=True) / rows.hidden_size
        else:
            power = deviation.square().sum(-1, keepdim=True) / (rows.hidden_size - unbiased)
        rrms = 1.0 / (power + rows.eps).sqrt()
        # The mean of fp32 values is off by about sqrt(N) u of their size, whatever the size of the
        # difference.
        size = source.abs().mean(-1, keepdim=True) * (4.0 * rows.hidden_size**0.5 + 4.0) * U
        relative = rows.relative(rrms) + size * rrms
        if centred:
            yield rows.parts(numerator - mean, rrms, relative=relative, slack=size * rrms)
        else:
            yield rows.parts(numerator, rrms, relative=relative)


def _constant(rows: Rows) -> Iterator[Parts]:
    """The constant is read off the output: what most elements have in common, to a few significant digits."""
    for parts in rows.right():
        centre = parts.numerator * parts.rrms
        if parts.weight is not None:
            centre = centre * parts.weight
        difference = float((rows.y - centre).median())
        if difference and difference - difference == 0:
            for digits in range(5):
                added = torch.full_like(parts.rrms, float(f"{difference:.{digits}e}"))
                yield rows.parts(parts.numerator, parts.rrms, added=added)
