"""Faults of the rrms in dx: another power of it, a rounded one, another eps or divisor than the forward's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from conformance.diagnosing.candidate import power_of_two
from conformance.diagnosing.gradient_rows import DxCandidate, Form, Setting
from conformance.numerics.gradient_conventions import GradientProblem
from conformance.numerics.intervals import U, bound
from conformance.numerics.rounding import nearest

ORDER = 162

_RRMS = "DX-RRMS"
_POWERS = {
    (-1, -1): "both terms of dx lack a factor of rrms",
    (1, 1): "both terms of dx have one factor of rrms too many",
    (2, 2): "both terms of dx have two factors of rrms too many",
    (-1, 0): "the first term of dx lacks rrms",
    (1, 0): "the first term of dx has rrms squared",
    (0, -1): "the second term of dx has x * rrms**2 where rrms**3 belongs",
    (0, -2): "the second term of dx has x * rrms where x * rrms**3 belongs",
    (0, -3): "the second term of dx has x where x * rrms**3 belongs",
    (0, 1): "the second term of dx has one factor of rrms too many",
    (0, 2): "the second term of dx has two factors of rrms too many",
    (-1, -3): "neither term of dx has any rrms",
    (-1, -2): "the first term of dx lacks rrms, and the second rrms**2",
}
"""(factors of rrms too many in the first term, in the second) and what that is in words."""
_EPS = (1e-6, 1e-5, 1e-8, 1e-12, 1e-3, 1e-4, 1e-7)


def dx_candidates(problem: GradientProblem) -> Iterator[DxCandidate]:
    if problem.dy is None:
        return
    for (first, second), sentence in _POWERS.items():
        name = f"rrms_powers_{first}_{second}".replace("-", "minus_")
        yield DxCandidate(name, _RRMS, sentence, partial(_powers, first=first, second=second))
    for name, (sentence, rrms) in statistics(problem).items():
        if name.startswith("eps_") and problem.forward.hidden_size == 1:
            continue  # dx of one column is what eps leaves of it: a 0 does not tell why
        yield DxCandidate(name, _RRMS, f"in dx {sentence}", partial(_with, rrms=rrms))
    for dtype in ("bfloat16", "float16"):
        sentence = f"dx uses an rrms that is rounded to {dtype}"
        yield DxCandidate(f"rrms_in_{dtype}", _RRMS, sentence, partial(_rounded, dtype=dtype))
        sentence = f"dx uses an rrms whose mean square is rounded to {dtype}"
        yield DxCandidate(f"mean_in_{dtype}", _RRMS, sentence, partial(_rounded, dtype=dtype, mean=True))


def statistics(problem: GradientProblem) -> dict[str, tuple[str, Callable[[Tensor], Tensor]]]:
    """Wrong statistics: name -> (words, rrms as a function of the mean square, both (rows, 1))."""
    size, eps = problem.forward.hidden_size, problem.forward.eps
    found: dict[str, tuple[str, Callable[[Tensor], Tensor]]] = {
        "eps_omitted": ("the rrms lacks eps", lambda m: 1.0 / m.sqrt()),
        "eps_outside": ("eps is added to the root", lambda m: 1.0 / (m.sqrt() + eps)),
        "rms_for_rrms": ("the rms stands where the rrms belongs", lambda m: (m + eps).sqrt()),
        "mean_for_rrms": ("the mean square stands where the rrms belongs", lambda m: m + eps),
        "root_missing": ("the rrms lacks the root", lambda m: 1.0 / (m + eps)),
    }
    for value in _EPS:
        if value != eps:
            text = f"the rrms is that of eps {value:g}, whatever is passed (here {eps:g})"
            found[f"eps_{value:g}"] = (text, partial(_rrms, factor=1.0, eps=value))
    factors = {10.0: "ten times too large", 0.1: "ten times too small", 2.0: "added twice", 0.5: "halved"}
    for factor, text in factors.items():
        found.setdefault(
            f"eps_times_{factor:g}",
            (f"eps is {text} in the rrms", partial(_rrms, factor=1.0, eps=factor * eps)),
        )
    for name, value, text in (
        ("eps_squared", eps * eps, "eps is squared in the rrms"),
        ("eps_in_the_sum", eps / size, "eps is added to the sum of squares in the rrms, before the division"),
    ):
        found.setdefault(name, (text, partial(_rrms, factor=1.0, eps=value)))
    for divisor in sorted({size - 1, power_of_two(size), power_of_two(size + 1) // 2, 1} - {0, size}):
        text = f"the mean square is divided by {divisor}, not by {size}"
        found[f"statistic_divisor_{divisor}"] = (text, partial(_rrms, factor=size / divisor, eps=eps))
    return found


def _rrms(mean: Tensor, factor: float, eps: float) -> Tensor:
    return 1.0 / (mean * factor + eps).sqrt()


def _powers(s: Setting, first: int, second: int) -> Iterator[Form]:
    form, r = s.jacobian(), s.source.rrms
    yield replace(
        form,
        first=form.first * r**first,
        second=form.second * r**second,
        second_scale=form.second_scale * r**second,
    )


def _with(s: Setting, rrms: Callable[[Tensor], Tensor]) -> Iterator[Form]:
    """Another rrms in both terms, or where x_hat is at hand from the forward only as the factor in front."""
    wrong = rrms(s.source.mean)
    yield s.jacobian(rrms=wrong)
    form, ratio = s.jacobian(), wrong / s.source.rrms
    yield replace(
        form,
        first=form.first * ratio,
        second=form.second * ratio,
        second_scale=form.second_scale * ratio.abs(),
    )


def _rounded(s: Setting, dtype: str, mean: bool = False) -> Iterator[Form]:
    """A statistic good to fp32 may round either way: both ends go through the same roundings."""
    fuzz = 2.0 * bound(s.rows.hidden_size)
    ends = []
    for factor in (1.0 - fuzz, 1.0 + fuzz):
        if mean:
            ends.append(1.0 / (nearest(s.source.mean * factor, dtype) + s.rows.eps).sqrt())
        else:
            ends.append(nearest(s.source.rrms * factor, dtype))
    middle = (ends[0] + ends[1]) / 2.0
    spread = torch.where(ends[0] == ends[1], 0.0, (ends[0] - ends[1]).abs() / 2.0 / middle)
    relative = spread + 8.0 * U
    yield s.jacobian(rrms=middle, relative=relative)
    form, ratio = s.jacobian(relative=relative), middle / s.source.rrms
    # x_hat as the forward had it, scaled by the rounded one
    yield replace(form, first=form.first * ratio, second=form.second * ratio)
