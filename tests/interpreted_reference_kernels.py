"""The reference kernels in Triton's interpreter. test_reference_kernels.py runs this file in a process
of its own, since Triton decides at its first import whether kernels are interpreted.
"""

from __future__ import annotations

import os

os.environ["TRITON_INTERPRET"] = "1"

import pytest
import torch

from conformance.processes import interpreter
from reference_kernels import fused_add_rms_norm, fused_add_rms_norm_, launch, rms_norm

interpreter.repair()

WIDTHS = (1, 2, 3, 7, 33, 64, 257, 1000, 4097, 8193)
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
FRACTION_BITS = {torch.float32: 23, torch.float16: 10, torch.bfloat16: 7}
LOWEST_EXPONENT = {torch.float32: -126, torch.float16: -14, torch.bfloat16: -126}
CANARY = -77.0


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def formula(total: torch.Tensor, weight: torch.Tensor | None, eps: float = 1e-6):
    """Return (y, rrms) in float64, from the exact sum."""
    total = total.double()
    rrms = 1 / torch.sqrt(total.pow(2).mean(-1, keepdim=True) + eps)
    y = total * rrms
    return (y if weight is None else y * weight.double()), rrms.reshape(-1)


def assert_rounded_once(actual: torch.Tensor, expected: torch.Tensor) -> None:
    """Half an ulp of the output dtype, and a few roundings of float32 before it."""
    exponent = torch.frexp(expected)[1] - 1
    exponent = exponent.clamp(min=LOWEST_EXPONENT[actual.dtype]) - FRACTION_BITS[actual.dtype]
    half_ulp = torch.exp2(exponent.double() - 1)
    error = (actual.double() - expected).abs()
    assert error.numel() > 0
    assert (error <= half_ulp + 2.0**-21 * expected.abs()).all()


@pytest.fixture(params=["as configured", "one_tile", "looped", "tiled"])
def kernel(request, monkeypatch) -> str:
    """Run the test as configured, and with each kernel forced (looped: 64 columns a step)."""
    caps = {"one_tile": (0, 2**20), "looped": (0, 0), "tiled": (2**20, 2**20)}
    if request.param in caps:
        tiled_cap, one_tile_cap = caps[request.param]
        monkeypatch.setattr(launch, "_TILED_CAP", tiled_cap)
        monkeypatch.setattr(launch, "_ONE_TILE_CAP", one_tile_cap)
        monkeypatch.setattr(launch, "_LOOP_BLOCK_SIZE", 64)
        monkeypatch.setattr(launch, "_TILE_ELEMENTS", 8192)
        monkeypatch.setattr(launch, "_MOST_TILE_ROWS", 4)
        assert launch.configure(1000).kernel == request.param
    return request.param


# --- values ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("hidden_size", WIDTHS)
def test_values(hidden_size, dtype):
    x, residual = (normal(5, hidden_size, seed=seed, dtype=dtype) for seed in (1, 2))
    weight = normal(hidden_size, seed=3, dtype=dtype)
    y, rrms = rms_norm(x, weight, 1e-5, return_rrms=True)
    expected, expected_rrms = formula(x, weight, 1e-5)
    assert_rounded_once(y, expected)
    assert rrms.dtype == torch.float32
    assert rrms.shape == (5,)
    assert (rrms.double() / expected_rrms - 1).abs().max() < 2.0**-21

    y, residual_out, rrms = fused_add_rms_norm(x, residual, weight, return_rrms=True)
    expected, expected_rrms = formula(x.float() + residual.float(), weight)
    assert_rounded_once(y, expected)
    assert (rrms.double() / expected_rrms - 1).abs().max() < 2.0**-21
    assert torch.equal(residual_out, (x.float() + residual.float()).to(dtype))


@pytest.mark.parametrize("hidden_size", [1, 63, 64, 65, 257])
def test_every_kernel(kernel, hidden_size):
    x, residual = (normal(7, hidden_size, seed=seed, dtype=torch.float16) for seed in (1, 2))
    weight = normal(hidden_size, seed=3)
    y, rrms = rms_norm(x, weight, return_rrms=True)
    expected, expected_rrms = formula(x, weight)
    assert_rounded_once(y, expected)
    assert (rrms.double() / expected_rrms - 1).abs().max() < 2.0**-21
    y, residual_out, rrms = fused_add_rms_norm(x, residual, weight, return_rrms=True)
    expected, expected_rrms = formula(x.float() + residual.float(), weight)
    assert_rounded_once(y, expected)
    assert (rrms.double() / expected_rrms - 1).abs().max() < 2.0**-21
    assert torch.equal(residual_out, (x.float() + residual.float()).half())


def test_rrms_is_the_number_the_row_was_multiplied_with(kernel):
    x = normal(5, 257)
    y, rrms = rms_norm(x, return_rrms=True)
    assert torch.equal(y, x * rrms[:, None])


def test_the_exact_sum_is_normalised(kernel):
    x, residual = (normal(3, 200, seed=seed, dtype=torch.float16) for seed in (1, 2))
    weight = normal(200, seed=3)
    y, residual_out = fused_add_rms_norm(x, residual, weight)
    exact, _ = formula(x.float() + residual.float(), weight)
    rounded, _ = formula(residual_out, weight)
    assert not torch.equal(exact.half(), rounded.half())
    assert_rounded_once(y, exact)
    fused_add_rms_norm_(x, residual, weight)
    assert torch.equal(x, y)
    assert torch.equal(residual, residual_out)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_large_tiny_and_zero_rows(kernel, dtype):
    scale = {torch.float32: 1e18, torch.float16: 3e4, torch.bfloat16: 1e18}[dtype]
    x = normal(4, 130).clamp(-2, 2)
    x[0] *= scale
    x[1] *= 1e-7
    x[2] = 0
    x = x.to(dtype)
    y, rrms = rms_norm(x, return_rrms=True)
    assert_rounded_once(y, formula(x, None)[0])
    assert torch.equal(y[2], torch.zeros_like(y[2]))
    assert rrms[2] == pytest.approx(1e3, rel=1e-6)


def test_nonfinite_rows_stay_to_themselves(kernel):
    x = normal(6, 100)
    clean = rms_norm(x)
    x[1, 50], x[4, 99] = float("nan"), float("inf")
    y = rms_norm(x)
    assert y[1].isnan().all()
    assert y[4, 99].isnan()
    assert (y[4, :99] == 0).all()
    for row in (0, 2, 3, 5):
        assert torch.equal(y[row], clean[row])


def test_weight_has_its_own_dtype_or_is_absent(kernel):
    x = normal(5, 100, dtype=torch.bfloat16)
    weight = normal(100, seed=3)
    weight[::7] = 0
    assert_rounded_once(rms_norm(x, weight), formula(x, weight)[0])
    assert_rounded_once(rms_norm(x), formula(x, None)[0])
    residual = normal(5, 100, seed=2, dtype=torch.bfloat16)
    y, _ = fused_add_rms_norm(x, residual, None)
    assert_rounded_once(y, formula(x.float() + residual.float(), None)[0])


def test_float32_residual_stream_beside_16_bit_x(kernel):
    x, residual = normal(5, 100, dtype=torch.bfloat16), normal(5, 100, seed=2)
    total = x.float() + residual
    y, residual_out = fused_add_rms_norm(x, residual, None)
    assert torch.equal(residual_out, total)
    assert y.dtype == torch.bfloat16
    assert_rounded_once(y, formula(total, None)[0])
    fused_add_rms_norm_(x, residual, None)
    assert torch.equal(residual, total)
    assert torch.equal(x, y)


def test_a_row_has_the_same_bits_in_every_batch(kernel):
    x = normal(9, 257)
    assert torch.equal(rms_norm(x)[3:4], rms_norm(x[3:4]))
    together = fused_add_rms_norm(x, x, None)
    for whole, alone in zip(together, fused_add_rms_norm(x[:2], x[:2], None), strict=True):
        assert torch.equal(whole[:2], alone)


# --- layouts -----------------------------------------------------------------------------------------


def layouts(hidden_size: int, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Views with one row stride each, all of 6 rows."""
    padded = normal(6, hidden_size + 13, dtype=dtype)
    return {
        "row_slice": padded[:, :hidden_size],
        "column_offset": padded[:, 1 : hidden_size + 1],
        "odd_base": normal(6 * hidden_size + 1, dtype=dtype)[1:].view(6, hidden_size),
        "every_second_row": normal(12, hidden_size, dtype=dtype)[::2],
        "rank_3": padded.view(2, 3, -1)[..., :hidden_size],
        "rank_4": padded.view(1, 2, 3, -1)[..., :hidden_size],
    }


@pytest.mark.parametrize("hidden_size", [33, 600])
@pytest.mark.parametrize("name", list(layouts(1, torch.float32)))
def test_layouts(name, hidden_size):
    x = layouts(hidden_size, torch.float16)[name]
    plain = x.contiguous()
    weight, residual = normal(hidden_size), normal(*x.shape, seed=2, dtype=torch.float16)
    y = rms_norm(x, weight)
    assert y.shape == x.shape
    assert y.is_contiguous()
    assert torch.equal(y, rms_norm(plain, weight))
    expected = fused_add_rms_norm(plain, residual, weight)
    for strided_x, strided_residual in ((x, residual), (residual, x)):
        for actual, one in zip(
            fused_add_rms_norm(strided_x, strided_residual, weight), expected, strict=True
        ):
            assert torch.equal(actual, one)


@pytest.mark.parametrize("hidden_size", [33, 600])
@pytest.mark.parametrize("name", list(layouts(1, torch.float32)))
def test_in_place_writes_the_callers_storage_and_nothing_else(name, hidden_size):
    x, residual = (layouts(hidden_size, torch.float16)[name] for _ in "xr")
    weight = normal(hidden_size)
    y, residual_out = fused_add_rms_norm(x, residual, weight)
    x_all, residual_all = (storage_of(tensor) for tensor in (x, residual))
    x_after, residual_after = x_all.clone(), residual_all.clone()
    for after, tensor, value in ((x_after, x, y), (residual_after, residual, residual_out)):
        after.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset()).copy_(value)
    assert fused_add_rms_norm_(x, residual, weight) is None
    assert torch.equal(x_all, x_after)
    assert torch.equal(residual_all, residual_after)


def storage_of(tensor: torch.Tensor) -> torch.Tensor:
    """Everything behind a view, gaps and all, as one 1-D tensor."""
    return tensor.as_strided((tensor.untyped_storage().nbytes() // tensor.element_size(),), (1,), 0)


def test_in_place_with_every_kernel(kernel):
    buffer = torch.full((6, 2 * 200 + 9), CANARY, dtype=torch.bfloat16)
    x, residual = buffer[:, 2:202], buffer[:, 203:403]  # interleaved rows, not one element shared
    x.copy_(normal(6, 200, seed=1))
    residual.copy_(normal(6, 200, seed=2))
    expected = fused_add_rms_norm(x, residual, normal(200))
    fused_add_rms_norm_(x, residual, normal(200))
    assert torch.equal(x, expected[0])
    assert torch.equal(residual, expected[1])
    gaps = torch.cat([buffer[:, :2], buffer[:, 202:203], buffer[:, 403:]], dim=1)
    assert (gaps == CANARY).all()


def test_expanded_rows_and_no_single_row_stride():
    weight = normal(40)
    expanded = normal(1, 40).expand(5, 40)
    assert torch.equal(rms_norm(expanded, weight), rms_norm(expanded.clone(), weight))
    permuted = normal(3, 4, 40).transpose(0, 1)
    residual = normal(4, 3, 40, seed=2)
    assert torch.equal(rms_norm(permuted, weight), rms_norm(permuted.contiguous(), weight))
    y, residual_out = fused_add_rms_norm(permuted, residual, weight)
    assert torch.equal(residual_out, permuted + residual)
    assert torch.equal(y, fused_add_rms_norm(permuted.contiguous(), residual, weight)[0])


def test_rank_1():
    x = normal(40)
    y, rrms = rms_norm(x, return_rrms=True)
    assert y.shape == (40,)
    assert rrms.shape == (1,)
    assert torch.equal(y, rms_norm(x[None])[0])
    residual = x.clone()
    fused_add_rms_norm_(x, residual, None)
    assert torch.equal(residual, 2 * normal(40))


@pytest.mark.parametrize("shape", [(0, 40), (2, 0, 40), (0, 9000)])
def test_no_rows(shape):
    x = torch.empty(shape, dtype=torch.float16)
    weight = torch.ones(shape[-1])
    y, rrms = rms_norm(x, weight, return_rrms=True)
    assert y.shape == x.shape
    assert rrms.shape == (0,)
    y, residual_out = fused_add_rms_norm(x, x.clone(), weight)
    assert y.shape == residual_out.shape == x.shape
    assert fused_add_rms_norm_(x, x.clone(), weight) is None


def test_inputs_are_left_alone(kernel):
    x, residual, weight = normal(5, 70), normal(5, 70, seed=2), normal(70, seed=3)
    before = [tensor.clone() for tensor in (x, residual, weight)]
    rms_norm(x, weight)
    fused_add_rms_norm(x, residual, weight)
    for tensor, copy in zip((x, residual, weight), before, strict=True):
        assert torch.equal(tensor, copy)


# --- refusals ----------------------------------------------------------------------------------------

GOOD = {"x": normal(4, 8), "residual": normal(4, 8), "weight": normal(8), "eps": 1e-6}
STEP = normal(4, 16)[:, ::2]
BAD = [
    ("x", normal(4, 8).tolist(), TypeError, "x is a list, but should be a torch.Tensor"),
    ("x", normal(4, 8).double(), TypeError, "x.dtype=torch.float64, but should be one of"),
    ("x", torch.ones(4, 8, dtype=torch.int32), TypeError, "x.dtype=torch.int32"),
    ("x", torch.tensor(1.0), ValueError, "x.dim.*=0, but should be 1 or more"),
    ("x", torch.empty(4, 0), ValueError, "hidden_size 0"),
    ("x", STEP, ValueError, r"x.stride\(-1\)=2, but should be 1.*contiguous"),
    ("x", normal(8, 4).t(), ValueError, r"x.stride\(-1\)=4, but should be 1"),
    ("x", torch.empty(4, 8, device="meta"), ValueError, "device"),
    ("residual", None, TypeError, "residual is a NoneType"),
    ("residual", normal(1, 8), ValueError, r"residual.shape=\(1, 8\), but should be x.shape"),
    ("residual", normal(32), ValueError, "residual.shape"),
    ("residual", normal(4, 8).half(), TypeError, "residual.dtype=torch.float16, but should be"),
    ("residual", STEP, ValueError, r"residual.stride\(-1\)=2"),
    ("residual", torch.empty(4, 8, device="meta"), ValueError, "residual.device=meta"),
    ("weight", normal(4), ValueError, r"weight.shape=\(4,\), but should be \(8,\)"),
    ("weight", normal(1, 8), ValueError, r"weight.shape=\(1, 8\)"),
    ("weight", normal(1), ValueError, r"weight.shape=\(1,\)"),
    ("weight", normal(16)[::2], ValueError, r"weight.stride\(-1\)=2"),
    ("weight", torch.ones(8, dtype=torch.int64), TypeError, "weight.dtype=torch.int64"),
    ("weight", torch.empty(8, device="meta"), ValueError, "weight.device=meta"),
    ("weight", 1.0, TypeError, "weight is a float"),
    ("eps", 0.0, ValueError, "eps=0.0, but should be greater than 0"),
    ("eps", -1e-6, ValueError, "eps=-1e-06, but should be greater than 0"),
    ("eps", 1e-60, ValueError, "eps=1e-60, but should be greater than 0 in float32"),
    ("eps", float("nan"), ValueError, "eps=nan"),
    ("eps", float("inf"), ValueError, "eps=inf"),
    ("eps", "1e-6", TypeError, "eps='1e-6' is a str, but should be a float"),
    ("eps", None, TypeError, "eps=None"),
    ("eps", torch.tensor(1e-6), TypeError, "eps=.* is a Tensor"),
]


@pytest.mark.parametrize(("name", "value", "error", "message"), BAD)
def test_refusals(name, value, error, message):
    arguments = {**GOOD, name: value}
    before = {key: t.clone() for key, t in GOOD.items() if isinstance(t, torch.Tensor)}
    for function in (fused_add_rms_norm, fused_add_rms_norm_):
        with pytest.raises(error, match=message):
            function(**arguments)
    if name != "residual":
        del arguments["residual"]
        with pytest.raises(error, match=message):
            rms_norm(**arguments)
    for key, tensor in before.items():
        assert torch.equal(GOOD[key], tensor)


def overlapping() -> list[tuple[str, torch.Tensor, torch.Tensor, torch.Tensor | None, str]]:
    buffer = normal(200)
    wide = normal(4, 20)
    return [
        ("expanded x", normal(1, 8).expand(4, 8), normal(4, 8), None, "rows share memory"),
        ("expanded residual", normal(4, 8), normal(1, 8).expand(4, 8), None, "rows share memory"),
        ("sliding rows", buffer.as_strided((4, 8), (5, 1)), normal(4, 8), None, "share memory"),
        ("permuted x", normal(2, 4, 8).transpose(0, 1), normal(4, 2, 8), None, "no single row"),
        ("permuted residual", normal(4, 2, 8), normal(2, 4, 8).transpose(0, 1), None, "no single"),
        ("the same tensor", wide, wide, None, "x and residual overlap"),
        ("columns in common", wide[:, :12], wide[:, 8:], None, "x and residual overlap"),
        ("one row further", buffer[:32].view(4, 8), buffer[8:40].view(4, 8), None, "overlap"),
        ("weight in x", buffer[:32].view(4, 8), normal(4, 8), buffer[8:16], "x and weight overlap"),
        ("weight in residual", normal(4, 8), wide[:, :8], wide[0, 4:12], "residual and weight"),
    ]


@pytest.mark.parametrize("case", overlapping(), ids=lambda case: case[0])
def test_in_place_refuses_what_it_could_not_write(case):
    _, x, residual, weight, message = case
    before = storage_of(x).clone(), storage_of(residual).clone()
    with pytest.raises(ValueError, match=message):
        fused_add_rms_norm_(x, residual, weight)
    assert torch.equal(storage_of(x), before[0])
    assert torch.equal(storage_of(residual), before[1])
    total = x + residual
    y, residual_out = fused_add_rms_norm(x, residual, weight)  # functional: all of these are fine
    assert torch.equal(residual_out, total)
    assert_rounded_once(y, formula(total, weight)[0])


# --- launch configuration ----------------------------------------------------------------------------


@pytest.mark.parametrize("wave_size", [32, 64])
def test_configuration(wave_size):
    for hidden_size in [*range(1, 1100), 2048, 4096, 4097, 5120, 8192, 16384, 16385, 65536, 262144]:
        how = launch.configure(hidden_size, wave_size)
        assert how.block_size & (how.block_size - 1) == 0
        assert how.tile_rows & (how.tile_rows - 1) == 0
        if how.kernel == "looped":
            assert hidden_size > launch._ONE_TILE_CAP
        else:  # the smallest power of two that holds the row
            assert hidden_size <= how.block_size < 2 * hidden_size
        assert how.num_warps & (how.num_warps - 1) == 0
        assert how.num_warps * wave_size <= 1024
        assert wave_size == 32 or how.num_warps in (4, 8)
        assert how.block_size * how.tile_rows >= how.num_warps * wave_size
        assert launch.configure(hidden_size, wave_size) == how
