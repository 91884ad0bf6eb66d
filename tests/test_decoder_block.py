"""docs/examples/decoder_block.py: a decoder trains with the bundled kernels; a cleared dweight is seen.

The example runs in processes of its own, since Triton reads TRITON_INTERPRET when it is imported.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "docs" / "examples" / "decoder_block.py"

PERTURBED = """
import decoder_block as example
import torch

BOUND = (4 * example.HIDDEN**0.5 + 8) * 2.0**-24


class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * (1 + BOUND)

    @staticmethod
    def backward(ctx, dy):
        return dy * (1 + BOUND)


def plain(x, weight, eps):
    return Wrong.apply(example.torch_rms_norm(Wrong.apply(x), Wrong.apply(weight), eps))


def fused(x, residual, weight, eps):
    total = x + residual
    return plain(total, weight, eps), total


right, _ = example.train(example.PLAIN, "cpu")
wrong, _ = example.train(example.Norms(plain, fused), "cpu")
print(max(abs(a - b) for a, b in zip(right, wrong)), example.TOLERANCE)
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python on the CPU, where the kernels go through the interpreter."""
    paths = os.pathsep.join([str(ROOT), str(EXAMPLE.parent)])
    environment = {
        **os.environ,
        "TRITON_INTERPRET": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",  # the tensors are tiny
        "PYTHONPATH": paths,
    }
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)


def numbers(output: str) -> tuple[float, float]:
    """Give how far the norms' weights moved, and the largest difference of the losses."""
    moved = re.search(r"norm weights moved by up to (\S+)", output)
    apart = re.search(r"largest difference (\S+), allowed", output)
    assert moved, output
    assert apart, output
    return float(moved[1]), float(apart[1])


def test_the_losses_follow_the_plain_block():
    """50 steps with the bundled kernels: the loss halves, and stays within 1e-4 of the plain block's."""
    done = run(str(EXAMPLE), "--device=cpu")
    assert done.returncode == 0, done.stdout + done.stderr
    moved, apart = numbers(done.stdout)
    assert moved > 0.1
    assert apart <= 1e-4
    rows = re.findall(r"(?m)^ *(\d+) +([\d.]+) +([\d.]+)$", done.stdout)
    assert [int(step) for step, _, _ in rows] == [0, 10, 20, 30, 40, 49]
    first, last = float(rows[0][1]), float(rows[-1][1])
    assert last < 0.6 * first


def test_a_cleared_dweight_is_seen():
    """With dweight cleared the norms' weights stay, and the losses part by a thousand times the tolerance."""
    done = run(str(EXAMPLE), "--device=cpu", "--break=dweight")
    assert done.returncode == 1, done.stdout + done.stderr
    moved, apart = numbers(done.stdout)
    assert moved == 0
    assert apart > 0.1
    assert "LEAVES" in done.stdout


def test_the_tolerance_is_what_the_bound_gives():
    """Norms that err by the whole bound to one side stay within the tolerance, and use a tenth of it."""
    done = run("-c", PERTURBED)
    assert done.returncode == 0, done.stderr
    apart, tolerance = map(float, done.stdout.split())
    assert tolerance / 10 <= apart <= tolerance


@pytest.mark.parametrize("option", ["--break=dx", "--steps=3"])
def test_a_wrong_option_is_refused(option):
    """The command line says what it takes, with argparse's exit code."""
    done = run(str(EXAMPLE), option)
    assert done.returncode == 2
    assert "usage: " in done.stderr
