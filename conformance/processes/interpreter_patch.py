"""The functions that `conformance.processes.interpreter.repair` puts in place of Triton's own.

Every one takes the module `triton.runtime.interpreter` (`stock`), keeps the stock function for what is not
bfloat16, and relies on nothing but the names it replaces and `TensorHandle`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from conformance.processes.bfloat16 import (
    Array,
    bf16_to_float32,
    float32_to_bf16,
    float32_to_bf16_toward_zero,
    fma_to_odd,
    to_bf16,
    toward_zero,
)
from conformance.processes.interpreter import InterpreterUnsupported


def _holds_bf16(stock: ModuleType, handle: Any) -> bool:
    # The data decides too: the stock comparisons give booleans that still carry the operands' dtype.
    return (
        isinstance(handle, stock.TensorHandle)
        and handle.dtype.scalar == stock.tl.bfloat16
        and handle.data.dtype == np.uint16
    )


def _widen(stock: ModuleType, handle: Any) -> Any:
    """Return a float32 handle for a bfloat16 one, and any other handle as it is."""
    if not _holds_bf16(stock, handle):
        return handle
    return stock.TensorHandle(bf16_to_float32(handle.data), stock.tl.float32)


def _narrow(stock: ModuleType, values: Array) -> Any:
    return stock.TensorHandle(to_bf16(values), stock.tl.bfloat16)


def repair_casts(stock: ModuleType) -> None:
    tl, builder = stock.tl, stock.InterpreterBuilder
    stock_cast, stock_fp_to_fp = builder.cast_impl, builder.create_fp_to_fp
    ieee = (tl.float16, tl.bfloat16, tl.float32, tl.float64)

    def cast_impl(self: Any, src: Any, dst_type: Any) -> Any:
        with np.errstate(all="ignore"):
            target = dst_type.scalar
            if target != tl.bfloat16 or src.dtype.scalar.is_fp8():
                return stock_cast(self, _widen(stock, src), dst_type)
            return src if _holds_bf16(stock, src) else _narrow(stock, src.data)

    def create_fp_to_fp(self: Any, src: Any, dst_type: Any, rounding_mode: Any) -> Any:
        source, target = src.dtype.scalar, dst_type.scalar
        covered = source == tl.bfloat16 or target in (tl.float16, tl.bfloat16)
        if not covered or source not in ieee or target not in ieee:
            return stock_fp_to_fp(self, src, dst_type, rounding_mode)
        if rounding_mode != stock._ir.ROUNDING_MODE.RTZ or target not in (tl.float16, tl.bfloat16):
            return cast_impl(self, src, dst_type)
        values = _widen(stock, src).data
        if target == tl.float16:
            return stock.TensorHandle(toward_zero(values, np.float16), tl.float16)
        if values.dtype == np.float64:
            values = toward_zero(values, np.float32)
        return stock.TensorHandle(float32_to_bf16_toward_zero(values.astype(np.float32)), target)

    builder.cast_impl = cast_impl
    builder.create_fp_to_fp = create_fp_to_fp
    builder.get_bf16 = lambda self, value: _narrow(stock, np.array([value], dtype=np.float32))


def repair_arithmetic(stock: ModuleType) -> None:
    tl, builder = stock.tl, stock.InterpreterBuilder
    stock_fma, stock_rmw = builder.create_fma, builder.create_atomic_rmw

    def elementwise(name: str) -> None:
        """Wrap binary_op, unary_op, ternary_op: (handles..., numpy function), the funnel of nearly all."""
        stock_op = getattr(builder, name)

        def repaired(self: Any, *handles_and_op: Any) -> Any:
            *handles, op = handles_and_op
            # A selection moves bits and computes nothing.
            if op is np.where or not any(_holds_bf16(stock, handle) for handle in handles):
                return stock_op(self, *handles_and_op)
            with np.errstate(all="ignore"):
                result = op(*(_widen(stock, handle).data for handle in handles))
            if result.dtype == np.bool_:
                return stock.TensorHandle(result, tl.int1)
            return _narrow(stock, result)

        setattr(builder, name, repaired)

    def widened(name: str) -> None:
        """Wrap create_dot: run it on float32 copies, and round if the accumulator is bfloat16."""
        stock_op = getattr(builder, name)

        def repaired(self: Any, a: Any, b: Any, d: Any, *rest: Any) -> Any:
            result = stock_op(self, *(_widen(stock, handle) for handle in (a, b, d)), *rest)
            return _narrow(stock, result.data) if _holds_bf16(stock, d) else result

        setattr(builder, name, repaired)

    def refused(name: str) -> None:
        stock_op = getattr(builder, name)

        def repaired(self: Any, *args: Any, **kwargs: Any) -> Any:
            if any(_holds_bf16(stock, arg) for arg in (*args, *kwargs.values())):
                raise InterpreterUnsupported(f"{name} on bfloat16 is not repaired: use a GPU")
            return stock_op(self, *args, **kwargs)

        setattr(builder, name, repaired)

    def create_fma(self: Any, x: Any, y: Any, z: Any) -> Any:
        if not _holds_bf16(stock, z):
            return stock_fma(self, x, y, z)
        return _narrow(stock, fma_to_odd(*(_widen(stock, handle).data for handle in (x, y, z))))

    def create_atomic_rmw(self: Any, rmw_op: Any, ptr: Any, val: Any, mask: Any, sem: Any, scope: Any) -> Any:
        exchange = stock._ir.ATOMIC_OP.XCHG
        if not _holds_bf16(stock, val) or rmw_op == exchange:
            return stock_rmw(self, rmw_op, ptr, val, mask, sem, scope)
        if rmw_op != stock._ir.ATOMIC_OP.FADD:
            raise InterpreterUnsupported(f"atomic {rmw_op} on bfloat16 is not repaired: use a GPU")
        # One lane after the other, since two lanes may add to one element.
        old = np.zeros(val.data.shape, dtype=np.uint16)
        addresses, masks = (np.broadcast_to(h.data, val.data.shape) for h in (ptr, mask))
        for lane in zip(*np.nonzero(masks), strict=True):
            address, active = addresses[lane].reshape(1), np.ones(1, dtype=bool)
            blank = np.zeros(1, dtype=np.uint16)
            before = stock._interpreter.load(address, active, blank, blank.dtype)
            total = bf16_to_float32(before) + bf16_to_float32(val.data[lane].reshape(1))
            stock._interpreter.store(address, float32_to_bf16(total), active)
            old[lane] = before[0]
        return stock.TensorHandle(old, tl.bfloat16)

    for name in ("binary_op", "unary_op", "ternary_op"):
        elementwise(name)
    widened("create_dot")
    if hasattr(builder, "create_dot_scaled"):  # newer versions only
        refused("create_dot_scaled")
    builder.create_fma = create_fma
    builder.create_atomic_rmw = create_atomic_rmw


def repair_reductions(stock: ModuleType) -> None:
    tl, reduce_ops, scan_ops = stock.tl, stock.ReduceOps, stock.ScanOps
    stock_sum, stock_min_max = reduce_ops.sum, reduce_ops.min_max

    def tensor(values: Array, like: Any) -> Any:
        """Return a bfloat16 tensor of these values with the shape (or none) of another tensor."""
        kind = tl.block_type(tl.bfloat16, list(like.shape)) if like.type.is_block() else tl.bfloat16
        return tl.core.tensor(_narrow(stock, values), kind)

    def reduce_sum(self: Any, input: Any) -> Any:
        if input.dtype not in (tl.float16, tl.bfloat16):
            return stock_sum(self, input)
        values = _widen(stock, input.handle).data
        shape = np.empty(values.shape, dtype=bool).sum(axis=self.axis, keepdims=self.keep_dims).shape
        partial = values.ravel() if self.axis is None else np.moveaxis(values, self.axis, -1)
        round_: Callable[[Array], Array] = (
            (lambda array: array.astype(np.float16))
            if input.dtype == tl.float16
            else (lambda array: bf16_to_float32(float32_to_bf16(array)))
        )
        with np.errstate(all="ignore"):
            while partial.shape[-1] > 1:  # a power of two, as every Triton tensor
                partial = round_(partial[..., 0::2] + partial[..., 1::2])
        total = partial.reshape(shape)
        return self.to_tensor(to_bf16(total) if input.dtype == tl.bfloat16 else total, input.dtype)

    def min_max(self: Any, input: Any, val_reduce_op: Any, idx_reduce_op: Any = None) -> Any:
        source = input[0] if isinstance(input, tuple) else input
        if not _holds_bf16(stock, source.handle):
            return stock_min_max(self, input, val_reduce_op, idx_reduce_op)
        wide = _widen(stock, source.handle)
        block = tl.core.tensor(wide, tl.block_type(tl.float32, list(wide.data.shape)))
        result = stock_min_max(self, block, val_reduce_op, idx_reduce_op)
        if not val_reduce_op:
            return result
        value, *index = result if isinstance(result, tuple) else (result,)
        value = tensor(value.handle.data, value)
        return (value, *index) if index else value

    def scan(name: str, op: Callable[[Array, Array], Array]) -> None:
        stock_op = getattr(scan_ops, name)

        def repaired(self: Any, input: Any) -> Any:
            if not _holds_bf16(stock, input.handle):
                return stock_op(self, input)
            values = np.moveaxis(_widen(stock, input.handle).data, self.axis, 0).copy()
            with np.errstate(all="ignore"):
                for i in range(1, len(values)):
                    values[i] = bf16_to_float32(float32_to_bf16(op(values[i - 1], values[i])))
            return [tensor(np.moveaxis(values, 0, self.axis), input)]

        setattr(scan_ops, name, repaired)

    reduce_ops.sum = reduce_sum
    reduce_ops.min_max = min_max
    scan("cumsum", np.add)
    scan("cumprod", np.multiply)
