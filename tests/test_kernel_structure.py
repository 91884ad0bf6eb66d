"""What the specification asks of a kernel's text, where outputs cannot show it: source and TTIR."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from ttir import Kernel

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "reference_kernels"
LESSONS = sorted(FOLDER.glob("*_forward*.py"))
NAMES = [
    f"{norm} {kind} {target}"
    for norm in ("plain", "fused")
    for kind in ("one_tile", "looped", "tiled")
    for target in ("sm_90", "gfx942")
]


@pytest.fixture(scope="module")
def compiled() -> dict[str, dict[str, object]]:
    pytest.importorskip("triton", reason="the kernels are compiled, without a GPU")
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    paths = filter(None, [str(ROOT), environment.get("PYTHONPATH", "")])
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "compiled_reference_kernels.py")],
        env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


@pytest.fixture(params=NAMES)
def name(request, compiled) -> str:
    if "no linker" in compiled[request.param]:
        pytest.skip(f"this Triton brings no linker for AMD: {compiled[request.param]['no linker']}")
    return request.param


@pytest.fixture
def kernel(compiled, name) -> Kernel:
    return Kernel(compiled[name]["ttir"], compiled[name]["arguments"])


def wide(operation) -> bool:
    """A load or store of a row, not of one number per row."""
    return re.search(r"tensor<(\d+x)*\d+x!tt.ptr<(bf16|f16)>>", operation.text) is not None


def pointers_of(kernel: Kernel, access) -> set[str]:
    """The pointer arguments that an access's address was computed from: one, if all is well."""
    return {n for n in kernel.sources(access.operands[0], access) if n.endswith("_ptr")}


# --- TTIR --------------------------------------------------------------------------------------------


def test_every_row_access_is_masked_and_loads_fill_with_zero(kernel):
    loads, stores = kernel.all("tt.load"), kernel.all("tt.store")
    assert len(loads) >= 2
    for load in loads:
        assert wide(load)
        assert len(load.operands) == 3, load.text  # pointer, mask, other
        other = kernel.definition(load.operands[2], load)
        assert other is not None
        assert "arith.constant dense<0.000000e+00>" in other.text
    row_stores = [store for store in stores if wide(store)]
    assert len(row_stores) >= 1
    for store in row_stores:
        assert len(store.operands) == 3, store.text  # pointer, value, mask


def test_stores_have_the_mask_of_the_load(kernel, name):
    masks: dict[str, set[str]] = {}
    for access in [*kernel.all("tt.load"), *kernel.all("tt.store")]:
        if wide(access):
            (pointer,) = pointers_of(kernel, access)
            mask = access.operands[1 if access.name == "tt.load" else 2]
            masks.setdefault(pointer, set()).add(kernel.definition(mask, access).text)
            names = kernel.sources(mask, access)
            assert "%H" in names
            if "tiled" in name and pointer != "%weight_ptr":  # weight has no rows
                assert {"%n_rows", "tt.get_program_id"} <= names
    fused = {"%residual_ptr", "%residual_out_ptr"} if "fused" in name else set()
    assert set(masks) == {"%x_ptr", "%y_ptr", "%weight_ptr"} | fused
    for output in {"%y_ptr", "%residual_out_ptr"} & set(masks):
        assert len(masks[output]) == 1
        assert masks[output] <= masks["%x_ptr"]  # the very same value, not only an equal one


def test_arithmetic_is_float32(kernel):
    arithmetic = [
        op for op in kernel.operations
        if op.name.startswith(("arith.", "math.")) and re.search(r"\b(b?f16|f64)\b|x(b?f16|f64)", op.text)
    ]  # fmt: skip
    assert {op.name for op in arithmetic} == {"arith.extf", "arith.truncf", "arith.constant"}
    for load in kernel.all("tt.load"):
        users = [op for op in kernel.operations if load.result in op.operands]
        assert users
        assert {op.name for op in users if kernel.definition(load.result, op) is load} == {"arith.extf"}


def test_the_sum_is_float32_over_squares_of_the_row(kernel):
    (reduction,) = kernel.all("tt.reduce")
    loops, summed = kernel.all("scf.for"), reduction
    if loops:  # the partial sums come out of the first loop
        assert reduction.operands[0] == loops[0].result
        summed = kernel.all("scf.yield")[0]
    names = kernel.sources(summed.operands[0], summed)
    assert {"%x_ptr", "arith.mulf", "arith.extf"} <= names
    assert "%weight_ptr" not in names
    closing = [op for op in kernel.operations if op.name == "tt.reduce.return"]
    assert len(closing) == 1
    assert closing[0].text.endswith(": f32")
    squares = [op for op in kernel.all("arith.mulf") if op.operands[0] == op.operands[1]]
    assert len(squares) == 1
    assert "f32" in squares[0].text


def test_divided_by_h_with_eps_inside_the_root(kernel):
    (root,) = kernel.all("math.rsqrt")
    inside = kernel.definition(root.operands[0], root)
    assert inside.name == "arith.addf"
    mean, eps = (kernel.definition(operand, inside) for operand in inside.operands)
    assert mean.name == "arith.divf"
    assert "%eps" in (inside.operands[1], *(eps.operands if eps else ()))
    divisor = kernel.sources(mean.operands[1], mean)
    assert "%H" in divisor
    assert divisor <= {"%H", "arith.sitofp", "tt.splat"}
    assert kernel.definition(mean.operands[0], mean).name == "tt.reduce"


def test_nothing_is_subtracted_and_no_bias_added(kernel, name):
    assert not kernel.all("arith.subf")
    assert not kernel.all("arith.negf")
    assert len(kernel.all("tt.reduce")) == 1
    # Additions: the residual (once a pass), eps, the reduction, and the looped partial sums.
    additions = len(kernel.all("arith.addf"))
    looped = "looped" in name
    fused = (2 if looped else 1) if "fused" in name else 0
    assert additions == 2 + fused + looped


def test_residual_is_added_in_float32_before_squaring(kernel, name):
    if "fused" not in name:
        return
    square = next(op for op in kernel.all("arith.mulf") if op.operands[0] == op.operands[1])
    total = kernel.definition(square.operands[0], square)
    assert total.name == "arith.addf"
    loaded = [kernel.definition(operand, total) for operand in total.operands]
    assert [op.name for op in loaded] == ["arith.extf", "arith.extf"]
    pointers = [{s for s in kernel.sources(op.operands[0], op) if s.endswith("_ptr")} for op in loaded]
    assert pointers == [{"%x_ptr"}, {"%residual_ptr"}]
    # What is multiplied into y is that sum, not what was stored of it.
    store = [op for op in kernel.all("tt.store") if "%y_ptr" in kernel.sources(op.operands[0], op)]
    assert len(store) == 1
    rounded = kernel.definition(store[0].operands[1], store[0])
    assert rounded.name == "arith.truncf"
    names = kernel.sources(rounded.operands[0], rounded)
    assert {"%x_ptr", "%residual_ptr", "%weight_ptr", "math.rsqrt"} <= names
    assert "arith.truncf" not in names
    assert "%residual_out_ptr" not in names


def test_weight_is_read_by_column_only(kernel):
    weights = [op for op in kernel.all("tt.load") if "%weight_ptr" in kernel.sources(op.operands[0], op)]
    assert len(weights) == 1
    names = kernel.sources(weights[0].operands[0], weights[0])
    assert "tt.get_program_id" not in names
    assert not {n for n in names if "stride" in n}
    assert "tt.make_range" in names
    (x, *_) = (op for op in kernel.all("tt.load") if "%x_ptr" in kernel.sources(op.operands[0], op))
    assert "tt.get_program_id" in kernel.sources(x.operands[0], x)


def test_row_offsets_are_64_bit_products_with_the_row_stride(kernel):
    strides = {"%x_ptr": "%row_stride", "%y_ptr": "%out_stride"}
    strides |= {f"%{n}_ptr": f"%{n}_row_stride" for n in ("residual", "residual_out")}
    for access in [*kernel.all("tt.load"), *kernel.all("tt.store")]:
        names = kernel.sources(access.operands[0], access)
        (pointer,) = (n for n in names if n.endswith("_ptr"))
        if pointer in strides:
            assert {n for n in names if "stride" in n} == {strides[pointer]}
    products = [
        op for op in kernel.all("arith.muli")
        if any("tt.get_program_id" in kernel.sources(operand, op) for operand in op.operands)
    ]  # fmt: skip
    assert products
    for product in products:
        assert re.search(r"(: i64|xi64>)$", product.text), product.text


def test_both_passes_have_the_same_bounds(kernel, name):
    loops = kernel.all("scf.for")
    assert len(loops) == (2 if "looped" in name else 0)
    bounds = {re.search(r"= (%\w+ to %\w+ step %\w+)", loop.text).group(1) for loop in loops}
    assert len(bounds) == (1 if loops else 0)


def test_rrms_is_what_is_saved_and_multiplied(kernel):
    (root,) = kernel.all("math.rsqrt")
    (saved,) = (op for op in kernel.all("tt.store") if "%rrms_ptr" in kernel.sources(op.operands[0], op))
    assert saved.operands[1] == root.result
    assert "!tt.ptr<f32>" in saved.text


def test_machine_code_exists_for_both_vendors(compiled, name):
    assembly = compiled[name]["assembly"]
    assert compiled[name]["threads"] <= 1024
    if name.endswith("sm_90"):
        assert "rsqrt.approx" in assembly
        assert "bf16" in assembly
    else:
        assert "v_rsq_f32" in assembly
        assert re.search(r"\.vgpr_spill_count:\s*0\b", assembly)
        assert re.search(r"\.private_segment_fixed_size:\s*0\b", assembly)


def test_compiled_kernels_refuse_cpu_tensors(compiled):
    assert "x.device=cpu" in compiled["refusal"]
    assert "TRITON_INTERPRET=1" in compiled["refusal"]


# --- source ------------------------------------------------------------------------------------------


@pytest.fixture(params=LESSONS, ids=lambda path: path.stem)
def lesson(request) -> Path:
    return request.param


def kernel_of(path: Path) -> ast.FunctionDef:
    (function,) = (
        node for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.endswith("_kernel")
    )  # fmt: skip
    return function


def test_there_are_six_lessons():
    assert len(LESSONS) == 6
    numbers = sorted(
        int(re.match(r"Lesson (\d+)\. ", ast.get_docstring(ast.parse(path.read_text()))).group(1))
        for path in LESSONS
    )
    assert numbers == [1, 2, 3, 4, 5, 6]


def test_arguments_have_the_specifications_names(lesson):
    function = kernel_of(lesson)
    names = [argument.arg for argument in function.args.args]
    required = {"x_ptr", "y_ptr", "weight_ptr", "rrms_ptr", "row_stride", "out_stride", "H", "eps"}
    if "fused" in lesson.stem:
        required |= {"residual_ptr", "residual_out_ptr"}
        required |= {"residual_row_stride", "residual_out_row_stride"}
    assert required | {"BLOCK_SIZE"} <= set(names)
    assert not [name for name in names if "bias" in name or "mean" in name]
    constants = {a.arg for a in function.args.args if a.annotation is not None}
    assert {"BLOCK_SIZE", "HAS_WEIGHT", "SAVE_RRMS"} <= constants
    assert all(ast.unparse(a.annotation) == "tl.constexpr" for a in function.args.args if a.annotation)


def test_kernels_are_jitted_and_not_autotuned(lesson):
    for decorator in kernel_of(lesson).decorator_list:
        assert ast.unparse(decorator).split("(")[0] == "triton.jit"
    assert "autotune" not in "".join(path.read_text().lower() for path in LESSONS)


def test_the_lesson_states_its_conventions(lesson):
    text = ast.get_docstring(ast.parse(lesson.read_text()))
    for word in ("Bytes per row", "dtypes ", "eps ", "inside the root", "weight ", "bias ", "saved "):
        assert word in text
    assert "(hidden_size,)" in text
    assert "rrms, the reciprocal" in text


def test_loops_share_one_bounds_expression(lesson):
    loops = [node for node in ast.walk(kernel_of(lesson)) if isinstance(node, ast.For)]
    assert len(loops) == (2 if "looped" in lesson.stem else 0)
    assert {ast.unparse(loop.iter) for loop in loops} <= {"range(n_chunks)"}
    assert len({tuple(ast.unparse(line) for line in loop.body[:2]) for loop in loops}) <= 1


def test_only_torch_triton_and_the_standard_library_are_imported():
    allowed = {"torch", "triton"} | set(sys.stdlib_module_names)
    for path in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                assert {alias.name.split(".")[0] for alias in node.names} <= allowed
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                assert node.module.split(".")[0] in allowed
        assert len(path.read_text().splitlines()) <= 220
