"""A report's ``host``: the machine and its noise, with what the fields mean."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from pydantic import TypeAdapter


class Record:
    """A part of a report's ``run`` or ``host``: whoever writes it and whoever reads it has one model.

    Readers validate a document by pydantic: a missing field has its default, an unknown one is ignored.
    """

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Return the record of plain data. ValueError: a value has another type than its field."""
        return cls._adapter().validate_python(values)

    @classmethod
    @cache  # making an adapter takes milliseconds
    def _adapter(cls) -> "TypeAdapter[Self]":
        from pydantic import TypeAdapter

        return TypeAdapter(cls)


@dataclass(frozen=True, kw_only=True)
class MeasureRecord(Record):
    """The ``min``, ``max`` and ``mean`` of a measure over the samples, or over the intervals between them; the mean of
    a share is over the whole time."""

    min: float
    max: float
    mean: float


@dataclass(frozen=True, kw_only=True)
class NoiseRecord(Record):
    """The host's noise over a time, sampled at most twice a second. For a resumed run, ``before`` is that of the
    last start, and ``during`` and ``verifying`` cover all parts, without the time between them."""

    samples: int | None = None
    """number of samples"""
    seconds: float
    """from the first to the last sample"""
    load: MeasureRecord | None = None
    """tasks running or waiting, the kernel's average over a minute"""
    cpu_pressure: MeasureRecord | None = None
    """share of time in which a task waited for a CPU; of a lone sample the kernel's average over 10 s"""
    memory_pressure: MeasureRecord | None = None
    """the same for memory"""
    io_pressure: MeasureRecord | None = None
    """the same for input and output"""
    steal: MeasureRecord | None = None
    """share of all CPUs' time that the hypervisor gave to other guests"""
    other_cpu: MeasureRecord | None = None
    """share of all CPUs' time of processes other than opduel and its workers"""
    neighbours: MeasureRecord | None = None
    """how many of the allowed CPUs such processes kept busy: 0.5 is half of one"""
    stolen: MeasureRecord | None = None
    """how many of the allowed CPUs the hypervisor gave to other guests"""
    available_memory: MeasureRecord | None = None
    """bytes"""
    oom_kills: int | None = None
    """processes that the kernel killed because memory ran out, on the whole host"""


@dataclass(frozen=True, kw_only=True)
class RooflineRecord(Record):
    """The host's peak rates."""

    gflops: Mapping[str, float] = field(default_factory=dict)
    """10^9 operations a second of a matrix product, by dtype"""
    gbytes: float | None = None
    """10^9 bytes a second of a copy, reading and writing counted"""
    threads: int | None = None
    """those of the measurement"""
    copied_bytes: int | None = None
    """what was copied at once"""


@dataclass(frozen=True, kw_only=True)
class HostRecord(Record):
    """The machine and its noise. What the host doesn't report is null."""

    name: str | None = None
    """the host's name without its domain, or ``OPDUEL_HOST_NAME``"""
    cpu_model: str | None = None
    """the CPU's name"""
    gpus: tuple[str, ...] = ()
    """models of NVIDIA's GPUs"""
    logical_cpus: int | None = None
    """CPUs of the host"""
    allowed_cpus: tuple[int, ...] = ()
    """CPUs that opduel may use"""
    governors: tuple[str, ...] | None = None
    """the frequency governors in use; null where there are none, as on most VMs"""
    frequency_mhz: Mapping[str, float | None] | None = None
    """``current``, ``min`` and ``max``"""
    kernel: str | None = None
    """name and release"""
    machine: str | None = None
    """architecture"""
    hypervisor: bool | None = None
    """whether the CPU reports a hypervisor"""
    memory_total: int | None = None
    """bytes"""
    memory_available: int | None = None
    """bytes, when the run began"""
    swap_total: int | None = None
    """bytes"""
    swap_used: int | None = None
    """bytes, when the run began"""
    python: str | None = None
    """the version that opduel runs on"""
    roofline: RooflineRecord | None = None
    """with ``--roofline``"""
    before: NoiseRecord | None = None
    """before the run began"""
    during: NoiseRecord | None = None
    """during the run"""
    verifying: NoiseRecord | None = None
    """while flagged cases were measured again; null if none were"""
