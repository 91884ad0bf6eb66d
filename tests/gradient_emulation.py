"""Correct backwards, emulated in fp32 or done by torch's own autograd: what no rule may object to.

`Dx` and `Dweight` are kernels with a choice of convention, order of summation, reciprocal root and algebraic
form. `eager` differentiates a forward written in plain torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from emulation import Kernel, add_in_order, problem, tensor
from torch import Tensor

from conformance.model import Fill
from conformance.numerics.conventions import Convention
from conformance.numerics.gradients import DweightConvention, DxConvention, GradientProblem
from conformance.numerics.rounding import nearest, store, torch_dtype

FORMS = ("factored", "separate", "of h", "of the root", "added inside")
BLOCKINGS = ("rows in order", "blocks of 64", "tree", "lanes")


def gradient_problem(
    shape: tuple[int, int],
    fill: Fill,
    dtype: str,
    *,
    fused: bool,
    eps: float = 1e-6,
    offset: float = 0.0,
    parallel: bool = False,
    upstream: tuple[str, ...] = ("y", "residual_out"),
    **dtypes: str,
) -> GradientProblem:
    """A problem of `emulation.problem` with independent gradients. parallel: dy * weight nearly along x."""
    forward = problem(shape, fill, dtype, fused=fused, eps=eps, offset=offset, **dtypes)
    dy = tensor(Fill(seed=11), shape, "float32")
    if parallel:
        total = forward.x if forward.residual is None else forward.x + forward.residual
        assert forward.weight is not None
        dy = (total / total.abs().amax(-1, keepdim=True) + dy * 1e-3) / (forward.weight + offset)
        dy = torch.where(dy.isfinite(), dy, 0.0).clamp(-3e4, 3e4)
    added = tensor(Fill(seed=12, scale=0.5), shape, "float32")
    return GradientProblem(
        forward,
        nearest(dy, forward.x_dtype) if "y" in upstream else None,
        nearest(added, forward.residual_dtype) if fused and "residual_out" in upstream else None,
        dx_dtype=forward.x_dtype,
        dresidual_dtype=forward.residual_dtype,
        dweight_dtype=forward.weight_dtype,
    )


def source(p: GradientProblem, norm_input: str | None, order: str, root: str) -> tuple[Tensor, Tensor]:
    """The sum that the backward reads and its rrms, in fp32."""
    forward = p.forward
    exact = forward.x.float() if forward.residual is None else forward.x.float() + forward.residual.float()
    stored = store(exact.double(), forward.residual_dtype if forward.fused else forward.x_dtype).float()
    h = stored if norm_input in ("rounded_sum", "mixed") else exact
    kernel = Kernel(Convention(False, norm_input), order, root)
    return h, kernel._rrms(stored if norm_input == "rounded_sum" else exact, forward.eps)


def summed(terms: Tensor, order: str) -> Tensor:
    """The fp32 sum of every row, (n_rows, 1)."""
    return torch.from_numpy(np.ascontiguousarray(add_in_order(terms.numpy(), order)))[:, None]


@dataclass(frozen=True)
class Dx:
    """A correct kernel for dx and dresidual; calling it gives float64 copies of `which`."""

    convention: DxConvention
    order: str = "tree"
    root: str = "exact"
    form: str = "factored"

    def __call__(self, p: GradientProblem, which: str = "dx") -> Tensor:
        convention, forward = self.convention, p.forward
        assert p.dy is not None
        h, rrms = source(p, convention.norm_input, self.order, self.root)
        a = p.dy.float()
        if forward.weight is not None:
            weight = forward.weight.float() + forward.weight_offset
            if convention.rounds_weight:
                weight = store(weight.double(), forward.weight_dtype).float()
            a = a * weight
        if convention.rounds_a:
            a = store(a.double(), forward.x_dtype).float()
        added = None if p.dresidual_out is None else p.dresidual_out.float()
        norm, total_dtype = convention.roundings(p)
        inside = added if self.form == "added inside" and norm is None else None
        ds = self.ds(h, rrms, a, inside)
        if norm is not None:
            ds = store(ds.double(), norm).float()
        if added is not None and inside is None:
            ds = ds + added
        if total_dtype is not None:
            ds = store(ds.double(), total_dtype).float()
        return store(ds.double(), p.dtype_of(which)).double()

    def ds(self, h: Tensor, rrms: Tensor, a: Tensor, inside: Tensor | None = None) -> Tensor:
        """rrms * (a - x_hat * mean(x_hat * a)) in fp32, in one of its forms."""
        n = np.float32(h.shape[1])
        x_hat = h * rrms
        if self.form == "factored":
            return (a - x_hat * (summed(x_hat * a, self.order) / n)) * rrms
        if self.form == "separate":
            return rrms * a - (x_hat * rrms / n) * summed(a * x_hat, self.order)
        if self.form == "of h":
            return rrms * (a - h * (rrms * rrms * (summed(h * a, self.order) / n)))
        if self.form == "of the root":
            return a * rrms + (-0.5 * rrms**3 * summed(h * a, self.order) / n) * (2.0 * h)
        projection = rrms * (-(np.float32(1.0) / n) * rrms * rrms * summed(a * h, self.order)) * h
        return rrms * a + (projection if inside is None else projection + inside)


@dataclass(frozen=True)
class Dweight:
    """A correct kernel for dweight; calling it gives a float64 copy."""

    convention: DweightConvention
    blocking: str = "tree"
    order: str = "tree"
    root: str = "exact"

    def __call__(self, p: GradientProblem) -> Tensor:
        assert p.dy is not None
        h, rrms = source(p, self.convention.norm_input, self.order, self.root)
        x_hat = h * rrms
        if self.convention.rounds_x_hat:
            x_hat = store(x_hat.double(), p.forward.x_dtype).float()
        terms = p.dy.float() * x_hat
        if self.convention.rounds_product:
            terms = store(terms.double(), p.forward.x_dtype).float()
        return store(self.total(terms).double(), p.dweight_dtype).double()

    def total(self, terms: Tensor) -> Tensor:
        columns = np.ascontiguousarray(terms.numpy().T)
        if self.blocking == "rows in order":
            return torch.from_numpy(add_in_order(columns, "ascending").copy())
        if self.blocking == "blocks of 64":
            partial = [
                add_in_order(part, "ascending")
                for part in np.split(columns, range(64, columns.shape[1], 64), 1)
            ]
            return torch.from_numpy(add_in_order(np.stack(partial, 1), "tree").copy())
        return torch.from_numpy(add_in_order(columns, self.blocking).copy())


# --- forwards in plain torch, to be differentiated ------------------------------------------------------


def llama(x: Tensor, weight: Tensor, eps: float, offset: float = 0.0) -> Tensor:
    """As Hugging Face's Llama module: x_hat goes back to x's dtype before the weight."""
    h = x.to(torch.float32)
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps)
    return (weight + offset if offset else weight) * h.to(x.dtype)


def gemma(x: Tensor, weight: Tensor, eps: float, offset: float = 0.0) -> Tensor:
    """As Hugging Face's Gemma module: fp32 up to the end."""
    h = x.float()
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps)
    return (h * (offset + weight.float())).type_as(x)


def functional(x: Tensor, weight: Tensor, eps: float, offset: float = 0.0) -> Tensor:
    """torch's own."""
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight + offset if offset else weight, eps)


EAGER: dict[str, Callable[..., Tensor]] = {"llama": llama, "gemma": gemma, "functional": functional}


def eager(p: GradientProblem, norm: str) -> dict[str, Tensor | None]:
    """dx, dresidual and dweight by automatic differentiation, as float64 copies; the add is made in torch."""
    forward = p.forward
    leaves = {"dx": (forward.x, forward.x_dtype), "dweight": (forward.weight, forward.weight_dtype)}
    if forward.residual is not None:
        leaves["dresidual"] = (forward.residual, forward.residual_dtype)
    made = {
        name: value.to(torch_dtype(dtype)).requires_grad_()
        for name, (value, dtype) in leaves.items()
        if value is not None
    }
    h = made["dx"]
    outputs, upstream = [], []
    if forward.residual is not None:
        h = (h + made["dresidual"]).to(torch_dtype(forward.residual_dtype))
        if p.dresidual_out is not None:
            outputs.append(h)
            upstream.append(p.dresidual_out.to(h.dtype))
    if p.dy is not None:
        # Where the dtypes differ the norm reads the stored sum in the wider one.
        h = h.to(torch.promote_types(h.dtype, made["dx"].dtype))
        y = EAGER[norm](h, made["dweight"], forward.eps, forward.weight_offset)
        y = y.to(torch_dtype(forward.y_dtype))
        outputs.append(y)
        upstream.append(p.dy.to(y.dtype))
    found = torch.autograd.grad(outputs, list(made.values()), upstream, allow_unused=True)
    return {name: None if g is None else g.double() for name, g in zip(made, found, strict=True)}
