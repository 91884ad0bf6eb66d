"""What the checks of gradients must object to: a right backward in pieces, with one of them replaced."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from counterexamples import Times, Wrong
from small_runs import training

from conformance.model import Backward, Fill, Parameter, Run
from conformance.mutants import _gradient

PLAIN, FUSED = training(rows=7), training(rows=7, mode="residual")
BATCHES = training(shape=(3, 4, 32))
ALONE = training(rows=7, mode="residual", upstream=("residual_out",))
FROZEN = training(rows=7, gradients=("x",))
EMPTY = training(rows=0)
ZERO_WEIGHTS = training(rows=7, fills={"x": Fill(), "weight": Fill(seed=2, zero_every=5)})
MANY = training(rows=300, fills={"x": Fill(seed=1), "weight": Fill(seed=2)})
STATISTIC = training(rows=7, scenario="saved_statistic")
NAN = training(
    rows=7,
    fills={"x": Fill(put=((1, 3, "nan"),)), "weight": Fill(seed=2)},
    requirements=("SPECIAL-NONFINITE",),
)
DY_LAYOUT = training(rows=7, layouts={"dy": "row_slice"}, requirements=("GRADMODE-DY-LAYOUT",))


def plain(**pieces: Any) -> Any:
    """The plain norm over a backward with some pieces replaced."""
    return _gradient.op(**pieces).rms_norm


def fused(**pieces: Any) -> Any:
    """The fused add over such a backward."""
    return _gradient.op(**pieces).fused_add_rms_norm


RIGHT = {"none": plain(), "residual": fused()}


def without(*places: int) -> Any:
    """Hands None to autograd for some of x, residual and weight."""
    return lambda s, gradients: tuple(None if i in places else g for i, g in enumerate(gradients))


def explicit(change: Any = lambda dx, dweight: (dx, dweight), mode: str = "none") -> Backward:
    """A backward function of its own, whose results are changed."""

    def function(dy, x, residual_out, weight, dresidual_out=None):
        h = x if residual_out is None else residual_out
        step = _gradient.Step(
            shape=x.shape, dtype=x.dtype, residual_dtype=h.dtype, h=_gradient.rows(h.float()),
            own_weight=weight, weight=weight.float(), given=dy, given_residual_out=dresidual_out,
        )  # fmt: skip
        step.saved = torch.rsqrt(step.h.square().mean(-1, keepdim=True) + 1e-5)
        dx, dresidual, dweight = _gradient.backward(step)
        return change(dx, dweight) if mode == "none" else change(dx, dresidual, dweight)

    roles = ("dy", "x", "residual_out", "weight", "dresidual_out")
    if mode == "none":
        shown = tuple(Parameter(r, r) for r in roles if "residual" not in r)
        return Backward(lambda dy, x, weight: function(dy, x, None, weight), shown)
    return Backward(function, tuple(Parameter(r, r) for r in roles), returns=("dx", "dresidual", "dweight"))


def explicitly(change: Any, mode: str = "none") -> dict[str, Any]:
    return {"backward": explicit(change, mode)}


def noise(like: torch.Tensor) -> torch.Tensor:
    """Numbers that no formula gives."""
    return torch.sin(torch.arange(like.numel(), device=like.device) * 1.7).reshape(like.shape)


def one_off(tensor: torch.Tensor) -> torch.Tensor:
    """One element in the middle a percent larger."""
    changed = tensor.clone()
    changed[..., 5] *= 1.01
    return changed


def up(tensor: torch.Tensor) -> torch.Tensor:
    """Every element one place further from zero."""
    return torch.nextafter(tensor, tensor.sign() * 1e30)


def right_dx(s):
    return _gradient.dx(s)


def right_dweight(s):
    return _gradient.dweight(s)


def before(s):
    return _gradient.rows(s.given.float()) + s.dresidual_out


def summed_in_bf16(s):
    total = torch.zeros_like(s.terms[0])
    for row in s.terms:
        total = (total + row).bfloat16().float()
    return total


def from_y(s):
    return s.dy * (s.x_hat * s.weight / s.weight)


def switched_on(x, weight, eps):
    weight.requires_grad_(True)
    return RIGHT["none"](x, weight, eps)


def raises(s):
    raise ValueError("no such gradient")


def with_stale_dweight() -> Any:
    """Gives the first dweight for ever."""
    kept: list[torch.Tensor] = []

    def dweight(s):
        kept.append(_gradient.dweight(s))
        return kept[0].clone()

    return plain(dweight=dweight)


def in_one_buffer() -> Any:
    """Hands out every dweight in the same memory."""
    kept: list[torch.Tensor] = []

    def dweight(s):
        right = _gradient.dweight(s)
        if not kept:
            kept.append(torch.empty_like(right))
        return kept[0].copy_(right)

    return plain(dweight=dweight)


def of(run: Run, **changes: Any) -> Run:
    return replace(run, **changes)


RETAINED, REPEAT = of(PLAIN, scenario="retained"), of(PLAIN, scenario="repeat")
INTERLEAVED = of(PLAIN, scenario="interleaved")

WRONG_GRADIENTS = (
    Wrong("gradients_present", "DX-PRESENT", plain(returned=without(0)), PLAIN),
    Wrong("gradients_present", "DRESIDUAL-PRESENT", fused(returned=without(1)), FUSED),
    Wrong("gradients_present", "DWEIGHT-PRESENT", plain(returned=without(2)), PLAIN),
    Wrong("gradients_present", "DWEIGHT-ZERO-ROWS", plain(returned=without(2)), EMPTY),
    Wrong("gradients_present", "DRESIDUAL-ALONE", fused(returned=without(0, 1)), ALONE),
    Wrong("gradients_present", "DRESIDUAL-ALONE", fused(total=lambda s: 0.0 * s.dresidual_out), ALONE),
    Wrong("gradients_present", "DRESIDUAL-ADDED",
          lambda *a: (lambda y, s: (y, s.detach()))(*RIGHT["residual"](*a)), FUSED),
    Wrong("gradients_form", "DX-FORM", RIGHT["none"], PLAIN, explicitly(lambda dx, dw: (dx.half(), dw))),
    Wrong("gradients_form", "DX-FORM", RIGHT["none"], PLAIN, explicitly(lambda dx, dw: (dx.reshape(-1), dw))),
    Wrong("gradients_form", "DX-FORM", plain(dx=lambda s: s.total[:, 1:]), PLAIN),
    Wrong("gradients_form", "DRESIDUAL-FORM", RIGHT["residual"], FUSED,
          explicitly(lambda dx, dr, dw: (dx, dr.half(), dw), "residual")),
    Wrong("gradients_form", "DWEIGHT-SHAPE", plain(dweight=lambda s: s.sum.sum()), PLAIN),
    Wrong("gradients_form", "DWEIGHT-SHAPE", RIGHT["none"], PLAIN, explicitly(lambda dx, dw: (dx, dw[None]))),
    Wrong("gradients_form", "DWEIGHT-DTYPE", RIGHT["none"], PLAIN,
          explicitly(lambda dx, dw: (dx, dw.half()))),
    Wrong("dx", "DX-WEIGHT", plain(weighted=lambda s: s.dy), PLAIN),
    Wrong("dx", "DX-PROJECTION", plain(norm=lambda s: s.rrms * s.a), PLAIN),
    Wrong("dx", "DX-RRMS", plain(norm=lambda s: s.a - s.x_hat * s.c), PLAIN),
    Wrong("dx", "DX-ROWS", plain(upstream=lambda s: s.given[:1].expand_as(s.given)), PLAIN),
    Wrong("dx", "DX-ACCURACY", plain(dx=lambda s: one_off(right_dx(s))), PLAIN),
    Wrong("dx", "DRESIDUAL-AFTER", fused(upstream=before, total=lambda s: s.norm), FUSED),
    Wrong("dx", "DRESIDUAL-ADDED", fused(total=lambda s: s.norm), FUSED),
    Wrong("dx", "DRESIDUAL-SAME", fused(dx=lambda s: s.dresidual_out), FUSED),
    Wrong("dx", "DWEIGHT-ZERO-WEIGHTS", plain(x_hat=lambda s: s.h * s.rrms * s.weight / s.weight),
          ZERO_WEIGHTS),
    Wrong("dx", "GRADMODE-DY-LAYOUT", plain(upstream=lambda s: noise(s.given)), DY_LAYOUT),
    Wrong("dx", "GRADMODE-COMBINATION", plain(dx=lambda s: 0.0 * right_dx(s)), FROZEN),
    Wrong("dx", "MEM-READ", plain(dx=lambda s: right_dx(s) * float("nan")), PLAIN,
          observed={"outside_matters": "MEM-READ", "outside_changed": "dx"}),
    Wrong("dx", "SPECIAL-NONFINITE", plain(dx=lambda s: right_dx(s).nan_to_num()), NAN),
    Wrong("dresidual", "DX-WEIGHT", fused(weighted=lambda s: s.dy), FUSED),
    Wrong("dresidual", "DRESIDUAL-AFTER", fused(upstream=before, total=lambda s: s.norm), FUSED),
    Wrong("dresidual", "DRESIDUAL-ADDED", fused(dresidual=lambda s: s.norm), FUSED),
    Wrong("dresidual", "DRESIDUAL-SAME", fused(dresidual=lambda s: s.dresidual_out), FUSED),
    Wrong("dresidual", "DRESIDUAL-ACCURACY", fused(dresidual=lambda s: one_off(s.total)), FUSED),
    Wrong("dweight", "DWEIGHT-XHAT", plain(terms=lambda s: s.dy * s.h), PLAIN),
    Wrong("dweight", "DWEIGHT-AXES", plain(reduced=lambda s: s.terms.sum().expand(32)), PLAIN),
    Wrong("dweight", "DWEIGHT-AXES", plain(reduced=lambda s: s.terms[:4].sum(0)), BATCHES),
    Wrong("dweight", "DWEIGHT-ROWS", plain(reduced=lambda s: s.terms[:-1].sum(0)), PLAIN),
    Wrong("dweight", "DWEIGHT-ZERO-ROWS", plain(dweight=lambda s: right_dweight(s) + float("nan")), EMPTY),
    Wrong("dweight", "DWEIGHT-ZERO-WEIGHTS", plain(terms=from_y), ZERO_WEIGHTS),
    Wrong("dweight", "DWEIGHT-ACCUMULATION", plain(reduced=summed_in_bf16), MANY),
    Wrong("dweight", "DWEIGHT-ACCURACY", plain(dweight=lambda s: one_off(right_dweight(s))), PLAIN),
    Wrong("dweight", "GRADMODE-COMBINATION", plain(dweight=lambda s: 0.0 * s.sum),
          training(rows=7, gradients=("weight",))),
    Wrong("dweight", "MEM-READ", plain(dweight=lambda s: right_dweight(s) * float("nan")), PLAIN,
          observed={"outside_matters": "MEM-READ", "outside_changed": "dweight"}),
    Wrong("gradmode", "GRADMODE-DY-UNTOUCHED",
          plain(returned=lambda s, g: (s.given.copy_(g[0]), *g)[1:]), PLAIN),
    Wrong("gradmode", "GRADMODE-OUTPUTS-UNTOUCHED",
          plain(keeps_y=True, returned=lambda s, g: (s.y.zero_(), *g)[1:]), PLAIN),
    Wrong("gradmode", "GRADMODE-UNASKED", switched_on, FROZEN),
    Wrong("gradients_repeat", "GRADMODE-REPEAT",
          plain(dweight=Times(right_dweight, lambda s: 2 * right_dweight(s), after=2)), REPEAT),
    Wrong("gradients_repeat", "GRADMODE-RETAINED",
          plain(dx=Times(right_dx, lambda s: 2 * right_dx(s))), RETAINED),
    Wrong("gradients_repeat", "GRADMODE-RETAINED",
          plain(returned=Times(lambda s, g: g, without(2))), RETAINED),
    Wrong("gradients_repeat", "GRADMODE-GRAPHS",
          plain(dx=Times(right_dx, lambda s: 2 * right_dx(s))), INTERLEAVED),
    Wrong("gradients_repeat", "GRADMODE-GRAPHS", in_one_buffer(), INTERLEAVED),
    Wrong("gradients_repeat", "INVARIANCE-FRESH", with_stale_dweight(), of(PLAIN, scenario="new_contents")),
    Wrong("gradients_repeat", "DWEIGHT-REPEAT",
          plain(dweight=Times(right_dweight, lambda s: up(right_dweight(s)))), REPEAT),
    Wrong("gradients_repeat", "INVARIANCE-REPEAT",
          plain(dx=Times(right_dx, lambda s: up(right_dx(s)))), REPEAT),
    Wrong("saved_statistic", "RRMS-READ",
          plain(rrms=lambda s: torch.rsqrt(s.h.square().mean(-1, keepdim=True) + s.eps)), STATISTIC),
    Wrong("saved_statistic", "RRMS-READ",
          plain(statistic=lambda s: s.rrms[:0],
                rrms=lambda s: torch.rsqrt(s.h.square().mean(-1, keepdim=True) + s.eps)), STATISTIC),
    Wrong("saved_statistic", "RRMS-RECIPROCAL",
          plain(statistic=lambda s: 1 / s.rrms, rrms=lambda s: 1 / s.saved), STATISTIC),
    Wrong("saved_statistic", "RRMS-RECIPROCAL",
          plain(statistic=lambda s: s.rrms**-2, rrms=lambda s: torch.rsqrt(s.saved)), STATISTIC),
    Wrong("saved_statistic", "RRMS-SAVED",
          plain(statistic=lambda s: s.rrms.bfloat16(), rrms=lambda s: s.saved.float()), STATISTIC),
    Wrong("saved_statistic", "RRMS-SAVED",
          plain(statistic=lambda s: s.rrms * 1.001, rrms=lambda s: s.saved / 1.001), STATISTIC),
    Wrong("refusal", "DWEIGHT-ZERO-ROWS", plain(dweight=raises), EMPTY),
    Wrong("refusal", "DRESIDUAL-ALONE", fused(total=raises), ALONE),
    Wrong("refusal", "GRADMODE-RETAINED", plain(dx=Times(right_dx, raises)), RETAINED),
    Wrong("refusal", "GRADMODE-REPEAT", plain(dx=Times(right_dx, raises)), REPEAT),
    Wrong("refusal", "GRADMODE-GRAPHS", plain(dx=Times(right_dx, raises)), INTERLEAVED),
    Wrong("guards", "MEM-UNWRITTEN", plain(dx=lambda s: torch.empty(s.shape, dtype=s.dtype)), PLAIN),
)  # fmt: skip
