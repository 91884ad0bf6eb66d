"""Second implementations in Triton of faults that the mutants have in torch.

One kernel goes over a row twice, 512 columns at a time. What the faults differ in are its numbers: how many
columns are summed, by what the sum is divided, which eps stands where, and how the weight is read.
"""

from __future__ import annotations

from dataclasses import dataclass

from conformance.mutants import _tile
from conformance.mutants_again import _norm
from conformance.mutants_again._entry import Again

CHUNK = 512


@dataclass(frozen=True)
class Numbers:
    """What one launch is told. inside is the eps under the root, outside the one added to it."""

    summed: int
    divisor: float
    inside: float
    outside: float = 0.0
    root: bool = True
    gain: float = 1.0
    bias: float = 0.0
    offset: float = 0.0
    reversed: bool = False
    row_step: int = 0
    weighted: bool = True


def norm(numbers):
    """The rms_norm whose launches are told numbers(hidden_size, eps)."""

    def rms_norm(x, weight, eps=1e-6):
        _norm.check(x, weight)
        told = numbers(x.shape[-1], eps)
        rows, vector, y = _tile.prepare(x, weight, eps)
        if len(rows):
            from conformance.mutants_again._two_passes import two_passes  # only here is Triton needed

            n_rows, hidden_size = rows.shape
            two_passes[(n_rows,)](
                rows, y, vector, rows.stride(0), hidden_size, told.summed, float(told.divisor), told.inside,
                told.outside, told.gain, told.bias, told.offset if weight is not None else 0.0,
                told.row_step, ROOT=told.root, REVERSED=told.reversed, WEIGHTED=told.weighted,
                BLOCK_SIZE=CHUNK,
            )  # fmt: skip
        return y.reshape(x.shape)

    return {"rms_norm": rms_norm}


AGAIN = (
    Again("eps_outside", r"added to the root", norm(lambda n, e: Numbers(n, n, 0.0, outside=e))),
    Again("eps_omitted", r"eps is left out", norm(lambda n, e: Numbers(n, n, 0.0))),
    Again("eps_squared", r"eps is squared|left out", norm(lambda n, e: Numbers(n, n, e * e))),
    Again("eps_in_the_sum", r"added to the sum of squares", norm(lambda n, e: Numbers(n, n, e / n))),
    Again(
        "divisor_minus_one", r"hidden_size - 1|divided by", norm(lambda n, e: Numbers(n, max(n - 1, 1), e))
    ),
    Again("drops_tail_of_eight", r"leaves out columns", norm(lambda n, e: Numbers(n // 8 * 8, n, e))),
    Again("sums_first_8192", r"leaves out columns", norm(lambda n, e: Numbers(min(n, 8192), n, e))),
    Again("bias_added", r"constant is added", norm(lambda n, e: Numbers(n, n, e, bias=0.01))),
    Again(
        "one_percent_too_large",
        r"but for the factor 1\.0|scaled by 1 \+",
        norm(lambda n, e: Numbers(n, n, e, gain=1.01)),
    ),
    Again("weight_ignored", r"weight is ignored", norm(lambda n, e: Numbers(n, n, e, weighted=False))),
    Again("weight_plus_one", r"1 is added to the weight", norm(lambda n, e: Numbers(n, n, e, offset=1.0))),
    Again(
        "weight_reversed",
        r"read from its end",
        norm(lambda n, e: Numbers(n, n, e, reversed=True)),
        modes=("none",),
    ),
    Again("no_root", r"root is missing", norm(lambda n, e: Numbers(n, n, e, root=False)), modes=("none",)),
    Again(
        "drops_last_column",
        r"leaves out columns",
        norm(lambda n, e: Numbers(n - 1, n, e)),
        modes=("none",),
    ),
)
"""By the mutant's name; the expression of `says` is found in a sentence that states the fault."""
