"""The values that cross a stage: frozen, comparable, and (but for `Call.function`) JSON.

load gives `Case`s made of `Run`s; plan joins a run with an implementation (`PlannedRun`); run gives an
`Observation`; judge gives `Finding`s and a `Verdict`. Nothing here imports torch, so a report can be read,
merged and judged over again on a machine that has neither torch nor a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

# --- closed vocabularies -------------------------------------------------------------------------------

MODES = ("none", "residual", "residual_in_place")
"""Fusion modes. `none` is the plain norm; the other two are the fused add, functional and in place."""

DTYPES = ("float32", "float16", "bfloat16")
"""The dtypes a case may give to x, residual and weight."""

SHORT_DTYPE = {
    "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float64": "fp64", "int32": "int32",
}  # fmt: skip

TENSORS = ("x", "residual", "weight", "out", "dy", "dresidual_out")
"""The tensors that the suite supplies: `out` only where the call has such a parameter, the last two, the
gradients of y and residual_out, only in a training run."""

OUTPUTS = ("y", "residual_out", "rrms")

GRADIENT_OF = {"x": "dx", "residual": "dresidual", "weight": "dweight"}
"""The inputs that a training run may differentiate by, and what their gradients are called."""

LAYOUT_REQUIREMENTS = ("GRADMODE-DY-LAYOUT", "STRIDE-", "ALIGN-", "DTYPE-")
"""How the ids begin of what a run with features asks of a gradient."""

UPSTREAM_OF = {"y": "dy", "residual_out": "dresidual_out"}
"""The outputs whose gradients may arrive, and the tensors that hold these."""

LAYOUTS = (
    "contiguous",
    "row_slice",  # rows of a wider buffer: row stride > hidden_size, the rows start aligned
    "column_offset",  # the same, but every row starts one element into the wider row
    "odd_base",  # contiguous, but the whole tensor starts one element past an aligned address
    "column_step",  # every second column of a buffer: stride(-1) == 2
    "transposed",  # the transpose of a contiguous (hidden_size, n_rows) tensor
    "expanded",  # one row, expanded over all rows: row stride 0 (an input only)
    "one_element",  # one element, expanded over all: every stride 0, as the gradient of a sum has
    "split_heads",  # rank 3: a (tokens, heads, head_dim) view of a wider (tokens, qkv) buffer
    "int64_stride",  # a row stride beyond 2**31 elements, over memory that is not touched
)

SCENARIOS = (
    "once",  # one call
    "repeat",  # the same call twice on the same contents
    "new_contents",  # a second call with other contents at the same addresses
    "batch",  # the first rows alone, then all rows
    "chain",  # 64 calls, y becoming the next x and residual_out the next residual
    "refuse",  # an argument that cannot be right: raise, or be right by broadcasting
    "retained",  # training: one forward, the backward twice over its retained graph
    "interleaved",  # training: forward of A, forward and backward of B, then the backward of A
    "saved_statistic",  # training: once as it is, once with every saved (n_rows,) tensor doubled
)

VERDICTS = ("pass", "warn", "fail", "crash", "unsupported", "not run", "broken")

GRADES = ("strict", "base")

PROFILES = ("smoke", "inference", "training", "full")


# --- cases ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fill:
    """How one tensor's values are made; see `conformance.numerics.inputs`. Deterministic on every machine.

    kind: `bell` (near normal, unit variance), `uniform` (-1 to 1), `constant` (1), `zeros`. The value is
    (kind * scale + mean) * row_scales[row % len]. Then `zero_every` k sets every k-th column to 0,
    `last_column` sets the last column, `zero_rows` clears rows, and `put` sets single elements, in this
    order. `put` entries are (row, column, value) with value a number or "nan", "inf", "-inf"; negative
    indices count from the end.
    """

    kind: str = "bell"
    seed: int = 1
    scale: float = 1.0
    mean: float = 0.0
    row_scales: tuple[float, ...] = ()
    zero_every: int = 0
    last_column: float | None = None
    zero_rows: tuple[int, ...] = ()
    put: tuple[tuple[int, int, float | str], ...] = ()


@dataclass(frozen=True)
class Run:
    """One expansion of a case: one question, still without an implementation."""

    id: str  # "eps/near[residual,bf16,h=4097]"; stable for ever
    case: str  # "eps/near"
    file: str  # "eps.yaml"
    about: str  # one sentence: the wrong kernel that this exposes
    mode: str  # one of MODES
    shape: tuple[int, ...]  # leading dims and hidden_size; rank 1 to 4
    dtypes: Mapping[str, str]  # x, residual (fused modes), weight (absent: no weight)
    eps: float | None  # None: the argument is left out
    fills: Mapping[str, Fill]  # the keys of dtypes; in a training run also dy, dresidual_out
    layouts: Mapping[str, str]  # TENSORS -> LAYOUTS; a missing key is contiguous
    requirements: tuple[str, ...]  # the first is the one this run was written for
    scenario: str = "once"
    weight_offset: float | None = None  # None: the implementation's own; else passed as an argument
    out: bool = False  # pass an `out` tensor
    fault: str | None = None  # scenario refuse: which argument is wrong (see cases/README.md)
    profiles: tuple[str, ...] = ("inference", "full")
    core: bool = False
    flags: tuple[str, ...] = ()
    cost: int = 0  # elements of x over all calls: decides what a small machine leaves out
    needs: tuple[str, ...] = ()  # "gpu", "memory:<GiB>"
    gradients: tuple[str, ...] = ()  # keys of GRADIENT_OF that require a gradient; () for a forward run
    upstream: tuple[str, ...] = ()  # keys of UPSTREAM_OF whose gradient arrives; () for a forward run

    @property
    def trains(self) -> bool:
        """Whether the run asks for gradients."""
        return bool(self.gradients)

    def dtype_of(self, tensor: str) -> str:
        """The dtype of a tensor that the suite supplies: dy and out have x's, dresidual_out residual's."""
        return self.dtypes[{"dy": "x", "out": "x", "dresidual_out": "residual"}.get(tensor, tensor)]

    @property
    def hidden_size(self) -> int:
        return self.shape[-1]

    @property
    def n_rows(self) -> int:
        rows = 1
        for length in self.shape[:-1]:
            rows *= length
        return rows

    @property
    def features(self) -> tuple[str, ...]:
        """What an implementation may refuse about this run, as sorted words; () for a neutral run.

        A dtype is not in here: x's dtype alone never makes a run special.
        """
        words = [f"{t}:{layout}" for t, layout in self.layouts.items() if layout != "contiguous"]
        if len(self.shape) != 2:
            words.append(f"rank:{len(self.shape)}")
        if len(set(self.dtypes.values())) > 1:
            words.append("dtypes:" + ",".join(f"{k}={v}" for k, v in sorted(self.dtypes.items())))
        if "weight" not in self.dtypes:
            words.append("weight:none")
        if self.out:
            words.append("out")
        if self.weight_offset is not None:
            words.append("weight_offset")
        if self.eps is None:
            words.append("eps:omitted")
        return tuple(sorted(words))


@dataclass(frozen=True)
class Case:
    """One YAML entry with all its expansions."""

    id: str
    file: str
    line: int
    about: str
    runs: tuple[Run, ...]


@dataclass(frozen=True)
class Requirement:
    """One normative sentence of cases/requirements.yaml."""

    id: str
    rank: int  # a failure of several requirements is named for the lowest rank
    level: str  # MUST or SHOULD
    text: str
    why: str
    source: str
    needs: str = "cpu"  # cpu, gpu, or structural: outputs cannot show it

    @property
    def family(self) -> str:
        return self.id.split("-", 1)[0]


# --- implementations -----------------------------------------------------------------------------------

ROLES = (
    "x", "residual", "weight", "eps", "out", "residual_out",
    "normalized_shape", "weight_offset", "zero_centered", "bias", "fixed",
)  # fmt: skip
"""What a parameter of a call can mean. `zero_centered` is a switch for weight_offset 1, `bias` gets None,
`fixed` gets `Parameter.value`."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a vendor's function and the role it plays."""

    name: str
    role: str
    required: bool = True
    keyword: bool = False  # must be passed by name
    value: Any = None  # for role `fixed`: what to pass; for an optional parameter: its default
    nullable: bool = False  # None may be passed


BACKWARD_ROLES = (
    "dy", "dresidual_out", "x", "residual", "residual_out", "weight", "rrms", "eps", "weight_offset", "fixed",
)  # fmt: skip
"""What a parameter of an explicit backward function can mean; residual_out is the sum as it was stored."""


@dataclass(frozen=True)
class Backward:
    """An explicit backward function, where a vendor has one beside the forward instead of autograd.

    Called with tensors by role (BACKWARD_ROLES) after the forward; `rrms` and `residual_out` are what the
    forward returned. An output whose gradient does not arrive is passed as zeros. returns: slot by slot a
    gradient's name (dx, dresidual, dweight), or "" for a slot to ignore.
    """

    function: Callable[..., Any] | None  # None on the suite's side of the process boundary
    parameters: tuple[Parameter, ...]
    returns: tuple[str, ...] = ("dx", "dweight")


@dataclass(frozen=True)
class Call:
    """How one function is called for one fusion mode.

    returns: what comes back, slot by slot: an OUTPUTS name, or "" for a slot to ignore; () for None.
    mutates: which argument is overwritten with which output, e.g. {"x": "y", "residual": "residual_out"}.
    """

    function: Callable[..., Any] | None  # None on the suite's side of the process boundary
    parameters: tuple[Parameter, ...]
    returns: tuple[str, ...] = ("y",)
    mutates: Mapping[str, str] = field(default_factory=dict)
    weight_offset: float = 0.0
    compiled: bool = False  # values are judged without the allocation guard (docs/design.md)
    norm_input: str | None = None  # a declared convention: exact_sum, rounded_sum, mixed
    rounds_x_hat: bool | None = None
    promotes: bool = False  # the output has the promoted dtype of x and weight, and says so
    differentiable: bool | None = None  # whether an output ever requires grad; None: not known
    backward: Backward | None = None  # None: through autograd
    consumes_dy: bool = False  # declares that its backward may overwrite the gradients that arrive

    def parameter(self, role: str) -> Parameter | None:
        return next((p for p in self.parameters if p.role == role), None)


@dataclass(frozen=True)
class Implementation:
    """One thing under test: a name, one `Call` per fusion mode it claims, and what it says of itself."""

    name: str
    calls: Mapping[str, Call]  # mode -> call
    version: str = ""
    package: str = ""  # distribution name, for version and digest
    homepage: str = ""
    issues: str = ""
    dtypes: tuple[str, ...] = DTYPES  # declared capability: cases outside still run, raise or be right
    devices: tuple[str, ...] = ("cpu", "cuda")
    recognised: tuple[str, ...] = ()  # sentences that say how the call was read


# --- planning ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlannedRun:
    """One run for one implementation."""

    implementation: str
    run: Run


@dataclass(frozen=True)
class NotPlanned:
    """A run that cannot be asked here, and why. Verdict `not run` or `unsupported`."""

    implementation: str
    run: Run
    verdict: str
    reason: str


# --- judging -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Finding:
    """What one check says about one requirement.

    severity: `fail`, `warn`, or `info` (reported, never decides). `where` locates the first wrong element:
    {"tensor": "y", "index": [row, column], "actual": ..., "expected": ..., "low": ..., "high": ...}.
    `candidates`: the wrong formulas that give exactly this output, as [name, requirement, sentence].
    """

    check: str
    requirement: str
    severity: str
    message: str
    where: Mapping[str, Any] = field(default_factory=dict)
    candidates: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True)
class Verdict:
    """The outcome of one planned run: what a report line holds."""

    implementation: str
    run: str
    case: str
    mode: str
    dtypes: Mapping[str, str]
    verdict: str
    findings: tuple[Finding, ...] = ()
    reason: str = ""  # unsupported, not run, broken: why
    conventions: tuple[str, ...] = ()  # names of the conventions that explain y
    stats: Mapping[str, float] = field(default_factory=dict)
    obtained: str = "hardware"  # interpreted, compiled, emulated, hardware
    not_covered: tuple[str, ...] = ()  # memory that no guard watched, in words
    core: bool = False
    neutral: bool = True  # the run has no feature that may be refused
    features: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    n_rows: int = 0
    hidden_size: int = 0
    seconds: float = 0.0
    gradients: tuple[str, ...] = ()  # the run's; () for a forward run
    gradient_conventions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # "dx" -> names

    @property
    def failed(self) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.severity == "fail")
