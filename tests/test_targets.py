"""Recognition: what every published signature means, under a name that says nothing."""

from __future__ import annotations

import functools
import random
from typing import Any

import pytest
import torch
from signature_text import GIVEN, function_of

from conformance.calling import targets
from conformance.calling.invoke import invoke
from conformance.calling.roles import ROLE_NAMES
from conformance.errors import (
    NotRecognised,
)
from conformance.model import Call

# Signature; what the plain call is given; what the fused call is given. "" where the mode is not claimed.
# Each word is parameter=role, or parameter:value for what is passed whatever is asked.
SIGNATURES = {
    "torch": ("input, normalized_shape, weight=None, eps=None",
              "input=x normalized_shape=shape weight=weight eps=eps", ""),
    "aten": ("input, normalized_shape, weight, eps",
             "input=x normalized_shape=shape weight=weight eps=eps", ""),
    "vllm plain": ("out, input, weight, epsilon", "out=out input=x weight=weight epsilon=eps", ""),
    "vllm fused": ("input, residual, weight, epsilon",
                   "", "input=x residual=residual weight=weight epsilon=eps"),
    "vllm ir plain": ("x, weight, epsilon, variance_size=None", "x=x weight=weight epsilon=eps", ""),
    "vllm ir fused": ("x, x_residual, weight, epsilon, variance_size=None",
                      "", "x=x x_residual=residual weight=weight epsilon=eps"),
    "vllm layer": ("x, residual=None", "x=x", "x=x residual=residual"),
    "flashinfer plain": ("input, weight, eps=1e-6, out=None, enable_pdl=None",
                         "input=x weight=weight eps=eps out=out", ""),
    "flashinfer fused": ("input, residual, weight, eps=1e-6, enable_pdl=None",
                         "", "input=x residual=residual weight=weight eps=eps"),
    "liger plain": ('X, W, eps, offset=0.0, casting_mode="llama", in_place=True, row_mode=None',
                    "X=x W=weight eps=eps", ""),
    "liger fused": ('X, R, W, eps, offset=0.0, casting_mode="llama", in_place=False',
                    "", "X=x R=residual W=weight eps=eps"),
    "quack": ("x, weight=None, bias=None, residual=None, out_dtype=None, residual_dtype=None, eps=1e-6, "
              "prenorm=False, weight_offset=0.0",
              "x=x weight=weight eps=eps", "x=x weight=weight residual=residual eps=eps prenorm:True"),
    "quack forward": ("x, weight=None, bias=None, residual=None, out_dtype=None, residual_dtype=None, "
                      "eps=1e-6, store_rstd=False, weight_offset=0.0",
                      "x=x weight=weight eps=eps", "x=x weight=weight residual=residual eps=eps"),
    "apex": ("input, weight, normalized_shape, eps=1e-6, memory_efficient=False",
             "input=x weight=weight normalized_shape=shape eps=eps", ""),
    "apex without weight": ("input, normalized_shape, eps=1e-6, memory_efficient=False",
                            "input=x normalized_shape=shape eps=eps", ""),
    "flag_gems plain": ("x, normalized_shape, weight, eps=1e-5",
                        "x=x normalized_shape=shape weight=weight eps=eps", ""),
    "flag_gems fused": ("x, residual, normalized_shape, weight, eps=1e-5",
                        "", "x=x residual=residual normalized_shape=shape weight=weight eps=eps"),
    "aiter plain": ("input, weight, epsilon, use_model_sensitive_rmsnorm=0",
                    "input=x weight=weight epsilon=eps", ""),
    "aiter fused": ("out, input, residual_in, residual_out, weight, epsilon, gemma_norm=False, "
                    "use_model_sensitive_rmsnorm=0",
                    "", "out=out input=x residual_in=residual residual_out=residual_out weight=weight "
                    "epsilon=eps"),
    "aiter fused in place": ("input, residual_in, weight, epsilon",
                             "", "input=x residual_in=residual weight=weight epsilon=eps"),
    "aiter out first": ("out, input, weight, epsilon", "out=out input=x weight=weight epsilon=eps", ""),
    "fla": ("x, weight, bias, residual=None, eps=1e-5, prenorm=False, residual_in_fp32=False",
            "x=x weight=weight bias:None eps=eps",
            "x=x weight=weight bias:None residual=residual eps=eps prenorm:True"),
    "fla layer": ("x, residual=None, prenorm=False, residual_in_fp32=False",
                  "x=x", "x=x residual=residual prenorm:True"),
    "flash_attn": ("x, weight, bias, residual=None, x1=None, weight1=None, bias1=None, eps=1e-6, "
                   "dropout_p=0.0, rowscale=None, prenorm=False, residual_in_fp32=False, "
                   "zero_centered_weight=False, return_dropout_mask=False, out_dtype=None, out=None, "
                   "residual_out=None",
                   "x=x weight=weight bias:None eps=eps out=out",
                   "x=x weight=weight bias:None residual=residual eps=eps prenorm:True out=out "
                   "residual_out=residual_out"),
    "flash_attn cuda": ("x, weight, epsilon", "x=x weight=weight epsilon=eps", ""),
    "xformers plain": ("x, weight, eps=1e-6", "x=x weight=weight eps=eps", ""),
    "xformers fused": ("x, y, weight, eps=1e-6", "", "x=x y=residual weight=weight eps=eps"),
    "helion": ("x, weight, eps=1e-5", "x=x weight=weight eps=eps", ""),
    "ipex plain": ("hidden_states, weight, eps", "hidden_states=x weight=weight eps=eps", ""),
    "ipex fused": ("residual, x, weight, bias, eps, add_back=False",
                   "", "residual=residual x=x weight=weight bias:None eps=eps add_back:True"),
    "ascend plain": ("self, gamma, epsilon=1e-6", "self=x gamma=weight epsilon=eps", ""),
    "ascend fused": ("x1, x2, gamma, epsilon=1e-6", "", "x1=x x2=residual gamma=weight epsilon=eps"),
    "ascend gemma": ("input, gamma, epsilon=1e-6", "input=x gamma=weight epsilon=eps", ""),
    "torchnorm": ("x, residual, weight, eps", "", "x=x residual=residual weight=weight eps=eps"),
    "huggingface": ("hidden_states", "hidden_states=x", ""),
    "tensorrt": ("hidden_states, residual=...", "hidden_states=x", "hidden_states=x residual=residual"),
    "tilelang": ("x", "x=x", ""),
    "keywords only": ("*, x, residual=None, weight, eps=1e-6",
                      "x=x weight=weight eps=eps", "x=x residual=residual weight=weight eps=eps"),
    "required switches": ("x, residual, weight, eps, prenorm, residual_in_fp32",
                          "",
                          "x=x residual=residual weight=weight eps=eps prenorm:True residual_in_fp32:False"),
    "required offset": ("x, weight, eps, weight_bias", "x=x weight=weight eps=eps weight_bias:0.0", ""),
    "required gemma switch": ("x, weight, eps, gemma", "x=x weight=weight eps=eps gemma:False", ""),
    "output first, called y": ("y, x, weight, eps", "y=out x=x weight=weight eps=eps", ""),
    "output called y, residual by name": ("x, y, residual, weight, eps",
                                          "", "x=x y=out residual=residual weight=weight eps=eps"),
    "output called y among options": ("x, weight, eps=1e-6, y=None", "x=x weight=weight eps=eps y=out", ""),
    "extra positionals": ("x, weight, eps, *args, **kwargs", "x=x weight=weight eps=eps", ""),
}  # fmt: skip

REFUSED = {
    "vllm static fp8": ("result, input, weight, scale, epsilon", "scale"),
    "vllm per token": ("input, weight, epsilon, quant_dtype, scale_ub=None, residual=None", "quant_dtype"),
    "flashinfer fp8": ("out, input, weight, scale, eps=1e-6, enable_pdl=None", "scale"),
    "flashinfer fused fp8": ("out, input, residual, weight, scale, eps=1e-6", "scale"),
    "fla gated": ('x, g, weight, bias, activation="swish", residual=None, eps=1e-6', "g"),
    "unsloth": ("layernorm_module, X, gemma=False", "layernorm_module"),
    "trtllm grouped": ("inputs, weights, eps=1e-5, weight_bias=0.0, tables=1, *, groups", "groups"),
    "two of x": ("x, hidden_states, weight, eps", "hidden_states"),
    "casting mode without a default": ("x, weight, eps, casting_mode", "casting_mode"),
    "nothing known": ("a, b, c", "a"),
    "residual_out without residual": ("x, residual_out, weight, eps", "residual_out"),
}


def check(call: Call, expected: str) -> None:
    """Call it with everything that it has a role for; what arrives has to be what `expected` says."""
    received = invoke(call, GIVEN)
    wanted = dict(word.split("=") for word in expected.split() if "=" in word)
    fixed = dict(word.split(":") for word in expected.split() if ":" in word)
    assert {p.name for p in call.parameters if p.role != "weight_offset"} - {
        p.name for p in call.parameters if p.role == "zero_centered"
    } <= {*wanted, *fixed}
    for name, role in wanted.items():
        if role == "shape":
            assert received[name] == [3], name
        else:
            assert received[name] is GIVEN[role], name
    for name, value in fixed.items():
        assert str(received[name]) == value, name


@pytest.mark.parametrize("name", SIGNATURES)
def test_signature(name: str) -> None:
    """Each published signature is read as its package documents it."""
    signature, plain, fused = SIGNATURES[name]
    calls = targets.recognise(function_of(signature), "pkg:f").calls
    assert ("none" in calls) == bool(plain)
    if plain:
        check(calls["none"], plain)
    found = [calls[m] for m in ("residual", "residual_in_place") if m in calls]
    assert len(found) == bool(fused)
    if fused:
        check(found[0], fused)


@pytest.mark.parametrize("name", REFUSED)
def test_unknown_parameter_is_refused(name: str) -> None:
    """A required parameter without a meaning is named, never guessed."""
    signature, unknown = REFUSED[name]
    with pytest.raises(NotRecognised) as refused:
        targets.recognise(function_of(signature), "pkg:f")
    assert repr(unknown) in refused.value.message
    assert f'Parameter("{unknown}", "fixed"' in refused.value.hint


def test_synonyms_in_any_order() -> None:
    """Fifty signatures of other names in other orders are read by name alone."""
    choose = random.Random(20)
    roles = ("x", "residual", "weight", "eps")
    for _ in range(50):
        picked = {role: choose.choice([n for n in ROLE_NAMES[role] if n != "y"]) for role in roles}
        order = choose.sample(roles, 4)
        names = [n.upper() if choose.random() < 0.3 else n for n in (picked[r] for r in order)]
        call = targets.recognise(function_of(", ".join(names)), "pkg:f").calls["residual"]
        assert [p.role for p in call.parameters] == order, names


def test_the_printed_lines_declare_it() -> None:
    """The lines in a refusal run as they stand and give an implementation with this call."""
    with pytest.raises(NotRecognised) as refused:
        targets.recognise(function_of("x, scale, weight, *, eps=1e-6"), "pkg:f")
    source = "def f(x, scale, weight, *, eps=1e-6):\n    return dict(locals())\n\n\n"
    source += refused.value.hint.partition("\n\n")[2]
    space: dict[str, Any] = {}
    exec(source, space)
    (declared,) = space["conformance_implementations"]()
    received = invoke(declared.calls["none"], GIVEN)
    assert received["x"] is GIVEN["x"]
    assert received["scale"] is None
    assert received["eps"] == 0.5


def test_gemma_in_the_name_sets_the_offset() -> None:
    """The function's own name may say gemma; the package's may not, and a parameter knows better."""
    f = function_of("x, weight, eps")
    assert targets.recognise(f, "pkg:gemma_rmsnorm").calls["none"].weight_offset == 1.0
    assert targets.recognise(f, "gemma.norms:f").calls["none"].weight_offset == 0.0
    with_offset = function_of("x, weight, eps, offset=0.0")
    assert targets.recognise(with_offset, "pkg:gemma_norm").calls["none"].weight_offset == 0.0
    told = targets.recognise(f, "pkg:f", None, 1.0)
    assert told.calls["none"].weight_offset == 1.0


def test_offset_parameters() -> None:
    """A number is passed on, a switch is turned, and a told offset is passed although the default differs."""
    number = targets.recognise(function_of("x, weight, eps, offset=0.0"), "pkg:f").calls["none"]
    assert invoke(number, {**GIVEN, "weight_offset": 1.0})["offset"] == 1.0
    switch = targets.recognise(function_of("x, weight, eps, zero_centered_gamma=False"), "pkg:f").calls[
        "none"
    ]
    assert invoke(switch, {**GIVEN, "weight_offset": 1.0})["zero_centered_gamma"] is True
    assert invoke(switch, GIVEN)["zero_centered_gamma"] is False
    told = targets.recognise(function_of("x, weight, eps, offset=0.0"), "pkg:f", None, 1.0).calls["none"]
    assert invoke(told, GIVEN)["offset"] == 1.0
    on = targets.recognise(function_of("x, weight, eps, zero_centered_gamma=True"), "pkg:f").calls["none"]
    assert on.weight_offset == 1.0


def test_partial_and_callable_object() -> None:
    """What a partial fixes stays fixed; an object with __call__ is read like a function."""
    partial = functools.partial(function_of('x, weight, eps, casting_mode="llama"'), casting_mode="gemma")
    call = targets.recognise(partial, "pkg:f").calls["none"]
    assert invoke(call, GIVEN)["casting_mode"] == "gemma"

    class Norm:
        def __call__(self, hidden_states, gamma, epsilon=1e-6):
            return dict(locals())

    received = invoke(targets.recognise(Norm(), "pkg:norm").calls["none"], GIVEN)
    assert received["hidden_states"] is GIVEN["x"]
    assert received["gamma"] is GIVEN["weight"]


def test_positional_only() -> None:
    """Parameters that cannot be named are filled by position, defaults included."""
    call = targets.recognise(function_of("x, other=5, weight=None, eps=1e-6, /"), "pkg:f").calls["none"]
    received = invoke(call, GIVEN)
    assert received["other"] == 5
    assert received["eps"] == 0.5
    assert received["weight"] is GIVEN["weight"]


class OlderForm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, X, W, eps, offset=0.0, casting_mode="llama"):
        return X * W + eps + offset


class NewerForm(torch.autograd.Function):
    @staticmethod
    def forward(x, residual, weight, eps):
        return x * weight + eps, x + residual

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass


def test_autograd_function() -> None:
    """`Class.apply` has the parameters of forward, without ctx where forward has it."""
    for subject in (OlderForm.apply, OlderForm):
        call = targets.recognise(subject, "pkg:OlderForm.apply").calls["none"]
        assert [p.role for p in call.parameters] == ["x", "weight", "eps", "weight_offset"]
        assert torch.equal(invoke(call, GIVEN), torch.full((2, 3), 0.5))
    call = targets.recognise(NewerForm.apply, "pkg:NewerForm.apply").calls["residual"]
    assert [p.role for p in call.parameters] == ["x", "residual", "weight", "eps"]
    assert torch.equal(invoke(call, GIVEN)[1], torch.ones(2, 3))


@pytest.fixture(scope="module")
def operators() -> Any:
    """Operators with vLLM's schemas, implemented in plain torch."""
    library = torch.library.Library("rn_targets", "DEF")
    library.define("plain(Tensor! result, Tensor input, Tensor? weight, float epsilon) -> ()")
    library.define("fused(Tensor! input, Tensor! residual, Tensor weight, float epsilon) -> ()")
    library.define("half(Tensor! x, Tensor y, Tensor? weight, float eps) -> Tensor")
    library.define("one(Tensor input, Tensor! residual, Tensor weight, float epsilon=1e-6) -> Tensor")
    library.impl("fused", lambda x, r, w, e: (r.add_(x), x.copy_(r * w))[:0] or None, "CPU")
    yield torch.ops.rn_targets
    library._destroy()


def test_operator_schema(operators: Any) -> None:
    """Tensor! says what is overwritten, Tensor? what may be left out; nothing has to be called."""
    plain = targets.recognise(operators.plain, "torch.ops:rn_targets.plain").calls["none"]
    assert plain.mutates == {"out": "y"}
    assert plain.returns == ()
    assert plain.parameter("weight").nullable
    fused = targets.recognise(operators.fused, "pkg:f").calls["residual_in_place"]
    assert fused.mutates == {"x": "y", "residual": "residual_out"}
    x, residual = torch.ones(2, 3), torch.ones(2, 3)
    assert invoke(fused, {"x": x, "residual": residual, "weight": torch.ones(3), "eps": 1.0}) is None
    assert torch.equal(residual, torch.full((2, 3), 2.0))
    half = targets.recognise(operators.half.default, "pkg:f").calls["residual_in_place"]
    assert (half.returns, half.mutates) == (("y",), {"x": "residual_out"})
    one = targets.recognise(operators.one, "pkg:f").calls["residual_in_place"]
    assert (one.returns, one.mutates) == (("y",), {"residual": "residual_out"})


def test_custom_op() -> None:
    """torch.library.custom_op is read by the schema that torch inferred."""

    @torch.library.custom_op("rn_targets_custom::norm", mutates_args=("out",))
    def norm(out: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, eps: float) -> None:
        out.copy_(x * weight + eps)

    call = targets.recognise(norm, "pkg:norm").calls["none"]
    assert call.mutates == {"out": "y"}
    out = torch.empty(2, 3)
    invoke(call, {**GIVEN, "out": out})
    assert torch.equal(out, torch.full((2, 3), 0.5))


def test_compiled_is_seen() -> None:
    """A compiled function is judged without the allocation guard, so it has to be known as one."""

    def f(x, weight, eps):
        return x

    compiled = torch.compile(f, backend="eager")
    assert targets.is_compiled(compiled)
    assert targets.is_compiled(functools.partial(compiled, eps=1.0))
    assert not targets.is_compiled(f)
    assert targets.recognise(compiled, "pkg:f").calls["none"].compiled


@pytest.mark.parametrize(
    ("subject", "says"),
    [
        (3, "cannot be called"),
        (object, "neither a function nor"),
        (torch.nn.RMSNorm(4), "is an instance of RMSNorm"),
    ],
)
def test_not_callable(subject: Any, says: str) -> None:
    """What cannot be called, and a module that is built already, is refused with what to do instead."""
    with pytest.raises(NotRecognised, match=says):
        targets.recognise(subject, "pkg:f")
