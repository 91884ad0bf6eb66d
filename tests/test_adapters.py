"""The adapters: torch and the module styles for real, the vendors' packages through stand-ins."""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from conformance import adapters
from conformance.calling import registry, targets
from conformance.calling.descriptions import describe, from_description
from conformance.calling.packages import version_of
from conformance.errors import ImportFailed, NoSuchImplementation, NotInstalled
from conformance.model import MODES, Implementation

BUNDLED = (
    "fla", "flashinfer", "flashinfer_gemma", "huggingface_gemma", "huggingface_llama", "liger", "liger_gemma",
    "quack", "reference", "torch", "torch_compile", "torchnorm",
)  # fmt: skip

PACKAGES = {
    "fla": "fla-core", "flashinfer": "flashinfer-python", "flashinfer_gemma": "flashinfer-python",
    "liger": "liger-kernel", "liger_gemma": "liger-kernel", "quack": "quack-kernels",
    "torchnorm": "torchnorm",
}  # fmt: skip

VENDORS = ("liger_kernel", "flashinfer", "fla", "quack", "torchnorm")


def norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def inputs() -> dict[str, Any]:
    ramp = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    return {"x": ramp - 11.5, "residual": ramp.flip(0) / 4, "weight": ramp[0] / 4 - 0.5, "eps": 0.125}


def outputs(implementation: Implementation, mode: str) -> dict[str, torch.Tensor]:
    """Call one mode and collect its outputs by the declaration."""
    call = implementation.calls[mode]
    given = inputs()
    if mode == "none":
        del given["residual"]
    result = targets.invoke(call, given)
    slots = [] if result is None else list(result) if isinstance(result, tuple) else [result]
    assert len(slots) == len(call.returns)
    found = dict(zip(call.returns, slots, strict=True))
    found.update({output: given[role] for role, output in call.mutates.items()})
    return found


def check_values(implementation: Implementation) -> None:
    """Every declared mode gives the formula, with what was declared about it."""
    for mode, call in implementation.calls.items():
        given = inputs()
        total = given["x"] + (given["residual"] if mode != "none" else 0)
        found = outputs(implementation, mode)
        y = norm(total, given["weight"] + call.weight_offset, given["eps"])
        assert (found["y"] - y).abs().max() < 1e-5, mode
        if mode != "none":
            assert torch.equal(found["residual_out"], total)


def check_graph(implementation: Implementation, mode: str) -> None:
    """The mode is declared differentiable, and every output but the statistic requires grad where x does."""
    call = implementation.calls[mode]
    given = inputs()
    if mode == "none":
        del given["residual"]
    given["x"].requires_grad_()
    result = targets.invoke(call, given)
    slots = result if isinstance(result, tuple) else (result,)
    graphs = {name: slot.requires_grad for name, slot in zip(call.returns, slots, strict=True)}
    assert call.differentiable is True
    assert graphs == {name: name != "rrms" for name in call.returns}


def test_known_names() -> None:
    """Every bundled adapter is found by scanning; no list has to be edited."""
    assert set(BUNDLED) <= set(registry.known_names())
    files = {f.stem for f in Path(adapters.__path__[0]).glob("*.py")} - {"__init__"}
    assert files >= {"fla", "flashinfer", "huggingface", "liger", "quack", "reference", "torch", "torchnorm"}


def test_known_names_import_no_vendor() -> None:
    """Listing what could be asked for imports none of it."""
    before = set(sys.modules)
    registry.known_names()
    assert not set(VENDORS) & (set(sys.modules) - before)


@pytest.mark.parametrize("name", PACKAGES)
def test_not_installed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A known adapter without its package is told apart from an unknown name, and says what to install."""
    for module in VENDORS:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(NotInstalled, match=f"^{name}: not installed") as raised:
        targets.load(name)
    assert not isinstance(raised.value, NoSuchImplementation)
    assert PACKAGES[name] in str(raised.value)


@pytest.mark.parametrize("name", PACKAGES)
def test_names_of_the_parameters(name: str) -> None:
    """Where the package is installed, its functions have every parameter that the adapter names."""
    if not version_of(PACKAGES[name]):
        with pytest.raises(NotInstalled, match=f"pip install {PACKAGES[name]}"):
            targets.load(name)
        return
    implementation = targets.load(name)
    for call in implementation.calls.values():
        assert call.function is not None
        names = list(inspect.signature(call.function).parameters)
        positional = [p.name for p in call.parameters if not p.keyword]
        assert positional == names[: len(positional)]
        assert {p.name for p in call.parameters} <= set(names)
        if call.consumes_dy:
            assert inspect.signature(call.function).parameters["in_place"].default is True


@pytest.mark.parametrize("name", ["torch", "huggingface_llama", "huggingface_gemma"])
def test_values(name: str) -> None:
    """Torch and the two module styles give the formula, and y requires grad where x does."""
    implementation = targets.load(name)
    check_values(implementation)
    for mode in implementation.calls:
        check_graph(implementation, mode)
    assert implementation.version
    assert implementation.homepage.startswith("https://")
    assert implementation.issues.startswith("https://")
    assert set(implementation.calls) <= set(MODES)
    assert describe(from_description(describe(implementation))) == describe(implementation)


def test_reference_declares_all_modes() -> None:
    """The bundled kernels answer for every fusion mode, and give the statistic."""
    implementation = targets.load("reference")
    assert tuple(implementation.calls) == MODES
    assert implementation.calls["none"].returns == ("y", "rrms")


@pytest.mark.parametrize("name", ["reference", "torch", "huggingface_llama", "huggingface_gemma"])
def test_what_is_declared_of_the_backward(name: str) -> None:
    """The functional modes are differentiable and leave dy as it is; what is in place has no backward."""
    for mode, call in targets.load(name).calls.items():
        assert call.differentiable is (mode != "residual_in_place")
        assert call.backward is None
        assert not call.consumes_dy


def test_huggingface_conventions() -> None:
    """Llama style rounds twice and promotes; Gemma style rounds once, counts from one and keeps the dtype."""
    x = torch.tensor([[1.0, 2.0, 3.0, 5.0]], dtype=torch.bfloat16)
    weight = torch.tensor([1.0, 0.3, -0.7, 1.1])
    llama = targets.load("huggingface_llama").calls["none"]
    assert (llama.rounds_x_hat, llama.promotes, llama.weight_offset) == (True, True, 0.0)
    x_hat = (x.float() * torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-3)).bfloat16()
    y = targets.invoke(llama, {"x": x, "weight": weight, "eps": 1e-3})
    assert torch.equal(y, x_hat * weight)
    assert y.dtype is torch.float32
    gemma = targets.load("huggingface_gemma").calls["none"]
    assert (gemma.rounds_x_hat, gemma.promotes, gemma.weight_offset) == (False, False, 1.0)
    assert targets.invoke(gemma, {"x": x, "weight": weight, "eps": 1e-3}).dtype is torch.bfloat16


@pytest.mark.parametrize("name", ["huggingface_llama", "huggingface_gemma"])
def test_huggingface_gradients(name: str) -> None:
    """Autograd goes through both module styles: dx is the norm's own, for a dy of ones in float32."""
    call = targets.load(name).calls["none"]
    given = inputs()
    x, weight = given["x"].requires_grad_(), given["weight"]
    y = targets.invoke(call, {"x": x, "weight": weight, "eps": given["eps"]})
    (found,) = torch.autograd.grad(y, x, torch.ones_like(y))
    wide = given["x"].detach().double().requires_grad_()
    expected = norm(wide, weight.double() + call.weight_offset, given["eps"])
    (dx,) = torch.autograd.grad(expected, wide, torch.ones_like(expected))
    assert (found - dx).abs().max() < 1e-5


def test_torch_fused_keeps_each_dtype() -> None:
    """residual_out has the residual's dtype and y has x's, whichever is the wider."""
    call = targets.load("torch").calls["residual"]
    for first, second in ((torch.bfloat16, torch.float32), (torch.float32, torch.bfloat16)):
        given = inputs()
        y, s = targets.invoke(
            call, {**given, "x": given["x"].to(first), "residual": given["residual"].to(second)}
        )
        assert (y.dtype, s.dtype) == (first, second)


# --- stand-ins for the vendors' packages -------------------------------------------------------------------


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts modules with the given attributes into sys.modules, parents included."""

    def put(path: str, **attributes: Any) -> None:
        parts = path.split(".")
        for end in range(1, len(parts) + 1):
            name = ".".join(parts[:end])
            module = types.ModuleType(name)
            module.__path__ = []  # type: ignore[attr-defined]
            monkeypatch.setitem(sys.modules, name, module)
            if end > 1:
                setattr(sys.modules[".".join(parts[: end - 1])], parts[end - 1], module)
        for key, value in attributes.items():
            setattr(sys.modules[path], key, value)

    return put


def test_liger(stand_in: Callable[..., None]) -> None:
    """eps is required, the offset is a number, the casting mode goes with the name.

    in_place stays at the default, so that dy is overwritten, as is declared.
    """
    modes: list[str] = []
    overwrites: list[bool] = []

    def liger_rms_norm(X, W, eps, offset=0.0, casting_mode="llama", in_place=True):
        modes.append(casting_mode)
        overwrites.append(in_place)
        return norm(X, W + offset, eps)

    def liger_fused_add_rms_norm(X, R, W, eps, offset=0.0, casting_mode="llama", in_place=True):
        modes.append(casting_mode)
        overwrites.append(in_place)
        return norm(X + R, W + offset, eps), X + R

    stand_in(
        "liger_kernel.transformers.functional",
        liger_rms_norm=liger_rms_norm,
        liger_fused_add_rms_norm=liger_fused_add_rms_norm,
    )
    check_values(targets.load("liger"))
    check_values(targets.load("liger_gemma"))
    assert modes == ["llama", "llama", "gemma", "gemma"]
    assert overwrites == [True] * 4
    assert targets.load("liger_gemma").calls["residual"].weight_offset == 1.0
    for name in ("liger", "liger_gemma"):
        calls = targets.load(name).calls.values()
        assert [(c.differentiable, c.consumes_dy) for c in calls] == [(True, True)] * 2


def test_fla(stand_in: Callable[..., None]) -> None:
    """bias is required and None; prenorm makes the sum come back."""

    def rms_norm(x, weight, bias, residual=None, eps=1e-5, prenorm=False, residual_in_fp32=False):
        assert bias is None
        s = x if residual is None else x + residual
        return (norm(s, weight, eps), s) if prenorm else norm(s, weight, eps)

    stand_in("fla.modules.layernorm", rms_norm=rms_norm)
    implementation = targets.load("fla")
    check_values(implementation)
    for mode in implementation.calls:
        check_graph(implementation, mode)


def test_quack(stand_in: Callable[..., None]) -> None:
    """The function is found in its module, which the package hides behind the function itself."""

    def rmsnorm(
        x,
        weight=None,
        bias=None,
        residual=None,
        out_dtype=None,
        residual_dtype=None,
        eps=1e-6,
        prenorm=False,
        weight_offset=0.0,
    ):
        assert (bias, out_dtype, residual_dtype) == (None, None, None)
        s = x if residual is None else x + residual
        y = norm(s, (torch.ones_like(x[0]) if weight is None else weight) + weight_offset, eps)
        return (y, s) if prenorm else y

    stand_in("quack.rmsnorm", rmsnorm=rmsnorm)
    sys.modules["quack"].rmsnorm = rmsnorm
    implementation = targets.load("quack")
    check_values(implementation)
    for mode in implementation.calls:
        check_graph(implementation, mode)
    assert implementation.devices == ("cuda",)
    x, call = inputs()["x"], implementation.calls["none"]
    assert torch.equal(targets.invoke(call, {"x": x, "eps": 0.125}), norm(x, torch.ones(6), 0.125))
    shifted = targets.invoke(call, {"x": x, "weight": torch.zeros(6), "eps": 0.125, "weight_offset": 1.0})
    assert torch.equal(shifted, norm(x, torch.ones(6), 0.125))


def test_torchnorm(stand_in: Callable[..., None]) -> None:
    """Both functions take all of their arguments by position, and the weight is required."""

    def fused_add_rms_norm(x, residual, weight, eps):
        return norm(x + residual, weight, eps), x + residual

    stand_in("torchnorm._triton", fused_rms_norm=norm, fused_add_rms_norm=fused_add_rms_norm)
    implementation = targets.load("torchnorm")
    check_values(implementation)
    for mode in implementation.calls:
        check_graph(implementation, mode)
        weight = implementation.calls[mode].parameter("weight")
        assert weight is not None
        assert weight.required
        assert not weight.nullable


def test_flashinfer(stand_in: Callable[..., None]) -> None:
    """The plain norm fills out= where given; the fused one overwrites both inputs."""

    def make(offset: float) -> tuple[Callable[..., Any], Callable[..., Any]]:
        def rmsnorm(input, weight, eps=1e-6, out=None, enable_pdl=None):
            y = norm(input, weight + offset, eps)
            return y if out is None else out.copy_(y)

        def fused_add_rmsnorm(input, residual, weight, eps=1e-6, enable_pdl=None):
            residual.add_(input)
            input.copy_(norm(residual, weight + offset, eps))

        return rmsnorm, fused_add_rmsnorm

    (plain, fused), (gemma_plain, gemma_fused) = make(0.0), make(1.0)
    stand_in(
        "flashinfer.norm",
        rmsnorm=plain,
        fused_add_rmsnorm=fused,
        gemma_rmsnorm=gemma_plain,
        gemma_fused_add_rmsnorm=gemma_fused,
    )
    for name in ("flashinfer", "flashinfer_gemma"):
        implementation = targets.load(name)
        check_values(implementation)
        assert implementation.devices == ("cuda",)
        assert all(c.differentiable is False for c in implementation.calls.values())
    given = inputs()
    out = torch.empty(4, 6)
    call = targets.load("flashinfer").calls["none"]
    assert targets.invoke(call, {"x": given["x"], "weight": given["weight"], "out": out}) is out


def test_vendor_that_raises_at_import(stand_in: Callable[..., None]) -> None:
    """A package that is there and broken is not called absent."""
    stand_in("flashinfer.norm")  # without the functions
    with pytest.raises(ImportFailed, match="AttributeError"):
        targets.load("flashinfer")


def test_entry_point(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An installed package registers a name of its own under the entry-point group."""
    (tmp_path / "acme_norms.py").write_text(
        "from conformance.hookspecs import hookimpl\n"
        "from conformance.model import Call, Implementation, Parameter\n"
        "@hookimpl\n"
        "def conformance_implementations():\n"
        "    call = Call(lambda x: x, (Parameter('x', 'x'),))\n"
        "    return [Implementation('acme', {'none': call}, version='9')]\n"
    )
    info = tmp_path / "acme_norms-9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-norms\nVersion: 9\n")
    (info / "entry_points.txt").write_text("[rmsnorm_conformance]\nacme = acme_norms\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert targets.load("acme").version == "9"
    assert "acme" in registry.known_names()
    (info / "entry_points.txt").write_text("[rmsnorm_conformance]\nacme = acme_nowhere\n")
    with pytest.raises(ImportFailed, match="acme_nowhere"):
        targets.load("acme_other")
