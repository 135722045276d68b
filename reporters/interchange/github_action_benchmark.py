"""The JSON that github-action-benchmark reads as ``customSmallerIsBetter``: the treatment's value of every case."""

import json
from typing import Any

from opduel.records import Comparison, Report
from opduel.reporters.document import strict
from opduel.reporters.interchange.cases import (
    deciding_samples,
    one_line,
    quartiles,
    side_values,
    unique_names,
    why_without_value,
)
from opduel.reporters.interchange.rendered import Rendered, counted


def to_github_action_benchmark(report: Report) -> Rendered:
    """A list of ``{name, unit, value, range, extra}``, one for each case that has a value."""
    reasons = [why_without_value(one) for one in report.comparisons]
    kept = [one for one, reason in zip(report.comparisons, reasons, strict=True) if not reason]
    entries = [_entry(one, name) for one, name in zip(kept, unique_names(kept, _in_code), strict=True)]
    text = json.dumps(strict(entries), ensure_ascii=False, allow_nan=False, indent=1)
    return Rendered(f"{text}\n", counted(reason for reason in reasons if reason))


def _entry(one: Comparison, name: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": name, "unit": _in_code(one.unit), "value": one.treatment}
    if middle := quartiles(side_values(deciding_samples(one), "treatment")):
        entry["range"] = f"± {(middle[1] - middle[0]) / 2!r}"
    entry["extra"] = "\n".join(f"{key}: {value}" for key, value in _details(one).items() if value is not None)
    return entry


def _details(one: Comparison) -> dict[str, Any]:
    return {
        "verdict": one.verdict,
        "ratio": one.ratio,
        "ci": f"{one.ci[0]} to {one.ci[1]}" if one.ci else None,
        "control": one.control,
        "rounds": one.rounds,
        "note": one_line(one.note) if one.note.strip() else None,
    }


def _in_code(text: str) -> str:
    """One line that stays within the backticks and the table cell in which the action's comments show it as it is."""
    return one_line(text).replace("`", "'").replace("|", "\\|")
