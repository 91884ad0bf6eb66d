"""What the backward must be given, and what the in-place call must not: checked before anything is launched.

Upstream gradients come from other people's operations and have whatever strides those leave: a sum gives an
expanded one, a transpose a transposed one. They are taken as they are wherever a row stride exists and
copied elsewhere. Never are they written.
"""

from __future__ import annotations

import torch

from . import arguments


def check_upstream(
    name: str, gradient: torch.Tensor, out: torch.Tensor, dtypes: tuple[torch.dtype, ...]
) -> None:
    """Refuse an upstream gradient that is not of the output's shape and device, or not of one of dtypes.

    Any strides will do. Raises TypeError or ValueError.
    """
    if not isinstance(gradient, torch.Tensor):
        raise TypeError(f"{name} is a {type(gradient).__name__}, but should be a torch.Tensor")
    if gradient.shape != out.shape:
        raise ValueError(
            f"{name}.shape={tuple(gradient.shape)}, but should be {tuple(out.shape)}:"
            " expand or slice it first"
        )
    if gradient.dtype not in dtypes:
        raise TypeError(
            f"{name}.dtype={gradient.dtype}, but should be {' or '.join(map(str, dtypes))}:"
            " a gradient has the dtype of its output; cast it first"
        )
    if gradient.device != out.device:
        raise ValueError(f"{name}.device={gradient.device}, but should be {out.device}: move it")


def check_rrms(rrms: torch.Tensor, x: torch.Tensor) -> None:
    """Refuse what cannot be the saved statistic of x: a contiguous float32 (n_rows,) tensor on x's device.

    Raises TypeError or ValueError.
    """
    if not isinstance(rrms, torch.Tensor):
        raise TypeError(f"rrms is a {type(rrms).__name__}, but should be a torch.Tensor")
    n_rows = arguments.count_rows(x)
    if rrms.dtype != torch.float32:
        raise TypeError(
            f"rrms.dtype={rrms.dtype}, but should be torch.float32: pass what the forward returned"
        )
    if rrms.shape != (n_rows,) or not rrms.is_contiguous():
        raise ValueError(
            f"rrms has shape {tuple(rrms.shape)} and strides {rrms.stride()}, but should be contiguous and"
            f" ({n_rows},), one number per row of x: pass what the forward returned with return_rrms=True"
        )
    if rrms.device != x.device:
        raise ValueError(f"rrms.device={rrms.device}, but should be x.device={x.device}: move one of the two")


def rows_of_upstream(gradient: torch.Tensor) -> torch.Tensor:
    """Return a gradient as (n_rows, hidden_size) with unit column stride.

    A view where there is one: an expanded gradient keeps its row stride 0. A copy elsewhere.
    """
    rows = arguments.rows_of(gradient)
    return rows.contiguous() if rows.shape[1] > 1 and rows.stride(1) != 1 else rows


def check_no_gradient(**tensors: torch.Tensor | None) -> None:
    """Refuse tensors that a graph would need unchanged, with ValueError: for a call that overwrites them."""
    if not torch.is_grad_enabled():
        return
    for name, tensor in tensors.items():
        if isinstance(tensor, torch.Tensor) and tensor.requires_grad:
            raise ValueError(
                f"{name}.requires_grad=True, but should be False: the in-place call has no backward; call"
                " fused_add_rms_norm, which is differentiable, or call this one under torch.no_grad()"
            )
