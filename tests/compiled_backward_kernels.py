"""A script: compiles every backward kernel without a GPU and prints what came out, as JSON.

A line of JSON: {"one_tile sm_90": {"ttir": ..., "assembly": ..., "threads": n, "shared": n}, ...}. All with
both upstream gradients and every gradient wanted. Run without TRITON_INTERPRET.
"""

from __future__ import annotations

import json

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from reference_kernels import launch_backward
from reference_kernels.dweight_reduce import dweight_reduce_kernel
from reference_kernels.rms_norm_backward import rms_norm_backward_kernel
from reference_kernels.rms_norm_backward_columns import rms_norm_backward_columns_kernel
from reference_kernels.rms_norm_backward_halved import rms_norm_backward_halved_kernel
from reference_kernels.rms_norm_backward_projection import rms_norm_backward_projection_kernel
from reference_kernels.rms_norm_backward_tiled import rms_norm_backward_tiled_kernel

# Target, name of the assembly, dtype of the rows, dtype of the weight, shared memory of a multiprocessor.
TARGETS = {
    "sm_80": (GPUTarget("cuda", 80, 32), "ptx", "fp16", "fp32", 167936),
    "sm_90": (GPUTarget("cuda", 90, 32), "ptx", "bf16", "fp16", 233472),
    "sm_100": (GPUTarget("cuda", 100, 32), "ptx", "bf16", "bf16", 233472),
    "gfx90a": (GPUTarget("hip", "gfx90a", 64), "amdgcn", "bf16", "fp32", 65536),
    "gfx942": (GPUTarget("hip", "gfx942", 64), "amdgcn", "fp16", "bf16", 65536),
    "gfx950": (GPUTarget("hip", "gfx950", 64), "amdgcn", "bf16", "fp16", 163840),
}
KERNELS = {
    "one_tile": (rms_norm_backward_kernel, 4096),
    "halved": (rms_norm_backward_halved_kernel, 16384),
    "columns": (rms_norm_backward_columns_kernel, 32768),
    "tiled": (rms_norm_backward_tiled_kernel, 112),
    "projection": (rms_norm_backward_projection_kernel, 32768),
    "reduce": (dweight_reduce_kernel, 4096),
}
FLOAT32 = ("rrms_ptr", "partials_ptr", "projection_ptr")
CONSTANTS = ("HAS_WEIGHT", "HAS_DRESIDUAL_OUT", "WANTS_DX", "WANTS_DRESIDUAL", "WANTS_DWEIGHT")


def compile_kernel(kind: str, target: GPUTarget, dtype: str, weight_dtype: str, shared: int):
    kernel, width = KERNELS[kind]
    how = launch_backward.choose(width, 6, target.warp_size, shared)
    constants = {
        **dict.fromkeys(CONSTANTS, True),
        "TILE_ROWS": how.tile_rows,
        "STAGES": how.stages,
        "BLOCK_SIZE": how.block_size,
    }
    options = dict(how.options)
    if kind == "projection":
        options = launch_backward.projection_options()
        constants["BLOCK_SIZE"] = options.pop("BLOCK_SIZE")
    if kind == "reduce":
        constants |= {"BLOCK_ROWS": 512, "BLOCK_SIZE": 8}
        options["num_warps"] = 4
    dtypes = dict.fromkeys(FLOAT32, "fp32") | dict.fromkeys(("weight_ptr", "dweight_ptr"), weight_dtype)
    signature, attributes = {}, {}
    for i, name in enumerate(kernel.arg_names):
        if name in constants:
            signature[name] = "constexpr"
            continue
        signature[name] = "*" + dtypes.get(name, dtype) if name.endswith("_ptr") else "i32"
        if name not in ("n_rows", "n_partials"):  # as for tensors of these widths, and no wider
            attributes[(i,)] = [["tt.divisibility", 16]]
    present = {name: value for name, value in constants.items() if name in kernel.arg_names}
    source = ASTSource(kernel, signature, present, attributes)
    return triton.compile(source, target=target, options=options), options["num_warps"], present


def main() -> None:
    out: dict[str, object] = {}
    for kind, (kernel, _) in KERNELS.items():
        for name, (target, assembly, dtype, weight_dtype, shared) in TARGETS.items():
            try:
                compiled, num_warps, constants = compile_kernel(kind, target, dtype, weight_dtype, shared)
            except Exception as error:
                if "ROCm linker" not in str(error):
                    raise
                out[f"{kind} {name}"] = {"no linker": str(error)}  # Triton before 3.3
                continue
            out[f"{kind} {name}"] = {
                "arguments": [n for n in kernel.arg_names if n not in constants],
                "ttir": compiled.asm["ttir"],
                "assembly": compiled.asm[assembly],
                "threads": num_warps * target.warp_size,
                "shared": compiled.metadata.shared,
                "most_shared": shared,
            }
    print(json.dumps(out))


if __name__ == "__main__":
    main()
