"""What the specification asks of a backward kernel's text, where outputs cannot show it: source and TTIR."""

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
LESSONS = sorted([*FOLDER.glob("rms_norm_backward*.py"), FOLDER / "dweight_reduce.py"])
ROW_KINDS = ("one_tile", "halved", "columns", "tiled")  # these give dx and partial sums of dweight
KINDS = (*ROW_KINDS, "projection", "reduce")
TARGETS = ("sm_80", "sm_90", "sm_100", "gfx90a", "gfx942", "gfx950")
STRIDES = {
    "%dy_ptr": "%dy_row_stride",
    "%x_ptr": "%row_stride",
    "%dresidual_out_ptr": "%dresidual_out_row_stride",
    "%dx_ptr": "%dx_row_stride",
    "%dresidual_ptr": "%dresidual_row_stride",
}


@pytest.fixture(scope="module")
def compiled() -> dict[str, dict[str, object]]:
    pytest.importorskip("triton", reason="the kernels are compiled, without a GPU")
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    paths = filter(None, [str(ROOT), environment.get("PYTHONPATH", "")])
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "compiled_backward_kernels.py")],
        env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


@pytest.fixture(params=KINDS)
def kind(request) -> str:
    return request.param


@pytest.fixture
def kernel(compiled, kind) -> Kernel:
    found = compiled[f"{kind} sm_90"]
    return Kernel(found["ttir"], found["arguments"])


@pytest.fixture(params=ROW_KINDS)
def row_kernel(request, compiled) -> Kernel:
    found = compiled[f"{request.param} sm_90"]
    return Kernel(found["ttir"], found["arguments"])


def accesses(kernel: Kernel, name: str) -> list[tuple[str, object]]:
    """(pointer argument, operation) of every load or store."""
    return [(pointer_of(kernel, access), access) for access in kernel.all(name)]


def pointer_of(kernel: Kernel, access) -> str:
    (pointer,) = (n for n in kernel.sources(access.operands[0], access) if n.endswith("_ptr"))
    return pointer


def stored(kernel: Kernel, pointer: str):
    """The one store to a pointer argument."""
    (store,) = (access for name, access in accesses(kernel, "tt.store") if name == pointer)
    return store


# --- TTIR --------------------------------------------------------------------------------------------


def test_rrms_is_read_and_no_root_is_taken(kernel, kind):
    loaded = [pointer for pointer, _ in accesses(kernel, "tt.load")]
    assert ("%rrms_ptr" in loaded) == (kind != "reduce")
    assert not [op for op in kernel.operations if "sqrt" in op.name or "rsq" in op.name]
    assert not [op for op in kernel.all("arith.mulf") if op.operands[0] == op.operands[1]]  # no squares


def test_no_root_in_the_machine_code_either(compiled, kind):
    for target in TARGETS:
        assembly = compiled[f"{kind} {target}"].get("assembly", "")
        assert not re.search(r"rsqrt|v_rsq|v_sqrt|sqrt\.", assembly)


def test_rrms_reaches_dx_and_dweight(row_kernel):
    for pointer in ("%dx_ptr", "%dresidual_ptr"):
        store = stored(row_kernel, pointer)
        assert "%rrms_ptr" in row_kernel.sources(store.operands[1], store)
    # The partial sums leave the loop: the yielded value has dy * x_hat in it.
    (loop_end,) = row_kernel.all("scf.yield")
    assert {"%dy_ptr", "%x_ptr", "%rrms_ptr"} <= row_kernel.sources(loop_end.operands[0], loop_end)


def test_every_access_of_a_row_is_masked_and_loads_fill_with_zero(kernel):
    for pointer, access in [*accesses(kernel, "tt.load"), *accesses(kernel, "tt.store")]:
        if pointer in ("%rrms_ptr", "%projection_ptr"):
            continue  # a number per row: masked in a tile only
        assert len(access.operands) == 3, access.text  # pointer, mask, other; or pointer, value, mask
        if access.name == "tt.load":
            other = kernel.definition(access.operands[2], access)
            assert "arith.constant dense<0.000000e+00>" in other.text
        mask = access.operands[1 if access.name == "tt.load" else 2]
        assert "%H" in kernel.sources(mask, access)


def test_stores_have_the_mask_of_the_load(row_kernel):
    masks = {
        kernel_access[1].operands[1] for kernel_access in accesses(row_kernel, "tt.load")
        if kernel_access[0] in ("%dy_ptr", "%x_ptr", "%dresidual_out_ptr")
    }  # fmt: skip
    for pointer in ("%dx_ptr", "%dresidual_ptr"):
        assert stored(row_kernel, pointer).operands[2] in masks  # the very same value


def test_tiles_mask_their_rows(compiled):
    found = compiled["tiled sm_90"]
    kernel = Kernel(found["ttir"], found["arguments"])
    for pointer, access in [*accesses(kernel, "tt.load"), *accesses(kernel, "tt.store")]:
        if pointer in (*STRIDES, "%rrms_ptr"):
            mask = access.operands[1 if access.name == "tt.load" else 2]
            assert "%n_rows" in kernel.sources(mask, access)


def test_arithmetic_is_float32(kernel):
    assert "f64" not in " ".join(op.text for op in kernel.operations)
    arithmetic = [
        op for op in kernel.operations
        if op.name.startswith(("arith.", "math.")) and re.search(r"\b(b?f16)\b|x(b?f16)", op.text)
    ]  # fmt: skip
    assert {op.name for op in arithmetic} <= {"arith.extf", "arith.truncf", "arith.constant"}
    for pointer, load in accesses(kernel, "tt.load"):
        if pointer in (*STRIDES, "%weight_ptr"):
            users = [op for op in kernel.operations if load.result in op.operands]
            assert {op.name for op in users if kernel.definition(load.result, op) is load} == {"arith.extf"}


def test_dweight_has_two_stages(row_kernel, compiled):
    assert "!tt.ptr<f32>" in stored(row_kernel, "%partials_ptr").text
    found = compiled["reduce sm_90"]
    second = Kernel(found["ttir"], found["arguments"])
    assert {pointer for pointer, _ in accesses(second, "tt.load")} == {"%partials_ptr"}
    assert {pointer for pointer, _ in accesses(second, "tt.store")} == {"%dweight_ptr"}
    (reduction,) = second.all("tt.reduce")
    assert "axis = 0" in reduction.text  # over rows of partial sums, never over columns
    store = stored(second, "%dweight_ptr")
    assert second.definition(store.operands[1], store).name == "arith.truncf"


def test_partial_sums_are_stored_once_a_program(row_kernel):
    (loop_end,) = row_kernel.all("scf.yield")
    order = row_kernel.operations
    assert order.index(stored(row_kernel, "%partials_ptr")) > order.index(loop_end)
    assert order.index(stored(row_kernel, "%dx_ptr")) < order.index(loop_end)


def test_nothing_is_atomic(kernel):
    assert not [op for op in kernel.operations if "atomic" in op.name]


def test_dresidual_out_joins_after_the_jacobian(row_kernel):
    (load,) = (a for pointer, a in accesses(row_kernel, "tt.load") if pointer == "%dresidual_out_ptr")
    (widened,) = (op for op in row_kernel.operations if load.result in op.operands)
    (addition,) = (op for op in row_kernel.operations if widened.result in op.operands)
    assert (widened.name, addition.name) == ("arith.extf", "arith.addf")
    (jacobian,) = (operand for operand in addition.operands if operand != widened.result)
    assert {"arith.subf", "%rrms_ptr", "%weight_ptr"} <= row_kernel.sources(jacobian, addition)
    for pointer in ("%dx_ptr", "%dresidual_ptr"):
        store = stored(row_kernel, pointer)
        rounded = row_kernel.definition(store.operands[1], store)
        assert rounded.name == "arith.truncf"
        assert rounded.operands[0] == addition.result
    for reduction in row_kernel.all("tt.reduce"):
        assert "%dresidual_out_ptr" not in row_kernel.sources(reduction.operands[0], reduction)


def test_one_subtraction_and_no_mean(kernel, kind):
    assert len(kernel.all("arith.subf")) == (1 if kind in ROW_KINDS else 0)
    assert not kernel.all("arith.negf")


def test_the_projection_is_divided_by_h(kernel, kind):
    divisions = kernel.all("arith.divf")
    assert len(divisions) == (0 if kind in ("columns", "reduce") else 1)
    for division in divisions:
        assert kernel.sources(division.operands[1], division) <= {"%H", "arith.sitofp", "tt.splat"}
        names = kernel.sources(division.operands[0], division)
        assert "tt.reduce" in names or kind == "projection"


def test_weight_is_read_by_column_only(kernel, kind):
    weights = [access for pointer, access in accesses(kernel, "tt.load") if pointer == "%weight_ptr"]
    assert len(weights) == {"halved": 2, "reduce": 0}.get(kind, 1)
    for load in weights:
        names = kernel.sources(load.operands[0], load)
        assert not {n for n in names if "stride" in n}
        assert "arith.extsi" not in names  # no row, which is 64-bit


def test_row_offsets_are_64_bit_products_with_the_row_stride(kernel, kind):
    for pointer, access in [*accesses(kernel, "tt.load"), *accesses(kernel, "tt.store")]:
        names = kernel.sources(access.operands[0], access)
        assert {n for n in names if "stride" in n} == ({STRIDES[pointer]} if pointer in STRIDES else set())
    products = [
        op for op in kernel.all("arith.muli")
        if any(n == "%H" or "stride" in n for o in op.operands for n in kernel.sources(o, op))
    ]  # fmt: skip
    assert products
    for product in products:
        assert re.search(r"(: i64|xi64>)$", product.text), product.text


def test_the_row_loop_is_pipelined(row_kernel, compiled):
    for kind in ROW_KINDS:
        stages = re.search(r"tt.num_stages = (\d+)", compiled[f"{kind} sm_90"]["ttir"])
        assert int(stages.group(1)) >= 3
        assert "cp.async" in compiled[f"{kind} sm_90"]["assembly"]


def test_machine_code_fits_its_target(compiled, kind):
    for target in TARGETS:
        found = compiled[f"{kind} {target}"]
        if "no linker" in found:
            assert target.startswith("gfx")
            continue
        assert found["threads"] <= 1024
        assert found["shared"] < found["most_shared"]
        if target.startswith("gfx"):
            assert re.search(r"\.vgpr_spill_count:\s*0\b", found["assembly"])
            assert re.search(r"\.private_segment_fixed_size:\s*0\b", found["assembly"])


# --- source ------------------------------------------------------------------------------------------


def kernel_of(path: Path) -> ast.FunctionDef:
    (function,) = (
        node for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.endswith("_kernel")
    )  # fmt: skip
    return function


def test_lessons_are_numbered_without_a_gap():
    numbers = []
    for path in FOLDER.glob("*.py"):
        lesson = re.match(r"Lesson (\d+)\. ", ast.get_docstring(ast.parse(path.read_text())) or "")
        numbers += [int(lesson.group(1))] if lesson else []
    assert sorted(numbers) == list(range(1, 15))


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_a_lesson_has_the_specifications_names_and_no_bias(path):
    function = kernel_of(path)
    names = [argument.arg for argument in function.args.args]
    assert not [name for name in names if "bias" in name or "mean" in name or name == "eps"]
    assert "H" in names
    if path.stem != "dweight_reduce":
        assert {"dy_ptr", "x_ptr", "weight_ptr", "rrms_ptr", "row_stride", "dy_row_stride"} <= set(names)
    constants = {a.arg for a in function.args.args if a.annotation is not None}
    assert {name for name in names if name.isupper()} - {"H"} == constants
    for decorator in function.decorator_list:
        assert ast.unparse(decorator).split("(")[0] == "triton.jit"
    text = ast.get_docstring(ast.parse(path.read_text()))
    for word in ("Bytes", "dtypes ", "weight ", "(hidden_size,)", "bias ", "dbias"):
        assert word in text
    if path.stem != "dweight_reduce":
        assert "inside the root" in text
        assert "rrms, the reciprocal, is read" in text
