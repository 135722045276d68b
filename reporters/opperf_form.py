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
    """Return ``{"add": [{"avg_time_forward_add": ms, ..., "max_storage_mem_alloc_cpu/0": kB, "inputs": {...}}]}``.

    An operator's key is the last part of its name; the whole name, if two of the report's operators share that. Each
    direction has ``avg_time_`` and the like for every one of ``STATISTICS``; ``mean_time_`` is ``avg_time_`` by its
    other name. What failed has its reason under ``failed_<direction>``; what could not be timed has None, and why under
    ``note_<direction>``. Memory is the most of all directions. ``case`` is the id less the direction: no two entries of
    a report have the same.
    """
    names = _names([result.operator for result in report.cases])
    results: dict[str, list[dict[str, Any]]] = {}
    for group in group_by_input(report.cases):
        name = names[group[0].operator]
        results.setdefault(name, []).append({**opperf_entry(name, group), "case": without_direction(group[0])})
    return results


def without_direction(result: SingleResult) -> str:
    """Return the id of a case without its direction."""
    return result.case.removesuffix(f"/{result.direction}")


def group_by_input(cases: Sequence[SingleResult]) -> list[list[SingleResult]]:
    """Return the cases in groups that differ only in direction."""
    groups: dict[str, list[SingleResult]] = {}
    for result in cases:
        groups.setdefault(without_direction(result), []).append(result)
    return list(groups.values())


def _names(operators: Sequence[str]) -> Mapping[str, str]:
    last = {operator: operator.rpartition(".")[2] for operator in operators}
    shared = list(last.values())
    return {operator: name if shared.count(name) == 1 else operator for operator, name in last.items()}


def opperf_entry(name: str, group: Sequence[SingleResult]) -> dict[str, Any]:
    """Return one input's object, from its cases, which differ only in direction."""
    entry: dict[str, Any] = {}
    memory: dict[str, float] = {}
    for result in group:
        of_what = "_".join(filter(None, (result.direction, name)))
        if result.time is not None:
            figures = asdict(result.time)
            entry[f"avg_time_{of_what}"] = round(result.time.mean / MS, 6)
            entry.update({f"{key}_time_{of_what}": round(figures[key] / MS, 6) for key in STATISTICS})
        elif result.note:
            entry.update({f"{key}_time_{of_what}": None for key in ("avg", *STATISTICS)})
            entry["_".join(filter(None, ("note", result.direction)))] = result.note
        if result.failure is not None:
            entry["_".join(filter(None, ("failed", result.direction)))] = result.failure.reason
        if result.memory is not None:
            least = {_device(result.context): 0.0} if result.context or not result.memory else {}
            for device, size in {**least, **result.memory}.items():
                memory[device] = max(size, memory.get(device, 0.0))
    entry.update({f"max_storage_mem_alloc_{device}": size / KB for device, size in memory.items()})
    result = group[0]
    settings = {key: getattr(result, key) for key in ("dtype", "context", "mode")}
    shown_settings = settings if result.direction else {key: value for key, value in settings.items() if value}
    return {**entry, "inputs": result.inputs, **shown_settings}


def _device(context: str) -> str:
    """Return a context as the profiler names it: ``cpu/0``, ``gpu/1``."""
    kind, _, number = context.rstrip(")").partition("(")
    return f"{kind or 'cpu'}/{number or 0}"
