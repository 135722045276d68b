"""A case: one operator, one set of inputs, dtype, context and direction, measured by one metric."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

Direction = Literal["forward", "backward", "both"]
Mode = Literal["imperative", "hybridized"]
MODES: tuple[Mode, ...] = ("imperative", "hybridized")
DEFAULT_MODE: Mode = "imperative"


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


def measure_of(metric: str, unit: str | None, lower_is_better: bool | None) -> Metric:
    """The metric of that name; ``unit`` and ``lower_is_better`` are those of ``value``. KeyError: there is no such
    metric."""
    if metric != VALUE:
        return METRICS[metric]
    return replace(METRICS[VALUE], unit=unit or "", lower_is_better=lower_is_better is not False)


def case_id_for(metric: str, time_id: str) -> str:
    """The id of the case that measures by ``metric`` what the case ``time_id`` measures by time."""
    return time_id if metric == DEFAULT_METRIC else f"{time_id}/{metric}"


KIND_NAME = re.compile(r"[A-Za-z0-9._+-]{1,64}")  # of hosts, as it stands in ids


_OF_KIND = re.compile(rf"(.+)@({KIND_NAME.pattern})(/[a-z_]+)?")


def split_kind(case_id: str) -> tuple[str | None, str]:
    """The kind of host that ends the id, if it ends with one, and the id without it."""
    found = _OF_KIND.fullmatch(case_id)
    return (found[2], found[1] + (found[3] or "")) if found else (None, case_id)


def without_kind(case_id: str, kind: str | None) -> str:
    """The id of the case that is measured on hosts of any kind, of one on hosts of this kind: ``add/forward@avx2`` ->
    ``add/forward``."""
    if kind is None:
        return case_id
    before, mark, behind = case_id.rpartition(f"@{kind}")
    return before + behind if mark else case_id


@dataclass(frozen=True)
class Tolerance:
    """How far two numbers may lie apart and count as equal: ``absolute`` + ``relative`` times the control's. What is
    None follows from the numbers' dtype."""

    relative: float | None = None
    absolute: float | None = None


@dataclass(frozen=True)
class ModelFile:
    """A file that a case needs: where it is, and its checksums, one at least, in lower-case hexadecimal digits.

    ``location`` is an absolute path or a URL (file, http, https); ``member`` names the file within it when it is an
    archive; ``filename`` is what it is called in the cache.  ``path`` is where the file was put on this host: None
    until it has been fetched.
    """

    location: str
    md5: str | None = None
    sha256: str | None = None
    filename: str | None = None
    member: str | None = None
    path: str | None = None


@dataclass(frozen=True)
class Case:
    """One thing to measure on both sides; ``id`` is stable, readable and unique within a run.

    ``inputs`` is plain JSON data keyed by the operator's own argument names; the framework's adaptor in the
    worker turns it into tensors.  ``threshold`` is a share (0.02 for 2 %), ``timeout_s`` bounds one request.
    ``mode`` is how a block runs: as it is, or compiled to a graph first; operators know the default alone.  ``files``
    are those of a saved network, by what they are. ``category`` is the name of the spec that the case is from, as
    ``--category`` has it; None for one that no spec's file has. ``unit`` and ``lower_is_better`` say what the numbers
    of the metric ``value`` mean. ``input_sets`` is how many sets of random inputs timed calls take in turn. ``kind`` is
    of hosts: the case is measured on hosts of this kind alone, and its id says so (``of_kind``); None: on any.
    """

    id: str
    operator: str
    direction: Direction
    inputs: Mapping[str, Any]
    dtype: str
    context: str
    threshold: float
    timeout_s: float
    metric: str = DEFAULT_METRIC
    mode: Mode = DEFAULT_MODE
    tolerance: Tolerance = Tolerance()  # for the metric "error"
    files: Mapping[str, ModelFile] = field(default_factory=dict)
    category: str | None = None
    unit: str | None = None  # of the metric "value"
    lower_is_better: bool | None = None  # for the metric "value"; None: True
    input_sets: int = 1
    kind: str | None = None

    def measured_by(self) -> dict[str, Any]:
        """Return the fields that decide what is measured, by which round logs and journals know a run: no labels."""
        return {name: value for name, value in asdict(self).items() if name not in ("category", "unit")}

    @property
    def measure(self) -> Metric:
        """The case's metric; of ``value`` with the case's own unit and direction. KeyError: there is no such metric."""
        return measure_of(self.metric, self.unit, self.lower_is_better)

    @property
    def on_processor(self) -> bool:
        """Whether it runs on the CPU, and on no other device."""
        return self.context.partition("(")[0] == "cpu"

    @property
    def time_id(self) -> str:
        """The id of the case that measures the same by time, on hosts of any kind. Inputs are drawn from it."""
        own = without_kind(self.id, self.kind)
        return own if self.metric == DEFAULT_METRIC else own.removesuffix(f"/{self.metric}")

    def of_kind(self, kind: str) -> "Case":
        """The case on hosts of this kind: ``add/forward/memory`` becomes ``add/forward@avx2/memory``."""
        metric = without_kind(self.id, self.kind).removeprefix(self.time_id)
        return replace(self, id=f"{self.time_id}@{kind}{metric}", kind=kind)
