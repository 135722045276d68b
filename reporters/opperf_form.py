"""A single-build run in opperf's own form: operator -> one object for each of its inputs, times in ms, memory in kB.

docs/how-to/coming-from-opperf.md has examples.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from opduel.records.single import SingleReport, SingleResult

MS, KB = 1e6, 1e3  # ns, bytes (opperf's kB are 1000 bytes)
STATISTICS = ("mean", "p50", "p90", "p99", "min", "max", "stdev")


def opperf_results(report: SingleReport) -> dict[str, list[dict[str, Any]]]:
    """``{"add": [{"avg_time_forward_add": ms, ..., "max_storage_mem_alloc_cpu/0": kB, "inputs": {...}}]}``.

    An operator's key is the last part of its name; the whole name, if two of the report's operators share that. Each
    direction has ``avg_time_`` and the like for every one of ``STATISTICS``; ``mean_time_`` is ``avg_time_`` by its
    other name. What failed has its reason under ``failed_<direction>``; what could not be timed has None, and why under
    ``note_<direction>``. Memory is the most of all directions. ``case`` is the id less the direction: no two entries of
    a report have the same.
    """
    names = _names([one.operator for one in report.cases])
    results: dict[str, list[dict[str, Any]]] = {}
    for group in grouped(report.cases):
        name = names[group[0].operator]
        results.setdefault(name, []).append({**opperf_entry(name, group), "case": without_direction(group[0])})
    return results


def without_direction(one: SingleResult) -> str:
    """The id of a case less its direction: that of one input in one dtype, context and mode."""
    return one.case.rpartition("/")[0]


def grouped(cases: Sequence[SingleResult]) -> list[list[SingleResult]]:
    """The cases of one input together: those that differ in direction alone."""
    groups: dict[str, list[SingleResult]] = {}
    for one in cases:
        groups.setdefault(without_direction(one), []).append(one)
    return list(groups.values())


def _names(operators: Sequence[str]) -> Mapping[str, str]:
    last = {operator: operator.rpartition(".")[2] for operator in operators}
    shared = list(last.values())
    return {operator: name if shared.count(name) == 1 else operator for operator, name in last.items()}


def opperf_entry(name: str, group: Sequence[SingleResult]) -> dict[str, Any]:
    """One input's object, from its cases, which differ in direction alone."""
    entry: dict[str, Any] = {}
    memory: dict[str, float] = {}
    for one in group:
        if one.time is not None:
            figures = asdict(one.time)
            entry[f"avg_time_{one.direction}_{name}"] = round(one.time.mean / MS, 6)
            entry.update({f"{key}_time_{one.direction}_{name}": round(figures[key] / MS, 6) for key in STATISTICS})
        elif one.note:
            entry.update({f"{key}_time_{one.direction}_{name}": None for key in ("avg", *STATISTICS)})
            entry[f"note_{one.direction}"] = one.note
        if one.failure is not None:
            entry[f"failed_{one.direction}"] = one.failure.reason
        if one.memory is not None:
            for device, size in {_device(one.context): 0.0, **one.memory}.items():
                memory[device] = max(size, memory.get(device, 0.0))
    entry.update({f"max_storage_mem_alloc_{device}": size / KB for device, size in memory.items()})
    one = group[0]
    return {**entry, "inputs": one.inputs, "dtype": one.dtype, "context": one.context, "mode": one.mode}


def _device(context: str) -> str:
    """A context as the profiler names it: ``cpu/0``, ``gpu/1``."""
    kind, _, number = context.rstrip(")").partition("(")
    return f"{kind}/{number or 0}"
