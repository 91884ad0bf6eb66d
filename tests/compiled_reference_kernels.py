"""A script: compiles every reference kernel without a GPU and prints what came out, as JSON.

A line of JSON: {"plain one_tile sm_90": {"ttir": ..., "assembly": ..., "threads": n}, ...}, and under
"refusal" what a wrapper says to CPU tensors in this process. Run without TRITON_INTERPRET.
"""

from __future__ import annotations

import json

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from reference_kernels import (
    fused_add_rms_norm_forward,
    launch,
    rms_norm,
    rms_norm_forward,
)

TARGETS = {
    "sm_90": (GPUTarget("cuda", 90, 32), "ptx", "bf16", "fp16"),
    "gfx942": (GPUTarget("hip", "gfx942", 64), "amdgcn", "fp16", "bf16"),
}
WIDTHS = {"one_tile": 4097, "looped": 20000, "tiled": 100}
NORMS = {"plain": rms_norm_forward, "fused": fused_add_rms_norm_forward}


def compile_kernel(kernel, dtype: str, weight_dtype: str, width: int, target: GPUTarget):
    how = launch.configure(width, target.warp_size)
    constants = {
        "HAS_WEIGHT": True,
        "SAVE_RRMS": True,
        "TILE_ROWS": how.tile_rows,
        "BLOCK_SIZE": how.block_size,
    }
    dtypes = {"weight_ptr": weight_dtype, "rrms_ptr": "fp32", "eps": "fp32"}
    signature = {}
    for name in kernel.arg_names:
        if name in constants:
            signature[name] = "constexpr"
        elif name.endswith("_ptr"):
            signature[name] = "*" + dtypes.get(name, dtype)
        else:
            signature[name] = dtypes.get(name, "i32")
    present = {name: value for name, value in constants.items() if name in kernel.arg_names}
    source = ASTSource(kernel, signature, present)
    return triton.compile(source, target=target, options=how.options), how


def main() -> None:
    out: dict[str, object] = {}
    for norm, module in NORMS.items():
        for kind, (kernel, _) in module._KERNELS.items():
            for name, (target, assembly, dtype, weight_dtype) in TARGETS.items():
                try:
                    compiled, how = compile_kernel(kernel, dtype, weight_dtype, WIDTHS[kind], target)
                except Exception as error:
                    if "ROCm linker" not in str(error):
                        raise
                    out[f"{norm} {kind} {name}"] = {"no linker": str(error)}  # Triton before 3.3
                    continue
                out[f"{norm} {kind} {name}"] = {
                    "arguments": [n for n in kernel.arg_names if not n.isupper() or n == "H"],
                    "ttir": compiled.asm["ttir"],
                    "assembly": compiled.asm[assembly],
                    "threads": how.num_warps * target.warp_size,
                }
    try:
        rms_norm(torch.ones(2, 8))
    except ValueError as error:
        out["refusal"] = str(error)
    print(json.dumps(out))


if __name__ == "__main__":
    main()
