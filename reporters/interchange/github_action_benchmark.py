"""The JSON that github-action-benchmark reads as ``customSmallerIsBetter``: the treatment's value of every case."""

import json
import math
import statistics
from typing import Any

from records import Comparison, Report
from reporters.document import strict
from reporters.interchange.cases import deciding_samples, one_line, side_values, unique_names
from reporters.interchange.written import Written, counted


def to_github_action_benchmark(report: Report) -> Written:
    """A list of ``{name, unit, value, range, extra}``, one for each case that has a value."""
    kept = [one for one in report.comparisons if _has_value(one)]
    entries = [_entry(one, name) for one, name in zip(kept, unique_names(kept, _in_code), strict=True)]
    text = json.dumps(strict(entries), ensure_ascii=False, allow_nan=False, indent=1)
    left_out = [
        "failed" if one.verdict == "failed" else "without a value" for one in report.comparisons if not _has_value(one)
    ]
    return Written(f"{text}\n", counted(left_out))


def _has_value(one: Comparison) -> bool:
    return one.treatment is not None and math.isfinite(one.treatment)


def _entry(one: Comparison, name: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": name, "unit": _in_code(one.unit), "value": one.treatment}
    values = side_values(deciding_samples(one), "treatment")
    if len(values) > 1:
        lower, _, upper = statistics.quantiles(values, n=4, method="inclusive")
        entry["range"] = f"± {float(upper - lower) / 2!r}"
    entry["extra"] = "\n".join(f"{key}: {value}" for key, value in _told(one).items() if value not in (None, ""))
    return entry


def _told(one: Comparison) -> dict[str, Any]:
    return {
        "verdict": one.verdict,
        "ratio": one.ratio,
        "ci": f"{one.ci[0]!r} to {one.ci[1]!r}" if one.ci else None,
        "control": one.control,
        "rounds": one.rounds,
        "note": one_line(one.note) if one.note.strip() else None,
    }


def _in_code(text: str) -> str:
    """One line that stays within the backticks and the table cell in which the action's comments show it as it is."""
    return one_line(text).replace("`", "'").replace("|", "\\|")
