"""Recognition: what every published signature means, under a name that says nothing."""

from __future__ import annotations

import functools
import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from conformance import hookspecs, targets
from conformance.capability import can_ask
from conformance.descriptions import describe, from_description
from conformance.errors import (
    ImportFailed,
    NoSuchImplementation,
    NotRecognised,
    from_json,
    to_json,
)
from conformance.invoke import invoke
from conformance.model import Call, Run
from conformance.roles import ROLE_NAMES

# Signature; what the plain call is given; what the fused call is given. "" where the mode is not claimed. Each
# word is parameter=role, or parameter:value for what is passed whatever is asked.
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
                   "dropout_p=0.0, rowscale=None, prenorm=False, residual_in_fp32=False, zero_centered_weight=False, "
                   "return_dropout_mask=False, out_dtype=None, out=None, residual_out=None",
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


def function_of(signature: str, name: str = "f") -> Callable[..., dict[str, Any]]:
    """A function of this signature that returns what it was given."""
    space: dict[str, Any] = {}
    exec(f"def {name}({signature}):\n    return dict(locals())", space)
    return space[name]


GIVEN = {
    "x": torch.zeros(2, 3), "residual": torch.ones(2, 3), "weight": torch.ones(3), "eps": 0.5,
    "out": torch.empty(2, 3), "residual_out": torch.empty(2, 3),
}  # fmt: skip


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


# --- finding by spec -------------------------------------------------------------------------------------


@pytest.fixture
def mypkg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Writes mypkg.py, importable and fresh."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(source: str) -> None:
        (tmp_path / "mypkg.py").write_text(source, encoding="utf-8")

    yield write
    sys.modules.pop("mypkg", None)


def test_hook_docstring_works(mypkg: Callable[[str], None]) -> None:
    """The module in the hook's documentation is found by name, and its declaration is used."""
    example = hookspecs.__doc__.split("declared call:\n\n")[1].split("\n\nA package that")[0]
    mypkg("\n".join(line[4:] for line in example.splitlines()))
    found = targets.load("mypkg:norm")
    assert [p.role for p in found.calls["none"].parameters] == ["x", "weight", "eps"]
    x = torch.tensor([[3.0, 4.0]])
    y = invoke(found.calls["none"], {"x": x, "weight": torch.ones(2), "eps": 0.0})
    assert (y - x / 12.5**0.5).abs().max() < 1e-6


def test_declaration_wins_over_recognition(mypkg: Callable[[str], None]) -> None:
    """A declaration is found by its own name and by the function that it calls."""
    mypkg(
        "from conformance.hookspecs import hookimpl\n"
        "from conformance.model import Call, Implementation, Parameter\n"
        "def rms_norm(x, weight, eps): return x\n"
        "@hookimpl\n"
        "def conformance_implementations():\n"
        "    call = Call(rms_norm, (Parameter('x', 'x'), Parameter('weight', 'weight'),\n"
        "                           Parameter('eps', 'eps')), rounds_x_hat=True)\n"
        "    return [Implementation('locked', {'none': call})]\n"
    )
    for spec in ("mypkg:locked", "mypkg:rms_norm"):
        found = targets.load(spec)
        assert found.name == "locked"
        assert found.calls["none"].rounds_x_hat is True
    assert targets.load("mypkg:locked", weight_offset=1.0).calls["none"].weight_offset == 1.0


def test_shadowed_module_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package may rebind a submodule's name to a function; the module is imported all the same."""
    package = tmp_path / "shadowing"
    package.mkdir()
    (package / "__init__.py").write_text("from .norm import norm\n")
    (package / "norm.py").write_text(
        "def norm(x, weight, eps): return x\ndef norm_forward(x, weight): return x\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    found = targets.load("shadowing.norm:norm_forward")
    assert [p.role for p in found.calls["none"].parameters] == ["x", "weight"]


def test_what_cannot_be_found(mypkg: Callable[[str], None]) -> None:
    """Each way not to be there has its own sentence, with what to type instead."""
    mypkg("def rms_norm(x, weight, eps): return x\n")
    with pytest.raises(NoSuchImplementation, match="no module 'nowhere_to_be_found'"):
        targets.load("nowhere_to_be_found:f")
    with pytest.raises(NoSuchImplementation, match=r"no attribute 'rmsnorm'[\s\S]*rms_norm"):
        targets.load("mypkg:rmsnorm")
    with pytest.raises(NoSuchImplementation, match="Did you mean --impl=torch"):
        targets.load("torhc")
    with pytest.raises(NoSuchImplementation, match="no adapter"):
        targets.load("mutant:no_such_mutant")


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("raise SystemExit(0)", "SystemExit"),
        ("import not_there_at_all", "needs the module"),
    ],
)
def test_import_that_fails(mypkg: Callable[[str], None], source: str, says: str) -> None:
    """A module that raises at import is told apart from one that is not there."""
    mypkg(source)
    with pytest.raises(ImportFailed, match=says):
        targets.load("mypkg:f")


def test_a_hook_that_raises(mypkg: Callable[[str], None]) -> None:
    """A declaration that raises, or gives something else, is refused in words."""
    head = "from conformance.hookspecs import hookimpl\n@hookimpl\ndef conformance_implementations():\n    "
    mypkg(head + "return 1 / 0")
    with pytest.raises(ImportFailed, match="ZeroDivisionError"):
        targets.load("mypkg:f")
    sys.modules.pop("mypkg")
    mypkg(head + "return ['f', 1, 2, 3]")
    with pytest.raises(ImportFailed, match="gave a str"):
        targets.load("mypkg:f")


def test_errors_cross_as_json() -> None:
    """Every error comes back as what it was."""
    with pytest.raises(NoSuchImplementation) as raised:
        targets.load("torhc")
    back = from_json(json.loads(json.dumps(to_json(raised.value))))
    assert type(back) is NoSuchImplementation
    assert str(back) == str(raised.value)
    assert "SomethingElse" in str(from_json({"error": "SomethingElse", "args": ["x"]}))


def test_description_crosses_as_json() -> None:
    """An implementation comes back equal but for its functions; strange defaults become text."""
    made = targets.recognise(function_of("x, residual=None, weight=object(), eps=float('inf')"), "pkg:f")
    text = json.dumps(describe(made), allow_nan=False)
    back = from_description(json.loads(text))
    assert back.name == made.name
    assert back.recognised == made.recognised
    assert set(back.calls) == {"none", "residual"}
    for mode, call in back.calls.items():
        assert call.function is None
        assert [(p.name, p.role, p.keyword) for p in call.parameters] == [
            (p.name, p.role, p.keyword) for p in made.calls[mode].parameters
        ]
        assert call.parameter("eps").value == "inf"
    with pytest.raises(ValueError, match="load it again"):
        invoke(back.calls["none"], GIVEN)


def test_describing_imports_no_torch() -> None:
    """The suite's side reads descriptions and capabilities without torch."""
    modules = "conformance.descriptions, conformance.capability, conformance.errors"
    code = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- what can be asked -----------------------------------------------------------------------------------


def run_of(**changes: Any) -> Run:
    """A neutral plain run, with changes."""
    values: dict[str, Any] = {
        "id": "a/b", "case": "a/b", "file": "a.yaml", "about": "", "mode": "none", "shape": (2, 3),
        "dtypes": {"x": "float32", "weight": "float32"}, "eps": 1e-6, "fills": {}, "layouts": {},
        "requirements": ("FORMULA-EPS-INSIDE",), **changes,
    }  # fmt: skip
    return Run(**values)


@pytest.mark.parametrize(
    ("signature", "changes", "reason"),
    [
        ("x, weight, eps", {}, None),
        ("x, weight, eps", {"eps": None}, "eps is required"),
        ("x, weight, eps=1e-6", {"eps": None}, None),
        ("x, weight", {}, "no parameter for eps"),
        ("x, weight", {"eps": None}, None),
        ("x, eps", {}, "no parameter for weight"),
        ("x, eps", {"dtypes": {"x": "float32"}}, None),
        ("x, weight, eps", {"dtypes": {"x": "float32"}}, "weight is required"),
        ("x, weight: 'torch.Tensor | None', eps", {"dtypes": {"x": "float32"}}, None),
        ("x, weight=None, eps=1e-6", {"dtypes": {"x": "float32"}}, None),
        ("x, weight, eps", {"out": True}, "no parameter for out"),
        ("x, weight, eps", {"layouts": {"out": "row_slice"}}, "no parameter for out"),
        ("x, weight, eps, out=None", {"out": True}, None),
        ("x, weight, eps", {"weight_offset": 1.0}, "no parameter for weight_offset"),
        ("x, weight, eps, offset=0.0", {"weight_offset": 0.5}, None),
        ("x, weight, eps, gemma=False", {"weight_offset": 1.0}, None),
        ("x, weight, eps, gemma=False", {"weight_offset": 0.5}, "no parameter for weight_offset"),
    ],
)
def test_can_ask(signature: str, changes: dict[str, Any], reason: str | None) -> None:
    """Only the parameters decide what a call cannot be asked, and the reason names the parameter."""
    call = targets.recognise(function_of(signature), "pkg:f").calls["none"]
    found = can_ask(call, run_of(**changes))
    assert (found is None) == (reason is None)
    assert reason is None or reason in found
