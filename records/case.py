"""A case: one operator, one set of inputs, dtype, context and direction, measured by one metric."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

Direction = Literal["forward", "backward", "both"]
Mode = Literal["imperative", "hybridized"]
MODES: tuple[Mode, ...] = ("imperative", "hybridized")
DEFAULT_MODE: Mode = "imperative"
# What a spec, or a command line, may say of a case.
DTYPES = ("float16", "bfloat16", "float32", "float64", "int8", "int32", "int64", "uint8", "bool")
DIRECTIONS: tuple[Direction, ...] = ("forward", "backward", "both")
CONTEXT_PATTERN = r"^(cpu|gpu)(\((0|[1-9][0-9]{0,2})\))?$"
MAX_INPUT_SETS = 1000


@dataclass(frozen=True)
class Metric:
    """What a number means: its unit, which way is better, and the share from which on a change matters by default.

    ``injectable``: work can be injected that it shows. ``sampled``: it is measured in rounds and judged by statistics;
    what isn't is compared once, against tolerances. ``noisy``: it depends on what else the machine does. ``worse`` and
    ``better`` say which way a changed case went, "slower" and "faster" for times.
    """

    name: str
    unit: str
    lower_is_better: bool
    threshold: float = 0.02
    injectable: bool = False
    noisy: bool = False
    sampled: bool = True
    worse: str = "worse"
    better: str = "better"


DEFAULT_METRIC = "time"
VALUE = "value"
METRICS: Mapping[str, Metric] = {
    "time": Metric("time", "ns", lower_is_better=True, injectable=True, noisy=True, worse="slower", better="faster"),
    "instructions": Metric(
        "instructions", "instructions", True, threshold=0.005, injectable=True, worse="more", better="fewer"
    ),
    "memory": Metric("memory", "bytes", lower_is_better=True, threshold=0.01, worse="larger", better="smaller"),
    "process_memory": Metric("process_memory", "bytes", lower_is_better=True, worse="larger", better="smaller"),
    # Of a process that is run for the case.
    "cpu_time": Metric("cpu_time", "ns", lower_is_better=True, noisy=True, worse="slower", better="faster"),
    # What a benchmark or program reports of itself; its unit, and which way is better, are the case's own.
    VALUE: Metric(VALUE, "", lower_is_better=True, noisy=True),
    "error": Metric("error", "tol", lower_is_better=True, threshold=0.0, sampled=False),
}
SAMPLED = tuple(name for name, metric in METRICS.items() if metric.sampled)
NOISY = tuple(name for name, metric in METRICS.items() if metric.noisy)


def measure_of(metric: str, unit: str | None, lower_is_better: bool | None) -> Metric:
    """Return the metric of a name; ``unit`` and ``lower_is_better`` are those of ``value``. KeyError: there is none."""
    if metric != VALUE:
        return METRICS[metric]
    return replace(METRICS[VALUE], unit=unit or "", lower_is_better=lower_is_better is not False)


def case_id_for(metric: str, time_id: str) -> str:
    """Return the id of the case that measures by ``metric`` what the case ``time_id`` measures by time."""
    return time_id if metric == DEFAULT_METRIC else f"{time_id}/{metric}"


KIND_NAME = re.compile(r"[A-Za-z0-9._+-]{1,64}")  # of hosts, as it stands in ids


_OF_KIND = re.compile(rf"(.+)@({KIND_NAME.pattern})(/[a-z_]+)?")


def split_kind(case_id: str) -> tuple[str | None, str]:
    """Return the kind of host that ends the id (None if it ends with none), and the id without it."""
    match = _OF_KIND.fullmatch(case_id)
    return (match[2], match[1] + (match[3] or "")) if match else (None, case_id)


def without_kind(case_id: str, kind: str | None) -> str:
    """Return the id without the kind of host: ``add/forward`` of ``add/forward@avx2``."""
    if kind is None:
        return case_id
    before, mark, behind = case_id.rpartition(f"@{kind}")
    return before + behind if mark else case_id


@dataclass(frozen=True)
class Tolerance:
    """How far two numbers may differ and count as equal: ``absolute`` + ``relative`` times the control's. Null: by the
    numbers' dtype."""

    relative: float | None = None
    absolute: float | None = None


@dataclass(frozen=True)
class ModelFile:
    """A file that a case needs. It has ``md5``, ``sha256`` or both, in lower-case hexadecimal digits."""

    location: str
    """an absolute path or a URL (file, http, https)"""
    md5: str | None = None
    sha256: str | None = None
    filename: str | None = None
    """its name in the cache"""
    member: str | None = None
    """the file within, if it is an archive"""
    path: str | None = None
    """where it is on this host; null until it has been fetched"""


@dataclass(frozen=True)
class Case:
    """One thing to measure on both sides."""

    id: str
    """readable, unique in the run, and the same in every run"""
    operator: str
    """as the spec names it"""
    direction: Direction | Literal[""]
    """of an operator; like ``context`` and ``mode`` empty for what has none: functions of Python packages, benchmarks,
    statements, programs"""
    inputs: Mapping[str, Any]
    """plain JSON data by the operator's own argument names, as in a spec, with drawn sizes in place of names"""
    dtype: str
    """of tensors without a dtype of their own; empty if there are none"""
    context: str
    """where it runs: ``cpu``, ``gpu(1)``"""
    threshold: float
    """a share: 0.02 is 2 %"""
    timeout_s: float
    """limit for one request"""
    metric: str = DEFAULT_METRIC
    """what is compared"""
    mode: Mode | Literal[""] = DEFAULT_MODE
    """of a block: ``imperative``, or ``hybridized`` to a graph first"""
    tolerance: Tolerance = Tolerance()
    """for ``error``"""
    files: Mapping[str, ModelFile] = field(default_factory=dict)
    """of a saved network, by what they are"""
    category: str | None = None
    """name of the spec that it is from, as ``--category`` takes it; null for inputs of the command line"""
    unit: str | None = None
    """of ``value``"""
    lower_is_better: bool | None = None
    """of ``value``; null if it is"""
    input_sets: int = 1
    """sets of random inputs that timed calls take in turn"""
    kind: str | None = None
    """the kind of host that measures it, with which its id ends (``of_kind``); null for any"""

    def measured_by(self) -> dict[str, Any]:
        """Return the fields that decide what is measured, without labels: round logs and journals identify runs by
        them."""
        return {name: value for name, value in asdict(self).items() if name not in ("category", "unit")}

    @property
    def measure(self) -> Metric:
        """The case's metric; of ``value`` with the case's own unit and direction. KeyError: there is no such metric."""
        return measure_of(self.metric, self.unit, self.lower_is_better)

    @property
    def on_processor(self) -> bool:
        """Whether it runs on the CPU, and on no other device."""
        return self.context.partition("(")[0] in ("", "cpu")

    @property
    def time_id(self) -> str:
        """The id of the case that measures the same by time, on hosts of any kind. Inputs are drawn from it."""
        own = without_kind(self.id, self.kind)
        return own if self.metric == DEFAULT_METRIC else own.removesuffix(f"/{self.metric}")

    def of_kind(self, kind: str) -> "Case":
        """Return the case on hosts of this kind: ``add/forward/memory`` becomes ``add/forward@avx2/memory``."""
        metric = without_kind(self.id, self.kind).removeprefix(self.time_id)
        return replace(self, id=f"{self.time_id}@{kind}{metric}", kind=kind)
