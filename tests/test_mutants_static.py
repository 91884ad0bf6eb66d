"""The mutants and variants themselves: labels complete, no two alike, mutants wrong, variants right.

What the suite makes of them is the score's question. Here they are called directly, on small tensors, in a
process of their own: some do harm, and the Triton ones must see TRITON_INTERPRET before Triton is imported.
Run as a script, this file makes those calls and prints what it saw as JSON.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from conformance import mutants, variants
from conformance.model import MODES

ROOT = Path(__file__).resolve().parents[1]

NOT_CALLED = ("HONEST-STATE", "RUN-COMPLETES", "MEM-", "REFUSE-CLEAN", "REFUSE-SHAPE", "OUTPUT-PARAMETER",
              "OUTPUT-DEVICE", "STRIDE-OUT", "STRIDE-64BIT", "ALIGN-OUT", "ALIGN-RESIDUAL", "OUTPUT-STRIDE",
              "REFUSE-DEVICE")  # fmt: skip
"""Faults that a plain call on a CPU tensor cannot show, or must not: the suite's guards and workers do."""


def _source(folder: Path, name: str) -> ast.Module:
    return ast.parse((folder / f"{name}.py").read_text(encoding="utf-8"))


def _called() -> list[str]:
    return [n for n in mutants.names() if not mutants.label(n).breaks.startswith(NOT_CALLED)]


@pytest.fixture(scope="module")
def seen() -> dict[str, dict[str, str]]:
    """What each mutant and variant did on the small tensors, from one process."""
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, __file__], capture_output=True, text=True, env=environment, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def requirements() -> dict[str, dict[str, object]]:
    text = (ROOT / "cases" / "requirements.yaml").read_text(encoding="utf-8")
    return {entry["id"]: entry for entry in yaml.safe_load(text)["requirements"]}


@pytest.mark.parametrize("name", mutants.names())
def test_label_is_complete(name: str, requirements: dict[str, dict[str, object]]) -> None:
    """Every mutant says what is wrong, why it is missed, and which known requirement it breaks."""
    label = mutants.label(name)
    paragraphs = (ast.get_docstring(_source(mutants.FOLDER, name)) or "").split("\n\n")
    assert label.fault.startswith("Mutant: ")
    assert label.fault.endswith(".")
    assert len(paragraphs) >= 2, "the second paragraph says why usual tests miss it"
    assert label.modes, f"none of {', '.join(mutants.FUNCTIONS)} is defined"
    assert label.source
    assert label.trigger
    assert label.needs in ("cpu", "gpu")
    assert label.breaks in requirements
    assert requirements[label.breaks].get("needs") != "structural"
    assert requirements[label.breaks]["level"] == "MUST", "a SHOULD only warns: nothing would be caught"


def test_there_are_enough() -> None:
    """The numbers that were promised: mutants, those in Triton, correct variants."""
    in_triton = [n for n in mutants.names() if "@triton.jit" in (mutants.FOLDER / f"{n}.py").read_text()]
    assert len(mutants.names()) >= 36 + 36
    assert len(in_triton) >= 8 + 6
    assert len(variants.names()) >= 14 + 8


def test_no_two_mutants_are_alike() -> None:
    """No two have the same code, names of functions and docstrings aside, or the same fault in words."""
    code: dict[str, str] = {}
    faults: dict[str, str] = {}
    for name in mutants.names():
        tree = _source(mutants.FOLDER, name)
        bodies = [n.body for n in tree.body if isinstance(n, ast.FunctionDef)]
        constants = [
            n
            for n in tree.body
            if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) not in mutants.LABELS
        ]
        key = "\n".join(ast.dump(n) for n in [*constants, *(line for body in bodies for line in body)])
        assert key not in code, f"{name} has the code of {code[key]}"
        fault = mutants.label(name).fault
        assert fault not in faults, f"{name} has the fault of {faults[fault]}"
        code[key] = faults[fault] = name


def test_a_label_without_a_constant_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant without BREAKS is no mutant: the error names the constant."""
    (tmp_path / "half.py").write_text('"""Mutant: x."""\nSOURCE = TRIGGER = ""\nNEEDS = "cpu"\n')
    monkeypatch.setattr(mutants, "FOLDER", tmp_path)
    with pytest.raises(ValueError, match="BREAKS"):
        mutants.label("half")
    with pytest.raises(KeyError, match="half"):
        mutants.load("absent")


@pytest.mark.parametrize("name", variants.names())
def test_variant_says_what_it_is(name: str) -> None:
    """Every variant has a docstring, its conventions by fusion mode, and what it refuses."""
    tree = _source(variants.FOLDER, name)
    constants = {
        ast.unparse(n.targets[0]): ast.literal_eval(n.value)
        for n in tree.body
        if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) in ("CONVENTION", "REFUSES", "WARNS")
    }
    assert (ast.get_docstring(tree) or "").startswith("Variant: ")
    assert constants["CONVENTION"]
    assert set(constants["CONVENTION"]) <= set(MODES)
    assert isinstance(constants["REFUSES"], tuple)
    assert variants.warns(name) == constants.get("WARNS", ())
    for mode, convention in constants["CONVENTION"].items():
        words = convention.split(", ")
        assert words[0] in ("one rounding", "two roundings")
        assert words[1:] in ([[]] if mode == "none" else [["exact sum"], ["rounded sum"], ["mixed"]])


@pytest.mark.parametrize("name", [n for n in _called() if not mutants.label(n).backward])
def test_mutant_is_wrong_somewhere(name: str, seen: dict[str, dict[str, str]]) -> None:
    """A mutant that gives the right result on every small tensor would be an equivalent one."""
    assert seen["mutants"][name], f"{name} was right everywhere"


@pytest.mark.parametrize("name", [n for n in _called() if mutants.label(n).backward])
def test_forward_of_a_backward_mutant_is_right(name: str, seen: dict[str, dict[str, str]]) -> None:
    """So that its failure can be named for the backward alone."""
    assert not seen["mutants"][name]


@pytest.mark.parametrize("name", variants.names())
def test_variant_is_right_everywhere(name: str, seen: dict[str, dict[str, str]]) -> None:
    """A variant agrees with the formula in float64 to three ulp, and changes nothing that it should not."""
    assert not seen["variants"][name]


# --- the calls, in the process of their own ---------------------------------------------------------------


def _inputs():
    """(name, x, residual, weight, eps); eps None means that it is left out."""
    import torch

    torch.manual_seed(0)
    f32, f16, bf16 = torch.float32, torch.float16, torch.bfloat16

    def case(name, x, dtype=f32, eps=1e-5, weight=None, last=None):
        x = x.clone()
        if last is not None:
            x[..., -1] = last
        weight = torch.randn(x.shape[-1]) if weight is None else weight
        if x.shape[-1] > 4:
            weight[3] = 0.0
        residual = 3 * torch.randn(x.shape) * x.nan_to_num().abs().mean() if x.numel() else x.clone()
        return name, x.to(dtype), residual.to(dtype), weight.to(dtype), eps

    jump = torch.tensor([1.0, 64.0, 1.0, 16.0])[:, None]
    for dtype in (f32, f16, bf16):
        yield case("rows of unlike scale", torch.randn(4, 33) * jump, dtype, last=20.0)
        yield case("mean of 3", torch.randn(5, 129) + 3, dtype)
        yield case("small", torch.randn(3, 8) * 1e-3, dtype)
        yield case("eps left out", torch.randn(3, 32) * 0.05, dtype, eps=None)
    yield case("small halves", torch.randn(2, 64) * 1e-3, f16, eps=1e-6)
    yield case("large halves", torch.randn(2, 64) * 1000, f16)
    yield case("beyond halves", torch.randn(2, 64) * 1e6, bf16)
    yield case("two chunks", torch.randn(2, 1025), last=20.0)
    yield case("beyond 8192", torch.randn(2, 8193), last=20.0)
    yield case("beyond 12288", torch.randn(1, 16384))
    yield case("one row", torch.cat([torch.randn(1, 32), 9 * torch.randn(1, 32)], dim=1))
    yield case("one column", torch.randn(4, 1))
    yield case("no rows", torch.zeros(0, 8))
    zeros = torch.randn(3, 9)
    zeros[:, ::3] = 0
    zeros[1] = 0
    yield case("zeros", zeros)
    yield case("all zero", torch.zeros(2, 8))
    yield case("NaN", torch.where(torch.arange(16).reshape(2, 8) == 3, torch.nan, torch.randn(2, 8)))
    yield case("rank 3", torch.randn(2, 3, 8))
    ties = torch.full((1, 8), 1.0).to(bf16)
    yield "ties", ties, torch.full((1, 8), 2.0**-8).to(bf16), torch.ones(8).to(bf16), 1e-5
    name, x, residual, _, eps = case("wide weight", torch.randn(5, 128), bf16)
    yield name, x, residual, torch.randn(128), eps
    name, x, residual, weight, eps = case("wide residual", torch.randn(3, 8), bf16)
    yield name, x, torch.randn(3, 8), weight, eps
    yield from _layouts(case)
    yield case("many rows", torch.randn(65537, 2))


def _layouts(case):
    import torch

    _, x, residual, weight, eps = case("slices", torch.randn(4, 8))
    for sliced in ("x", "residual"):
        wide = torch.zeros(5, 40)
        view = wide[:4, :8]
        view.copy_(x if sliced == "x" else residual)
        pair = (view, residual) if sliced == "x" else (x, view)
        yield f"sliced {sliced}", *pair, weight, eps
    yield "transposed", torch.randn(8, 4).t(), residual, weight, eps
    yield "stepped weight", x, residual, torch.randn(16)[::2], eps
    yield "odd x", torch.randn(33)[1:].view(4, 8), residual, weight, eps
    yield "odd weight", x, residual, torch.randn(9)[1:], eps
    yield "heads", torch.randn(3, 24)[:, :8].view(3, 2, 4), torch.randn(3, 2, 4), torch.randn(4), eps


def _complaint(module, mode, x, residual, weight, eps, ulps):
    """What is wrong about one call, made twice on the same memory with other contents; "" if nothing is."""
    x, residual, weight = _keep(x), _keep(residual), _keep(weight)
    for _ in range(2):
        before, added, factor = x.clone(), residual.clone(), weight.clone()
        try:
            outputs = _call(module, mode, x, residual, weight, eps)
        except Exception as error:
            return f"raised {type(error).__name__}"
        total = before.double() if mode == "none" else before.double() + added.double()
        y = total / (total.square().mean(-1, keepdim=True) + (1e-6 if eps is None else eps)).sqrt()
        wanted = [(y * (factor.double() + _offset(module, mode)), before.dtype, ulps)]
        if mode != "none":
            wanted.append((total.float().double(), added.dtype, 0.0))
        for output, (value, dtype, allowed) in zip(outputs, wanted, strict=True):
            told = _differs(output, value, dtype, allowed)
            if told:
                return told
        if not _same(weight, factor):
            return "the weight was changed"
        if mode != "residual_in_place":
            if not _same(x, before) or not _same(residual, added):
                return "an input was changed"
            if x.numel() and any(o.data_ptr() == x.data_ptr() for o in outputs):
                return "an output is an input"
        x.copy_(before.flip(-1) * 0.5)
        residual.copy_(added)
        weight.copy_(factor.flip(0) + 1)
    return ""


def _keep(tensor):
    """A copy with the same strides and the same misalignment."""
    import torch

    first = tensor.storage_offset()
    flat = torch.as_strided(tensor, (tensor.untyped_storage().nbytes() // tensor.element_size(),), (1,), 0)
    return torch.as_strided(flat.clone(), tensor.shape, tensor.stride(), first)


def _call(module, mode, x, residual, weight, eps):
    function = {"none": "rms_norm", "residual": "fused_add_rms_norm"}.get(mode, "fused_add_rms_norm_")
    keywords = {} if eps is None else {"eps": eps}
    if mode == "none":
        y = getattr(module, function)(x, weight, **keywords)
        return (y[0] if _declares(module, mode, "rrms") else y,)
    if mode == "residual":
        outputs = getattr(module, function)(x, residual, weight, **keywords)
        return outputs[:2] if _declares(module, mode, "rrms") else outputs
    getattr(module, function)(x, residual, weight, **keywords)
    return x, residual


def _declares(module, mode, output):
    """Whether the module declares that this output comes back as well."""
    return hasattr(module, "IMPLEMENTATION") and output in module.IMPLEMENTATION.calls[mode].returns


def _offset(module, mode):
    return module.IMPLEMENTATION.calls[mode].weight_offset if hasattr(module, "IMPLEMENTATION") else 0.0


def _differs(output, value, dtype, ulps):
    import torch

    if not isinstance(output, torch.Tensor):
        return f"a {type(output).__name__} came back"
    if output.shape != value.shape or output.dtype != dtype:
        return f"{tuple(output.shape)} {output.dtype} came back"
    rounded = value.float().to(dtype)
    if ulps == 0.0:
        return "" if _same(output, rounded) else "not exact"
    error = (output.double() - value).abs()
    limit = ulps * torch.finfo(dtype).eps * value.abs() + 1e-40
    if dtype == torch.float16:
        limit += 2.0**-24
    finite = value.isfinite() & rounded.isfinite()
    if not torch.equal(output.isnan(), value.isnan()) or (error > limit)[finite].any():
        return "other values"
    return ""


def _same(a, b):
    import torch

    return torch.equal(a.isnan(), b.isnan()) and torch.equal(a.nan_to_num(), b.nan_to_num())


def _main() -> None:
    import torch

    from conformance.processes import interpreter

    interpreter.repair()
    torch.set_num_threads(1)
    inputs = list(_inputs())
    seen: dict[str, dict[str, str]] = {"mutants": {}, "variants": {}}
    for package, ulps, names in ((mutants, 0.75, _called()), (variants, 3.0, variants.names())):
        kind = package.__name__.rsplit(".", 1)[1]
        for name in names:
            seen[kind][name] = _first_complaint(package.load(name), name, inputs, ulps, kind == "variants")
    print(json.dumps(seen))


def _first_complaint(module, name, inputs, ulps, right):
    """The first input on which a module is wrong, and how; a variant may refuse, and rounds as it likes."""
    import torch

    in_triton = "triton" in vars(module)
    for mode in MODES:
        function = {v: k for k, v in mutants.FUNCTIONS.items()}[mode]
        if not hasattr(module, function) or isinstance(getattr(module, function), type):
            continue
        if name == "other_names":
            continue
        for label, x, residual, weight, eps in inputs:
            if (in_triton and x.shape[0] > 100) or (right and _differs_by_declaration(module, x, weight)):
                continue
            # fp32 sums of any order are within 20 ulp here; Triton's order is not torch's.
            allowed = 20.0 if x.dtype == torch.float32 else (ulps if not in_triton else max(ulps, 1.0))
            told = _complaint(module, mode, x, residual, weight, eps, allowed)
            if told and not (right and told.startswith("raised") and module.REFUSES):
                return f"{mode}, {label}, {x.dtype}: {told}"
    return ""


def _differs_by_declaration(module, x, weight):
    """A declared promotion changes the dtype of y: the suite judges that one."""
    calls = module.IMPLEMENTATION.calls.values() if hasattr(module, "IMPLEMENTATION") else ()
    return any(call.promotes for call in calls) and weight.dtype != x.dtype


if __name__ == "__main__":
    _main()
