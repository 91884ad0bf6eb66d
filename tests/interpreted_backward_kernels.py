"""The backward kernels in Triton's interpreter: numbers, layouts, refusals of the explicit backward calls.

test_reference_kernels.py runs this file in a process of its own, since Triton decides at its first import
whether kernels are interpreted.
"""

from __future__ import annotations

import os

os.environ["TRITON_INTERPRET"] = "1"

import pytest
import torch
from gradient_numbers import assert_near, gradients

from conformance.processes import interpreter
from reference_kernels import (
    fused_add_rms_norm,
    fused_add_rms_norm_backward,
    launch_backward,
    rms_norm,
    rms_norm_backward,
)

interpreter.repair()

SHAPES = ((1, 1), (5, 33), (257, 64), (2, 600), (3, 4097), (4, 9000), (2, 40999))
KINDS = ("tiled", "tiled", "tiled", "one_tile", "one_tile", "halved", "columns")
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
CPU = torch.device("cpu")


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def rrms_of(total: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    """What a forward would have saved."""
    return torch.rsqrt(total.double().pow(2).mean(-1) + eps).float().reshape(-1)


@pytest.fixture(params=["one_tile", "halved", "columns", "tiled"])
def kernel(request, monkeypatch) -> str:
    """Force each kernel for every width (columns and the projection: 64 columns a step)."""
    caps = {"one_tile": (0, 2**20, 0), "halved": (0, 1, 2**20), "columns": (0, 0, 0), "tiled": (2**20, 0, 0)}
    for name, cap in zip(("_TILED_CAP", "_ONE_TILE_CAP", "_HALVED_CAP"), caps[request.param], strict=True):
        monkeypatch.setattr(launch_backward, name, cap)
    monkeypatch.setattr(launch_backward, "_COLUMNS_BLOCK_SIZE", 64)
    monkeypatch.setattr(launch_backward, "_PROJECTION_BLOCK_SIZE", 64)
    monkeypatch.setattr(launch_backward, "_TILE_ELEMENTS", 4096)
    monkeypatch.setattr(launch_backward, "_MOST_TILE_ROWS", 4)
    assert launch_backward.configure(1000, 4, CPU).kernel == request.param
    return request.param


# --- values ------------------------------------------------------------------------------------------


def test_the_formula_is_the_derivative():
    x, residual, weight = (normal(*s, seed=i).double() for i, s in enumerate([(3, 7), (3, 7), (7,)]))
    dy, dresidual_out = (normal(3, 7, seed=seed).double() for seed in (4, 5))
    for tensor in (x, residual, weight):
        tensor.requires_grad_()
    total = x + residual
    y = total * torch.rsqrt(total.pow(2).mean(-1, keepdim=True) + 1e-3) * weight
    dx, dresidual, dweight = torch.autograd.grad((y, total), (x, residual, weight), (dy, dresidual_out))
    with torch.no_grad():
        rrms = torch.rsqrt(total.pow(2).mean(-1) + 1e-3)
        expected = gradients(dy, total, weight, rrms, dresidual_out)
    torch.testing.assert_close(dx, expected.ds, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(dresidual, expected.ds, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(dweight, expected.dweight, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("shape", "kind"), list(zip(SHAPES, KINDS, strict=True)), ids=str)
def test_values(shape, kind, dtype):
    assert launch_backward.configure(shape[1], 4, CPU).kernel == kind
    x, dy, dresidual_out = (normal(*shape, seed=seed, dtype=dtype) for seed in (1, 2, 3))
    weight, rrms = normal(shape[1], seed=4), rrms_of(x)
    weight[::5] = 0
    dx, dweight = rms_norm_backward(dy, x, weight, rrms)
    expected = gradients(dy, x, weight, rrms)
    assert_near(dx, expected.ds, expected.ds_terms)
    assert_near(dweight, expected.dweight, expected.dweight_terms)

    dx, dresidual, fused_dweight = fused_add_rms_norm_backward(dy, dresidual_out, x, weight, rrms)
    expected = gradients(dy, x, weight, rrms, dresidual_out)
    assert_near(dx, expected.ds, expected.ds_terms)
    assert dresidual is dx
    assert torch.equal(fused_dweight, dweight)


@pytest.mark.parametrize("hidden_size", [1, 2, 63, 64, 65, 257])
def test_every_kernel(kernel, hidden_size):
    x, dy, dresidual_out = (normal(19, hidden_size, seed=seed, dtype=torch.float16) for seed in (1, 2, 3))
    weight, rrms = normal(hidden_size, seed=4), rrms_of(x)
    for stream in (None, dresidual_out):
        dx, _, dweight = fused_add_rms_norm_backward(dy, stream, x, weight, rrms)
        expected = gradients(dy, x, weight, rrms, stream)
        assert_near(dx, expected.ds, expected.ds_terms)
        assert_near(dweight, expected.dweight, expected.dweight_terms)
    dx, dweight = rms_norm_backward(dy, x, None, rrms)
    assert_near(dx, *gradients(dy, x, None, rrms)[:2])
    assert dweight is None


def test_the_rrms_that_is_passed_is_the_one_used(kernel):
    x, dy, weight = normal(5, 130, seed=1), normal(5, 130, seed=2), normal(130, seed=3)
    rrms = 2 * rrms_of(x)
    dx, dweight = rms_norm_backward(dy, x, weight, rrms)
    expected = gradients(dy, x, weight, rrms)
    assert_near(dx, expected.ds, expected.ds_terms)
    assert_near(dweight, expected.dweight, expected.dweight_terms)


def test_float32_residual_stream_beside_16_bit_x(kernel):
    dy, residual_out, dresidual_out = normal(5, 100, dtype=torch.bfloat16), normal(5, 100), normal(5, 100)
    weight, rrms = normal(100, seed=3, dtype=torch.bfloat16), rrms_of(residual_out)
    dx, dresidual, dweight = fused_add_rms_norm_backward(dy, dresidual_out, residual_out, weight, rrms)
    expected = gradients(dy, residual_out, weight, rrms, dresidual_out)
    assert (dx.dtype, dresidual.dtype, dweight.dtype) == (torch.bfloat16, torch.float32, torch.bfloat16)
    assert_near(dresidual, expected.ds, expected.ds_terms)
    assert torch.equal(dx, dresidual.bfloat16())
    assert_near(dweight, expected.dweight, expected.dweight_terms)
    for needs_dx, needs_dresidual in ((True, False), (False, True), (False, False)):
        found = fused_add_rms_norm_backward(
            dy, dresidual_out, residual_out, weight, rrms, needs_dx=needs_dx, needs_dresidual=needs_dresidual
        )
        for one, right, needed in zip(found, (dx, dresidual), (needs_dx, needs_dresidual), strict=False):
            assert torch.equal(one, right) if needed else one is None
        assert torch.equal(found[2], dweight)


def test_only_what_is_needed(kernel):
    x, dy, weight = normal(5, 100, seed=1), normal(5, 100, seed=2), normal(100, seed=3)
    rrms = rrms_of(x)
    dx, dweight = rms_norm_backward(dy, x, weight, rrms)
    only_dx = rms_norm_backward(dy, x, weight, rrms, needs_dweight=False)
    only_dweight = rms_norm_backward(dy, x, weight, rrms, needs_dx=False)
    assert torch.equal(only_dx[0], dx)
    assert torch.equal(only_dweight[1], dweight)
    assert only_dx[1] is only_dweight[0] is None
    assert rms_norm_backward(dy, x, weight, rrms, needs_dx=False, needs_dweight=False) == (None, None)


def test_nonfinite_rows_stay_to_themselves(kernel):
    x, dy, weight = normal(6, 100, seed=1), normal(6, 100, seed=2), normal(100, seed=3)
    clean, _ = rms_norm_backward(dy, x, weight, rrms_of(x))
    x[1, 50], dy[4, 99] = float("nan"), float("nan")
    dx, dweight = rms_norm_backward(dy, x, weight, rrms_of(x))
    assert dx[[1, 4]].isnan().all()
    assert torch.equal(dx[[0, 2, 3, 5]], clean[[0, 2, 3, 5]])
    assert dweight.isnan().all()


def test_large_tiny_and_zero_rows(kernel):
    x, dy, weight = normal(5, 130, seed=1).clamp(-2, 2), normal(5, 130, seed=2), normal(130, seed=3)
    x[0] *= 1e18
    x[1] *= 1e-7
    x[2] = 0
    dy[3] *= 1e30
    rrms = rrms_of(x)
    dx, dweight = rms_norm_backward(dy, x, weight, rrms)
    expected = gradients(dy, x, weight, rrms)
    assert_near(dx, expected.ds, expected.ds_terms)
    assert_near(dweight, expected.dweight, expected.dweight_terms)


def test_the_same_bits_in_every_run_and_dx_in_every_batch(kernel):
    x, dy, weight = normal(40, 257, seed=1), normal(40, 257, seed=2), normal(257, seed=3)
    rrms = rrms_of(x)
    first, second = (rms_norm_backward(dy, x, weight, rrms) for _ in "ab")
    for one, other in zip(first, second, strict=True):
        assert torch.equal(one, other)
    alone, _ = rms_norm_backward(dy[7:8], x[7:8], weight, rrms[7:8])
    assert torch.equal(alone, first[0][7:8])


# --- layouts -----------------------------------------------------------------------------------------


def layouts(hidden_size: int) -> dict[str, torch.Tensor]:
    """Gradients of shape (2, 3, hidden_size) in every memory order."""
    padded = normal(2, 3, hidden_size + 13, seed=5)
    return {
        "row_slice": padded[..., :hidden_size],
        "column_offset": padded[..., 1 : hidden_size + 1],
        "every_second_row": normal(2, 6, hidden_size, seed=5)[:, ::2],
        "column_step": normal(2, 3, 2 * hidden_size, seed=5)[..., ::2],
        "columns_first": normal(hidden_size, 2, 3, seed=5).permute(1, 2, 0),
        "permuted_rows": normal(3, 2, hidden_size, seed=5).transpose(0, 1),
        "one_row_expanded": normal(hidden_size, seed=5).expand(2, 3, hidden_size),
        "rows_expanded_in_one_dimension": normal(1, 3, hidden_size, seed=5).expand(2, 3, hidden_size),
        "one_number_expanded": normal(1, 1, 1, seed=5).expand(2, 3, hidden_size),
        "one_number_a_row": normal(2, 3, 1, seed=5).expand(2, 3, hidden_size),
    }


@pytest.mark.parametrize("hidden_size", [1, 33, 600])
@pytest.mark.parametrize("name", list(layouts(2)))
def test_layouts_of_upstream_gradients(name, hidden_size):
    gradient = layouts(hidden_size)[name]
    before, plain = gradient.clone(), gradient.contiguous().clone()
    other, x, weight = normal(2, 3, hidden_size, seed=6), normal(2, 3, hidden_size), normal(hidden_size)
    rrms = rrms_of(x)
    for strided, contiguous in (((gradient, other), (plain, other)), ((other, gradient), (other, plain))):
        found = fused_add_rms_norm_backward(*strided, x, weight, rrms)
        right = fused_add_rms_norm_backward(*contiguous, x, weight, rrms)
        for one, same in zip(found, right, strict=True):
            assert torch.equal(one, same)
    assert found[0].is_contiguous()
    assert torch.equal(gradient, before)


def test_an_expanded_row_is_not_copied(monkeypatch):
    seen = []
    run = launch_backward.count_walkers
    monkeypatch.setattr(torch.Tensor, "contiguous", lambda *_: seen.append("copied"))
    monkeypatch.setattr(launch_backward, "count_walkers", lambda *a: seen.append("ran") or run(*a))
    x = normal(4, 40)
    rms_norm_backward(normal(40).expand(4, 40), x, None, rrms_of(x))
    assert seen == ["ran"]


@pytest.mark.parametrize("name", ["row_slice", "column_offset", "every_second_row", "permuted_rows"])
def test_layouts_of_x(name, kernel):
    x = layouts(130)[name]
    dy, weight, rrms = normal(2, 3, 130, seed=6), normal(130), rrms_of(x)
    found, right = (rms_norm_backward(dy, t, weight, rrms) for t in (x, x.contiguous()))
    for one, same in zip(found, right, strict=True):
        assert torch.equal(one, same)


@pytest.mark.parametrize("shape", [(24,), (3, 24), (2, 3, 24), (2, 1, 3, 24)], ids=str)
def test_ranks(shape):
    x, dy, weight = normal(*shape), normal(*shape, seed=2), normal(24)
    _, rrms = rms_norm(x, weight, return_rrms=True)
    dx, dweight = rms_norm_backward(dy, x, weight, rrms)
    expected = gradients(dy, x, weight, rrms)
    assert_near(dx, expected.ds, expected.ds_terms)
    assert_near(dweight, expected.dweight, expected.dweight_terms)


@pytest.mark.parametrize("shape", [(0, 257), (2, 0, 40), (0, 9000), (0, 40000)], ids=str)
def test_no_rows_give_a_dweight_of_zeros(shape):
    x, weight = torch.empty(shape, dtype=torch.float16), normal(shape[-1])
    dx, dweight = rms_norm_backward(x, x, weight, torch.empty(0))
    assert dx.shape == x.shape
    assert torch.equal(dweight, torch.zeros_like(weight))
    found = fused_add_rms_norm_backward(x, x, x, weight, torch.empty(0))
    assert torch.equal(found[2], torch.zeros_like(weight))


def test_nothing_beside_the_outputs_is_written(kernel):
    x, dy, stream = (normal(5, 70, seed=seed) for seed in (1, 2, 3))
    weight, rrms = normal(70, seed=4), rrms_of(x)
    tensors = (dy, stream, x, weight, rrms)
    before = [tensor.clone() for tensor in tensors]
    fused_add_rms_norm_backward(*tensors)
    for tensor, copy in zip(tensors, before, strict=True):
        assert torch.equal(tensor, copy)


def test_one_of_two_upstream_gradients():
    x, residual = (normal(4, 50, seed=seed, dtype=torch.bfloat16) for seed in (1, 2))
    weight = normal(50)
    _, residual_out, rrms = fused_add_rms_norm(x, residual, weight, return_rrms=True)
    dy, stream = (normal(4, 50, seed=seed, dtype=torch.bfloat16) for seed in (3, 4))
    dx, dresidual, dweight = fused_add_rms_norm_backward(dy, None, residual_out, weight, rrms)
    right = rms_norm_backward(dy, residual_out, weight, rrms)
    assert dresidual is dx
    assert torch.equal(dx, right[0])
    assert torch.equal(dweight, right[1])
    dx, dresidual, dweight = fused_add_rms_norm_backward(None, stream, residual_out, weight, rrms)
    assert torch.equal(dx, stream)
    assert dresidual is stream
    assert dweight is None
    assert fused_add_rms_norm_backward(None, None, residual_out, weight, rrms) == (None, None, None)
    mixed = fused_add_rms_norm_backward(
        None, stream.float(), residual_out.float(), weight, rrms, x_dtype=torch.bfloat16
    )
    assert mixed[0].dtype == torch.bfloat16
    assert mixed[1].dtype == torch.float32


# --- refusals ----------------------------------------------------------------------------------------

GOOD = {"dy": normal(4, 8), "x": normal(4, 8), "weight": normal(8), "rrms": torch.ones(4)}
BAD = [
    ("dy", None, TypeError, "dy is a NoneType, but should be a torch.Tensor"),
    ("dy", normal(4, 9), ValueError, r"dy.shape=\(4, 9\), but should be \(4, 8\)"),
    ("dy", normal(8), ValueError, "dy.shape"),
    ("dy", normal(4, 8).half(), TypeError, "dy.dtype=torch.float16, but should be torch.float32"),
    ("dy", torch.empty(4, 8, device="meta"), ValueError, "dy.device=meta"),
    ("x", normal(4, 16)[:, ::2], ValueError, r"x.stride\(-1\)=2"),
    ("x", normal(4, 8).double(), TypeError, "x.dtype=torch.float64"),
    ("weight", normal(4), ValueError, "weight.shape"),
    ("rrms", None, TypeError, "rrms is a NoneType"),
    ("rrms", torch.ones(4).double(), TypeError, "rrms.dtype=torch.float64, but should be torch.float32"),
    ("rrms", torch.ones(4, 1), ValueError, r"rrms has shape \(4, 1\).*\(4,\)"),
    ("rrms", torch.ones(8)[::2], ValueError, r"rrms has .* strides \(2,\)"),
    ("rrms", torch.empty(4, device="meta"), ValueError, "rrms.device=meta"),
]


@pytest.mark.parametrize(("name", "value", "error", "message"), BAD)
def test_refusals(name, value, error, message):
    with pytest.raises(error, match=message):
        rms_norm_backward(**{**GOOD, name: value})


def test_refusals_of_the_fused_call():
    dy, x, weight, rrms = GOOD.values()
    call = fused_add_rms_norm_backward
    with pytest.raises(TypeError, match=r"residual_out.dtype=torch.float16 with x's dtype torch.float32"):
        call(dy, None, x.half(), weight, rrms)
    with pytest.raises(TypeError, match=r"dresidual_out.dtype=torch.float16, but should be torch.float32"):
        call(dy, dy.half(), x, weight, rrms)
    with pytest.raises(ValueError, match=r"dresidual_out.shape"):
        call(dy, dy[:2], x, weight, rrms)
    with pytest.raises(TypeError, match=r"residual_out.dtype=torch.float64"):
        call(dy, None, x.double(), weight, rrms)
    with pytest.raises(TypeError, match=r"dy.dtype=torch.float32, but should be torch.bfloat16"):
        call(dy, None, x, weight, rrms, x_dtype=torch.bfloat16)


# --- launch configuration ----------------------------------------------------------------------------


@pytest.mark.parametrize("wave_size", [32, 64])
@pytest.mark.parametrize("element_bytes", [4, 6, 8, 12])
def test_configuration(wave_size, element_bytes):
    shared = 233472 if wave_size == 32 else 65536
    for hidden_size in [*range(1, 1100), 2048, 4096, 4097, 8192, 8193, 16384, 16385, 65536, 262144]:
        how = launch_backward.choose(hidden_size, element_bytes, wave_size, shared)
        for number in (how.block_size, how.tile_rows, how.num_warps):
            assert number & (number - 1) == 0
        across = 2 if how.kernel == "halved" else 1
        if how.kernel != "columns":
            assert hidden_size <= across * how.block_size < 2 * hidden_size
        assert how.num_warps * wave_size <= 1024
        assert wave_size == 32 or how.num_warps in (4, 8)
        assert how.block_size * how.tile_rows >= how.num_warps * wave_size
        assert how.stages >= 1
        step = across * how.block_size * how.tile_rows * element_bytes
        assert how.programs * (how.stages - 1) * step < shared
        assert launch_backward.choose(hidden_size, element_bytes, wave_size, shared) == how


def test_walkers_follow_rows_and_device(kernel):
    how = launch_backward.configure(257, 4, CPU)
    most = launch_backward.count_walkers(how, 10**6, 257, CPU)
    assert most >= 1
    assert launch_backward.count_walkers(how, 1, 257, CPU) == 1
    for n_rows in range(1, 100):
        walkers = launch_backward.count_walkers(how, n_rows, 257, CPU)
        assert walkers == max(1, min(most, -(-n_rows // how.tile_rows)))
