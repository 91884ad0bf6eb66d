"""The differentiable calls in Triton's interpreter: graphs, saved tensors, torch.compile.

test_reference_kernels.py runs this file in a process of its own, since Triton decides at its first import
whether kernels are interpreted.
"""

from __future__ import annotations

import itertools
import os

os.environ["TRITON_INTERPRET"] = "1"

import pytest
import torch
from gradient_numbers import assert_near, gradients

from conformance.processes import interpreter
from reference_kernels import fused_add_rms_norm, fused_add_rms_norm_, rms_norm, rms_norm_backward

interpreter.repair()

DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def leaves(shape: tuple[int, ...], dtype: torch.dtype = torch.float32, weight_dtype=torch.float32):
    """Return x, residual and weight, all of which require grad."""
    tensors = (
        normal(*shape, seed=1, dtype=dtype),
        normal(*shape, seed=2, dtype=dtype),
        normal(shape[-1], seed=3, dtype=weight_dtype),
    )
    return [tensor.requires_grad_() for tensor in tensors]


# --- gradients ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("weight_dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(40,), (5, 33), (2, 3, 64), (2, 1, 2, 600), (2, 9000)], ids=str)
def test_gradients(shape, dtype, weight_dtype):
    x, residual, weight = leaves(shape, dtype, weight_dtype)
    dy, dresidual_out = (normal(*shape, seed=seed, dtype=dtype) for seed in (4, 5))
    y, rrms = rms_norm(x, weight, 1e-5, return_rrms=True)
    dx, dweight = torch.autograd.grad(y, (x, weight), dy)
    expected = gradients(dy, x.detach(), weight.detach(), rrms)
    assert (dx.dtype, dweight.dtype) == (dtype, weight_dtype)
    assert_near(dx, expected.ds, expected.ds_terms)
    assert_near(dweight, expected.dweight, expected.dweight_terms)

    y, residual_out, rrms = fused_add_rms_norm(x, residual, weight, 1e-5, return_rrms=True)
    for outputs, upstream in (
        ((y, residual_out), (dy, dresidual_out)),
        ((y,), (dy,)),
    ):
        dx, dresidual, dweight = torch.autograd.grad(
            outputs, (x, residual, weight), upstream, retain_graph=True
        )
        expected = gradients(dy, residual_out.detach(), weight.detach(), rrms, *upstream[1:])
        assert_near(dx, expected.ds, expected.ds_terms)
        assert torch.equal(dresidual, dx)
        assert_near(dweight, expected.dweight, expected.dweight_terms)


def test_a_residual_stream_without_its_norm():
    x, residual, weight = leaves((4, 30), torch.bfloat16)
    _, residual_out = fused_add_rms_norm(x, residual, weight)
    stream = normal(4, 30, seed=5, dtype=torch.bfloat16)
    dx, dresidual, dweight = torch.autograd.grad(
        residual_out, (x, residual, weight), stream, allow_unused=True
    )
    assert torch.equal(dx, stream)
    assert torch.equal(dresidual, stream)
    assert dweight is None


def test_mixed_residual_dtype():
    x, _, weight = leaves((4, 30), torch.bfloat16)
    residual = normal(4, 30, seed=2).requires_grad_()
    y, residual_out, rrms = fused_add_rms_norm(x, residual, weight, return_rrms=True)
    dy, stream = normal(4, 30, seed=4, dtype=torch.bfloat16), normal(4, 30, seed=5)
    dx, dresidual, _ = torch.autograd.grad((y, residual_out), (x, residual, weight), (dy, stream))
    expected = gradients(dy, residual_out.detach(), weight.detach(), rrms, stream)
    assert_near(dresidual, expected.ds, expected.ds_terms)
    assert torch.equal(dx, dresidual.bfloat16())


@pytest.mark.parametrize("wanted", list(itertools.product([False, True], repeat=3)), ids=str)
def test_every_combination_of_requires_grad(wanted):
    tensors = [tensor.detach() for tensor in leaves((5, 33))]
    x, residual, weight = (t.requires_grad_(want) for t, want in zip(tensors, wanted, strict=True))
    dy, stream = normal(5, 33, seed=4), normal(5, 33, seed=5)

    y, residual_out, rrms = fused_add_rms_norm(x, residual, weight, return_rrms=True)
    assert y.requires_grad == residual_out.requires_grad == any(wanted)
    assert not rrms.requires_grad
    if any(wanted):
        torch.autograd.backward((y, residual_out), (dy, stream))
        expected = gradients(dy, residual_out.detach(), weight.detach(), rrms, stream)
        for tensor, want, right in zip(
            tensors, wanted, (expected.ds, expected.ds, expected.dweight), strict=True
        ):
            assert (tensor.grad is not None) == want
            if want:
                torch.testing.assert_close(tensor.grad.double(), right, rtol=1e-5, atol=1e-5)
            tensor.grad = None

    y, rrms = rms_norm(x, weight, return_rrms=True)
    assert y.requires_grad == (wanted[0] or wanted[2])
    assert not rrms.requires_grad
    if y.requires_grad:
        y.backward(dy)
        assert [t.grad is not None for t in tensors] == [wanted[0], False, wanted[2]]


def test_no_weight():
    x, residual, _ = leaves((5, 33))
    (dx,) = torch.autograd.grad(rms_norm(x), x, normal(5, 33, seed=4))
    _, rrms = rms_norm(x.detach(), return_rrms=True)
    assert torch.equal(dx, rms_norm_backward(normal(5, 33, seed=4), x.detach(), None, rrms)[0])
    y, _ = fused_add_rms_norm(x, residual, None)
    dx, dresidual = torch.autograd.grad(y, (x, residual), normal(5, 33, seed=4))
    assert torch.equal(dx, dresidual)


def test_forward_gives_the_same_bits_with_and_without_a_graph():
    x, residual, weight = leaves((5, 257))
    with torch.no_grad():
        plain = (rms_norm(x, weight), *fused_add_rms_norm(x, residual, weight))
    graphed = (rms_norm(x, weight), *fused_add_rms_norm(x, residual, weight))
    for one, other in zip(graphed, plain, strict=True):
        assert one.requires_grad
        assert not other.requires_grad
        assert torch.equal(one, other)


def test_a_retained_graph_gives_the_same_gradients_twice():
    x, residual, weight = leaves((40, 257))
    outputs = fused_add_rms_norm(x, residual, weight)
    upstream = normal(40, 257, seed=4), normal(40, 257, seed=5)
    first = torch.autograd.grad(outputs, (x, residual, weight), upstream, retain_graph=True)
    second = torch.autograd.grad(outputs, (x, residual, weight), upstream)
    for one, other in zip(first, second, strict=True):
        assert torch.equal(one, other)
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(outputs, (x, residual, weight), upstream)


@pytest.mark.parametrize("upstream", ["sum", "mean of columns", "transposed"])
def test_upstream_gradients_as_operations_leave_them(upstream):
    x, _, weight = leaves((4, 6, 33))
    ends = {
        "sum": lambda y: y.sum(),
        "mean of columns": lambda y: y.mean(-1).pow(2).sum(),
        "transposed": lambda y: (y.transpose(0, 1) * normal(6, 4, 33, seed=8)).sum(),
    }
    found = torch.autograd.grad(ends[upstream](rms_norm(x, weight)), (x, weight))
    exact = [tensor.detach().double().requires_grad_() for tensor in (x, weight)]
    y = exact[0] * torch.rsqrt(exact[0].pow(2).mean(-1, keepdim=True) + 1e-6) * exact[1]
    for one, right in zip(found, torch.autograd.grad(ends[upstream](y), exact), strict=True):
        torch.testing.assert_close(one.double(), right, rtol=1e-5, atol=2e-6)


def test_no_rows():
    x, residual, weight = leaves((0, 257), torch.float16)
    (rms_norm(x, weight).sum() + fused_add_rms_norm(x, residual, weight)[0].sum()).backward()
    assert x.grad.shape == residual.grad.shape == (0, 257)
    assert torch.equal(weight.grad, torch.zeros(257))


def test_strided_x_gets_its_gradient():
    base = normal(4, 90, seed=1).requires_grad_()
    weight = normal(33).requires_grad_()
    (dbase,) = torch.autograd.grad(rms_norm(base[:, 7:40], weight), base, normal(4, 33, seed=4))
    x = base.detach()[:, 7:40].clone().requires_grad_()
    (dx,) = torch.autograd.grad(rms_norm(x, weight), x, normal(4, 33, seed=4))
    assert torch.equal(dbase[:, 7:40], dx)
    assert dbase[:, :7].abs().max() == dbase[:, 40:].abs().max() == 0


# --- graph and saved tensors -------------------------------------------------------------------------


def saved_of(call) -> list[torch.Tensor]:
    saved: list[torch.Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        call()
    return saved


def test_rrms_is_saved_as_float32_one_number_per_row():
    x, residual, weight = leaves((3, 4, 33), torch.bfloat16)
    for call in (lambda: rms_norm(x, weight), lambda: fused_add_rms_norm(x, residual, weight)):
        (rrms,) = (t for t in saved_of(call) if t.shape == (12,))
        assert rrms.dtype == torch.float32


def test_the_backward_uses_the_saved_rrms():
    x, _, weight = leaves((4, 33))
    dy = normal(4, 33, seed=4)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: 2 * t if t.shape == (4,) else t):
        dx, dweight = torch.autograd.grad(rms_norm(x, weight), (x, weight), dy)
    _, rrms = rms_norm(x.detach(), weight.detach(), return_rrms=True)
    right = rms_norm_backward(dy, x.detach(), weight.detach(), 2 * rrms)
    assert torch.equal(dx, right[0])
    assert torch.equal(dweight, right[1])


def test_what_was_saved_and_is_overwritten_is_noticed():
    x, residual, weight = leaves((4, 33))
    y, residual_out = fused_add_rms_norm(x, residual, weight)
    with torch.no_grad():
        residual_out.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@pytest.mark.parametrize("dy_requires_grad", [False, True])
def test_a_second_derivative_is_refused(dy_requires_grad):
    x, residual, weight = leaves((4, 33))
    dy = normal(4, 33, seed=4).requires_grad_(dy_requires_grad)
    for y in (rms_norm(x, weight), fused_add_rms_norm(x, residual, weight)[0]):
        once = torch.autograd.grad(y, (x, weight), dy, retain_graph=True)
        (dx, dweight) = torch.autograd.grad(y, (x, weight), dy, create_graph=True)
        assert torch.equal(dx, once[0])
        assert torch.equal(dweight, once[1])
        with pytest.raises(RuntimeError, match="differentiable once: for second derivatives use"):
            (dx.sum() + x.sum()).backward()


@pytest.mark.parametrize("which", [0, 1, 2])
def test_in_place_refuses_what_requires_grad(which):
    tensors = [tensor.detach() for tensor in leaves((4, 33))]
    tensors[which].requires_grad_()
    before = [tensor.detach().clone() for tensor in tensors]
    name = ("x", "residual", "weight")[which]
    with pytest.raises(
        ValueError, match=f"{name}.requires_grad=True, but should be False.*fused_add_rms_norm,"
    ):
        fused_add_rms_norm_(*tensors)
    for tensor, copy in zip(tensors, before, strict=True):
        assert torch.equal(tensor, copy)
    with torch.no_grad():
        fused_add_rms_norm_(*tensors)
    assert not torch.equal(tensors[0], before[0])


def test_checkpointing_and_accumulation():
    x, residual, weight = leaves((4, 33))
    for _ in range(2):
        y, _ = torch.utils.checkpoint.checkpoint(fused_add_rms_norm, x, residual, weight, use_reentrant=False)
        y.sum().backward()
    once = torch.autograd.grad(fused_add_rms_norm(x, residual, weight)[0].sum(), (x, residual, weight))
    for tensor, gradient in zip((x, residual, weight), once, strict=True):
        torch.testing.assert_close(tensor.grad, 2 * gradient, rtol=1e-6, atol=1e-6)


# --- torch.compile -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_whole(dynamic):
    torch._dynamo.reset()
    x, residual, weight = leaves((2, 3, 65), torch.bfloat16)

    def block(x, residual, weight):
        y, residual_out, rrms = fused_add_rms_norm(x * 2, residual, weight, return_rrms=True)
        return rms_norm(y, weight), residual_out, rrms

    compiled = torch.compile(block, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    found, right = compiled(x, residual, weight), block(x, residual, weight)
    assert [tensor.requires_grad for tensor in found] == [True, True, False]
    for one, other in zip(found, right, strict=True):
        assert torch.equal(one, other)
    dy, stream = (normal(2, 3, 65, seed=seed, dtype=torch.bfloat16) for seed in (4, 5))
    for one, other in zip(
        torch.autograd.grad(found[:2], (x, residual, weight), (dy, stream)),
        torch.autograd.grad(right[:2], (x, residual, weight), (dy, stream)),
        strict=True,
    ):
        assert torch.equal(one, other)


@pytest.mark.parametrize("wanted", list(itertools.product([False, True], repeat=3))[1:], ids=str)
def test_compiled_with_every_combination_of_requires_grad(wanted):
    torch._dynamo.reset()
    tensors = [tensor.detach() for tensor in leaves((5, 33))]
    tensors[1] = tensors[1].double().float() if wanted[0] else tensors[1]
    asked = [t.requires_grad_() for t, want in zip(tensors, wanted, strict=True) if want]
    compiled = torch.compile(fused_add_rms_norm, fullgraph=True, backend="aot_eager")
    upstream = normal(5, 33, seed=4), normal(5, 33, seed=5)
    for one, other in zip(
        torch.autograd.grad(compiled(*tensors), asked, upstream),
        torch.autograd.grad(fused_add_rms_norm(*tensors), asked, upstream),
        strict=True,
    ):
        assert torch.equal(one, other)


def test_compiled_in_place_and_mixed_dtypes():
    torch._dynamo.reset()
    x, _, weight = (tensor.detach() for tensor in leaves((5, 33), torch.bfloat16))
    residual = normal(5, 33, seed=2)
    right = fused_add_rms_norm(x, residual, weight)
    torch.compile(fused_add_rms_norm_, fullgraph=True, backend="aot_eager")(x, residual, weight)
    assert torch.equal(x, right[0])
    assert torch.equal(residual, right[1])
    x.requires_grad_()
    residual.requires_grad_()
    compiled = torch.compile(fused_add_rms_norm, fullgraph=True, backend="aot_eager")
    upstream = normal(5, 33, seed=4, dtype=torch.bfloat16), normal(5, 33, seed=5)
    found = torch.autograd.grad(compiled(x, residual, weight), (x, residual), upstream)
    for one, other in zip(
        found,
        torch.autograd.grad(fused_add_rms_norm(x, residual, weight), (x, residual), upstream),
        strict=True,
    ):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)
