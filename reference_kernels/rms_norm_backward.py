"""Lesson 7. RMSNorm, backward: gradients of x and weight from the gradient of y.

    x_hat   = x * rrms                                  rrms as the forward saved it
    a       = dy * weight
    c       = mean(a * x_hat)                           one number per row
    dx      = round(rrms * (a - x_hat * c))
    dweight = round(sum over the rows of dy * x_hat)    begun here, ended in lesson 8

Where dx comes from: y = x_hat * weight, and x_hat has a root mean square of 1 (but for eps) whatever x is.
So only the part of `a` across x_hat moves it, and the part along x_hat, x_hat * c, is taken away.

Bytes per row: read dy and x, write dx, 3 * hidden_size * itemsize. New here is the sum over rows. One
program a row would have to write a row of float32 products for each, more bytes than all else. So a
program is persistent: there are one or two for each multiprocessor, and each strides over the rows with
its share of dweight in registers, which it writes once at its end. Those few rows of partial sums are
lesson 8's input. No atomics: their order differs from run to run, and with it the last bits of dweight.

A persistent program is alone on its multiprocessor, so nobody else computes while it waits for memory.
`tl.range(..., num_stages=STAGES)` repairs that: the loads of the next rows are under way, into shared
memory, while this row is worked on. Without it the same kernel was measured a quarter slower.

    dtypes   dy, x, dx: float16, bfloat16 or float32. weight: any of the three. All arithmetic is float32,
             and so are the partial sums of dweight.
    eps      inside the root, in the forward. Here it is not needed: it is in rrms.
    weight   shape (hidden_size,), or none; by column. dweight has the same shape.
    bias     none, and no mean is subtracted; so there is no dbias either.
    saved    rrms, the reciprocal, is read. Computed again, it would differ from the forward's by rounding.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from . import arguments, gradient_arguments, launch, launch_backward
from .dweight_reduce import dweight_reduce_kernel
from .rms_norm_backward_columns import rms_norm_backward_columns_kernel
from .rms_norm_backward_halved import rms_norm_backward_halved_kernel
from .rms_norm_backward_projection import rms_norm_backward_projection_kernel
from .rms_norm_backward_tiled import rms_norm_backward_tiled_kernel


@triton.jit(do_not_specialize=["n_rows"])  # as in lesson 5
def rms_norm_backward_kernel(
    dy_ptr,  # (n_rows, H), read
    x_ptr,  # (n_rows, H), read; for the fused op what it stored as residual_out
    weight_ptr,  # (H,), read; None without HAS_WEIGHT
    rrms_ptr,  # (n_rows,), float32, read
    dresidual_out_ptr,  # (n_rows, H), read; None without HAS_DRESIDUAL_OUT, see lesson 9
    dx_ptr,  # (n_rows, H), written; None without WANTS_DX
    dresidual_ptr,  # (n_rows, H), written; None without WANTS_DRESIDUAL, see lesson 9
    partials_ptr,  # (number of programs, H), float32, written; None without WANTS_DWEIGHT
    dy_row_stride,  # in elements; 0 where dy is one row, expanded
    row_stride,  # of x, in elements
    dresidual_out_row_stride,
    dx_row_stride,
    dresidual_row_stride,
    n_rows,
    H,
    HAS_WEIGHT: tl.constexpr,
    HAS_DRESIDUAL_OUT: tl.constexpr,
    WANTS_DX: tl.constexpr,
    WANTS_DRESIDUAL: tl.constexpr,
    WANTS_DWEIGHT: tl.constexpr,
    STAGES: tl.constexpr,  # how many rows are under way at a time
    BLOCK_SIZE: tl.constexpr,  # the smallest power of two >= H
):
    program = tl.cast(tl.program_id(0), tl.int64)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < H
    if HAS_WEIGHT:
        weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    dweight = tl.zeros([BLOCK_SIZE], dtype=tl.float32)

    for step in tl.range(tl.program_id(0), n_rows, tl.num_programs(0), num_stages=STAGES):
        row = tl.cast(step, tl.int64)  # row * row_stride passes 2**31 on large tensors
        dy = tl.load(dy_ptr + row * dy_row_stride + cols, mask=mask, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + row * row_stride + cols, mask=mask, other=0.0).to(tl.float32)
        rrms = tl.load(rrms_ptr + row)
        x_hat = x * rrms
        if WANTS_DWEIGHT:
            dweight += dy * x_hat
        if WANTS_DX or WANTS_DRESIDUAL:
            a = dy
            if HAS_WEIGHT:
                a = dy * weight
            c = tl.sum(a * x_hat, axis=0) / H
            dx = rrms * (a - x_hat * c)
            if HAS_DRESIDUAL_OUT:
                dx += tl.load(
                    dresidual_out_ptr + row * dresidual_out_row_stride + cols, mask=mask, other=0.0
                ).to(tl.float32)  # fmt: skip
            if WANTS_DX:
                tl.store(dx_ptr + row * dx_row_stride + cols, dx.to(dx_ptr.dtype.element_ty), mask=mask)
            if WANTS_DRESIDUAL:
                tl.store(
                    dresidual_ptr + row * dresidual_row_stride + cols,
                    dx.to(dresidual_ptr.dtype.element_ty),
                    mask=mask,
                )

    if WANTS_DWEIGHT:
        tl.store(partials_ptr + program * H + cols, dweight, mask=mask)


def rms_norm_backward(
    dy: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor | None,
    rrms: torch.Tensor,
    *,
    needs_dx: bool = True,
    needs_dweight: bool = True,
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Return (dx, dweight), the gradients of y = rms_norm(x, weight) times dy. New tensors.

    dy has x's shape (..., hidden_size) and dtype, and any strides: expanded rows are read with row stride
    0, and only where no row stride or no unit column stride exists is it copied. x and weight are what the
    forward was given, rrms what it returned: float32, (n_rows,). dx has x's shape and dtype and is
    contiguous; dweight has weight's, is summed in float32 and rounded once, and has the same bits in every
    run on one device. 0 rows give a dweight of zeros. What is not needed is None and costs nothing, as is
    dweight where weight is None. Nothing that is passed is changed. The answer has no graph.

    Raises TypeError or ValueError, before anything is launched, for dtypes, devices, shapes and column
    strides of x that the kernels cannot take.
    """
    arguments.check_x(x)
    if weight is not None:
        arguments.check_weight(weight, x)
    gradient_arguments.check_upstream("dy", dy, x, (x.dtype,))
    gradient_arguments.check_rrms(rrms, x)
    arguments.check_runs_here(rms_norm_backward_kernel, x)

    dx = torch.empty(x.shape, dtype=x.dtype, device=x.device) if needs_dx else None
    dweight = torch.empty_like(weight) if needs_dweight and weight is not None else None
    run_kernels(dy, x, weight, rrms, None, dx, None, dweight)
    return dx, dweight


# The same gradients, four ways to lay rows over the machine; lessons 10, 11 and 13 have the other three.
_KERNELS = {
    "one_tile": rms_norm_backward_kernel,
    "halved": rms_norm_backward_halved_kernel,
    "columns": rms_norm_backward_columns_kernel,
    "tiled": rms_norm_backward_tiled_kernel,
}


def run_kernels(
    dy: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor | None,
    rrms: torch.Tensor,
    dresidual_out: torch.Tensor | None,
    dx: torch.Tensor | None,
    dresidual: torch.Tensor | None,
    dweight: torch.Tensor | None,
) -> None:
    """Fill those of dx, dresidual and dweight that are given. All is checked; for both ops."""
    n_rows, hidden_size = arguments.count_rows(x), x.shape[-1]
    wants_row = dx is not None or dresidual is not None
    if n_rows == 0 or not (wants_row or dweight is not None):
        if dweight is not None:
            dweight.zero_()
        return
    dy, x = gradient_arguments.rows_of_upstream(dy), arguments.rows_of(x)
    if dresidual_out is not None:
        dresidual_out = gradient_arguments.rows_of_upstream(dresidual_out)
    dx, dresidual = (None if t is None else arguments.rows_of(t) for t in (dx, dresidual))
    read = [t for t in (dy, x, dresidual_out) if t is not None]
    how = launch_backward.configure(hidden_size, sum(t.element_size() for t in read), x.device)
    walkers = launch_backward.count_walkers(how, n_rows, hidden_size, x.device)
    partials = None
    if dweight is not None:
        partials = torch.empty((walkers, hidden_size), dtype=torch.float32, device=x.device)

    strides = {
        f"{prefix}row_stride": 0 if tensor is None else tensor.stride(0)
        for prefix, tensor in (
            ("dy_", dy), ("", x), ("dresidual_out_", dresidual_out), ("dx_", dx), ("dresidual_", dresidual)
        )
    }  # fmt: skip
    extra: dict[str, object] = {"TILE_ROWS": how.tile_rows} if how.kernel == "tiled" else {}
    with launch.on_device_of(x):
        if how.kernel == "columns":
            extra["projection_ptr"] = projection = (
                torch.empty(n_rows, dtype=torch.float32, device=x.device) if wants_row else None
            )
            if wants_row:
                rms_norm_backward_projection_kernel[(n_rows,)](
                    dy, x, weight, rrms, projection, strides["dy_row_stride"], strides["row_stride"],
                    H=hidden_size, HAS_WEIGHT=weight is not None,
                    **launch_backward.projection_options(),
                )  # fmt: skip
        _KERNELS[how.kernel][launch_backward.grid(how, walkers, hidden_size)](
            dy_ptr=dy, x_ptr=x, weight_ptr=weight, rrms_ptr=rrms, dresidual_out_ptr=dresidual_out,
            dx_ptr=dx, dresidual_ptr=dresidual, partials_ptr=partials, **strides,
            n_rows=n_rows, H=hidden_size,
            HAS_WEIGHT=weight is not None, HAS_DRESIDUAL_OUT=dresidual_out is not None,
            WANTS_DX=dx is not None, WANTS_DRESIDUAL=dresidual is not None,
            WANTS_DWEIGHT=dweight is not None,
            STAGES=how.stages, BLOCK_SIZE=how.block_size, **extra, **how.options,
        )  # fmt: skip
        if dweight is not None:
            options = launch_backward.reduce_options(hidden_size, x.device)
            dweight_reduce_kernel[(triton.cdiv(hidden_size, options["BLOCK_SIZE"]),)](
                partials, dweight, walkers, H=hidden_size, **options
            )
