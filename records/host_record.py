"""A report's ``host``: the machine and its noise. What a key means stands below it."""

from collections.abc import Mapping
from typing import Any

from opduel.records.json_object import JsonObject


class MeasureRecord(JsonObject):
    """The ``min``, ``max`` and ``mean`` of a measure over the samples, or over the intervals between them; the mean of
    a share is over the whole time."""

    min: float | None = None
    max: float | None = None
    mean: float | None = None


class NoiseRecord(JsonObject):
    """The host's noise over a time, sampled at most twice a second. For a resumed run, ``before`` is that of the
    last start, and ``during`` and ``verifying`` cover all parts, without the time between them."""

    samples: int | None = None
    """number of samples"""
    seconds: float | None = None
    """from the first to the last sample"""
    load: MeasureRecord = MeasureRecord()
    """tasks running or waiting, the kernel's average over a minute"""
    cpu_pressure: MeasureRecord = MeasureRecord()
    """share of time in which a task waited for a CPU; of a lone sample the kernel's average over 10 s"""
    memory_pressure: MeasureRecord = MeasureRecord()
    """the same for memory"""
    io_pressure: MeasureRecord = MeasureRecord()
    """the same for input and output"""
    steal: MeasureRecord = MeasureRecord()
    """share of all CPUs' time that the hypervisor gave to other guests"""
    other_cpu: MeasureRecord = MeasureRecord()
    """share of all CPUs' time of processes other than opduel and its workers"""
    neighbours: MeasureRecord = MeasureRecord()
    """how many of the allowed CPUs such processes kept busy: 0.5 is half of one"""
    stolen: MeasureRecord = MeasureRecord()
    """how many of the allowed CPUs the hypervisor gave to other guests"""
    available_memory: MeasureRecord = MeasureRecord()
    """bytes"""
    oom_kills: int | None = None
    """processes that the kernel killed because memory ran out, on the whole host"""


class HostRecord(JsonObject):
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
    frequency_mhz: Mapping[str, float] | None = None
    """``current``, ``min`` and ``max``"""
    kernel: str | None = None
    """name and release"""
    machine: str | None = None
    """architecture"""
    hypervisor: bool = False
    """whether the CPU reports a hypervisor"""
    memory_total: float | None = None
    """bytes"""
    memory_available: float | None = None
    """bytes, when the run began"""
    swap_total: float | None = None
    """bytes"""
    swap_used: float | None = None
    """bytes, when the run began"""
    python: str | None = None
    """the version that opduel runs on"""
    roofline: Mapping[str, Any] | None = None
    """peak rates, with ``--roofline``: ``gflops`` by dtype and ``gbytes`` a second, ``threads``, ``copied_bytes``"""
    before: NoiseRecord = NoiseRecord()
    """before the run began"""
    during: NoiseRecord = NoiseRecord()
    """during the run"""
    verifying: NoiseRecord = NoiseRecord()
    """while flagged cases were measured again; null if none were"""
