"""hyperfine's JSON, as its --export-json writes it: a result for each side of a case, and times in seconds."""

import shlex
import statistics
from typing import Any

from opduel.records import Case, Comparison, Report
from opduel.records.measurement import SIDES, Side
from opduel.reporters.document import json_text
from opduel.reporters.formats import Rendered
from opduel.reporters.interchange.cases import deciding_samples, kept_cases, side_values, why_without_samples

NANOSECONDS = 1e9


def to_hyperfine(report: Report) -> Rendered:
    """Return two results for each case that was timed, the control's first; a time is that of a round."""
    comparisons, left_out = kept_cases(report, _why_not)
    cases = {case.id: case for case in report.cases}
    results = [
        _result(comparison, cases.get(comparison.case), getattr(report, side).requested, side)
        for comparison in comparisons
        for side in SIDES
    ]
    return Rendered(json_text({"results": results}), left_out)


def _why_not(comparison: Comparison) -> str:
    not_times = "" if comparison.unit == "ns" else f"without times ({comparison.metric})"
    return why_without_samples(comparison) or not_times


def _result(comparison: Comparison, case: Case | None, build: str, side: Side) -> dict[str, Any]:
    times = [value / NANOSECONDS for value in side_values(deciding_samples(comparison), side)]
    inputs = case.inputs if case else {}
    parameters = inputs.get("parameters", {})
    exit_code = 0 if "command" in inputs and inputs.get("exit_codes", [0]) == [0] else None
    return {
        "command": _command(build, inputs.get("command"), parameters) or f"{build}: {comparison.case}",
        "mean": statistics.fmean(times),
        "stddev": statistics.stdev(times) if len(times) > 1 else None,
        "median": statistics.median(times),
        "user": None,
        "system": None,
        "min": min(times),
        "max": max(times),
        "times": times,
        "exit_codes": [exit_code] * len(times),
        **({"parameters": parameters} if parameters else {}),
    }


def _command(build: str, command: list[str] | None, parameters: dict[str, str]) -> str:
    """Return the command line of a program's case; empty for other cases."""
    if not isinstance(command, list):
        return ""
    line = shlex.join(command[1:])
    for name, value in parameters.items():
        build, line = build.replace(f"{{{name}}}", value), line.replace(f"{{{name}}}", value)
    return f"{build} {line}".rstrip()
