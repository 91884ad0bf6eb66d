"""A script: TRITON_INTERPRET=1 python interpreted_operations.py stock|repaired IN.npz OUT.npz

Applies each operation of this file to the arrays of IN and writes what came out, bit for bit, to
OUT. An operation that raises is left out of OUT. It is a file of its own because Triton decides at its
first import whether a kernel is interpreted, and because the stock and the repaired interpreter need
two processes.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
import triton
import triton.language as tl

BLOCK = 4096


@triton.jit
def _cast_kernel(x_ptr, y_ptr, n, ROUNDING: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    y = x.to(y_ptr.dtype.element_ty, fp_downcast_rounding=ROUNDING)
    tl.store(y_ptr + at, y, mask=at < n)


@triton.jit
def _arithmetic_kernel(a_ptr, b_ptr, c_ptr, y_ptr, n, OP: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(a_ptr + at, mask=at < n)
    b = tl.load(b_ptr + at, mask=at < n)
    if OP == "add":
        y = a + b
    elif OP == "subtract":
        y = a - b
    elif OP == "multiply":
        y = a * b
    elif OP == "divide":
        y = a / b
    elif OP == "less":
        y = a < b
    elif OP == "equal":
        y = a == b
    elif OP == "where":
        y = tl.where(a < b, a, b)
    elif OP == "absolute":
        y = tl.abs(a)
    elif OP == "times_two":
        y = a * 2.0
    else:
        y = tl.fma(a, b, tl.load(c_ptr + at, mask=at < n))
    tl.store(y_ptr + at, y, mask=at < n)


@triton.jit
def _add_in_order(a, b):
    return a + b


@triton.jit
def _reduce_kernel(x_ptr, y_ptr, n, OP: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x = tl.load(x_ptr + row * BLOCK + tl.arange(0, BLOCK))
    # The reductions themselves: in some versions tl.max and tl.cumsum widen bfloat16 first.
    if OP == "sum":
        y = tl.sum(x, axis=0)
    elif OP == "max":
        y = tl.reduce(x, 0, tl.standard._elementwise_max)
    elif OP == "min":
        y = tl.reduce(x, 0, tl.standard._elementwise_min)
    else:
        y = tl.reduce(x, 0, _add_in_order)
    tl.store(y_ptr + row, y)


@triton.jit
def _cumsum_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    tl.store(y_ptr + at, tl.associative_scan(x, 0, tl.standard._sum_combine))


@triton.jit
def _atomic_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.atomic_add(y_ptr + at * 0, tl.load(x_ptr + at))


@triton.jit
def _full_kernel(y_ptr, BLOCK: tl.constexpr):
    tl.store(y_ptr + tl.arange(0, BLOCK), tl.full([BLOCK], 0.3, dtype=tl.bfloat16))


@triton.jit
def _dot_kernel(a_ptr, b_ptr, y_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    tl.store(y_ptr + at, tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at)))


def tensor_of(bits: np.ndarray) -> torch.Tensor:
    """Floats stay; unsigned 16-bit integers are bfloat16 bit patterns."""
    if bits.dtype == np.uint16:
        return torch.from_numpy(bits.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(bits.copy())


def bits_of(tensor: torch.Tensor) -> np.ndarray:
    """The other way round."""
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(np.uint16)
    return tensor.numpy()


def cast(x: np.ndarray, dtype: torch.dtype, rounding: str | None = None) -> torch.Tensor:
    source = tensor_of(x)
    y = torch.zeros(source.shape, dtype=dtype)
    _cast_kernel[(triton.cdiv(len(x), BLOCK),)](source, y, len(x), ROUNDING=rounding, BLOCK=BLOCK)
    return y


def arithmetic(given, op: str, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    a, b, c = (tensor_of(given[name]) for name in "abc")
    y = torch.zeros(a.shape, dtype=dtype)
    _arithmetic_kernel[(triton.cdiv(len(a), BLOCK),)](a, b, c, y, len(a), OP=op, BLOCK=BLOCK)
    return y


def reduce(x: np.ndarray, op: str) -> torch.Tensor:
    source = tensor_of(x)
    y = torch.zeros(source.shape[0], dtype=source.dtype)
    _reduce_kernel[(source.shape[0],)](source, y, source.shape[0], OP=op, BLOCK=source.shape[1])
    return y


def operations(given):
    """Yield (name, function of nothing giving the output)."""
    bf16 = torch.bfloat16
    yield "upcast", lambda: cast(given["all_bf16"], torch.float32)
    yield "to_float16", lambda: cast(given["all_bf16"], torch.float16)
    yield "to_int32", lambda: cast(given["whole_bf16"], torch.int32)
    yield "downcast", lambda: cast(given["float32"], bf16)
    yield "truncated", lambda: cast(given["float32"], bf16, "rtz")
    yield "float16_truncated", lambda: cast(given["float32"], torch.float16, "rtz")
    for name in ("float64", "float16", "int32", "int64"):
        yield f"from_{name}", lambda name=name: cast(given[name], bf16)
    for op in ("add", "subtract", "multiply", "divide", "where", "absolute", "times_two", "fma"):
        yield op, lambda op=op: arithmetic(given, op)
    for op in ("less", "equal"):
        yield op, lambda op=op: arithmetic(given, op, torch.int8)
    for op in ("sum", "max", "min"):
        yield f"{op}_bf16", lambda op=op: reduce(given["rows_bf16"], op)
    yield "sum_in_order", lambda: reduce(given["rows_bf16"][:4], "in order")
    yield "sum_float16", lambda: reduce(given["rows_float16"], "sum")
    yield "cumsum", lambda: cumsum(given["rows_bf16"])
    yield "atomic_add", lambda: atomic_add(given["rows_bf16"][0])
    yield "full", full
    yield "dot", lambda: dot(given["rows_bf16"][:2, :256])


def cumsum(x: np.ndarray) -> torch.Tensor:
    source = tensor_of(x)
    y = torch.zeros_like(source)
    _cumsum_kernel[(source.shape[0],)](source, y, BLOCK=source.shape[1])
    return y


def atomic_add(x: np.ndarray) -> torch.Tensor:
    y = torch.zeros(1, dtype=torch.bfloat16)
    _atomic_kernel[(1,)](tensor_of(x), y, BLOCK=len(x))
    return y


def full() -> torch.Tensor:
    y = torch.zeros(16, dtype=torch.bfloat16)
    _full_kernel[(1,)](y, BLOCK=16)
    return y


def dot(x: np.ndarray) -> torch.Tensor:
    a, b = (tensor_of(row.reshape(16, 16)) for row in x)
    y = torch.zeros((16, 16), dtype=torch.float32)
    _dot_kernel[(1,)](a, b, y, BLOCK=16)
    return y


def main(kind: str, given_path: str, out_path: str) -> None:
    if kind == "repaired":
        sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
        from conformance.processes import interpreter

        assert interpreter.needs_repair()
        assert interpreter.repair()
        assert interpreter.repair()  # twice is the same as once
        assert not interpreter.needs_repair()
    given = np.load(given_path)
    out = {}
    for name, operation in operations(given):
        try:
            out[name] = bits_of(operation())
        except Exception as error:  # the stock interpreter raises on some of these
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
    np.savez(out_path, **out)


if __name__ == "__main__":
    main(*sys.argv[1:])
