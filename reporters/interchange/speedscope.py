"""speedscope's JSON: the call's frames of every case that has a cause, a profile for each source and side.

The format is https://www.speedscope.app/file-format-schema.json, "sampled" profiles: stacks, and what the innermost
frame of each takes by itself.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from opduel.records import Comparison, Examination, Frame, Report
from opduel.records.measurement import SIDES, Side
from opduel.reporters.formats import Rendered
from opduel.reporters.interchange.cases import kept_cases
from opduel.reporters.text import escaped

SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_UNITS = {"ns": "nanoseconds", "bytes": "bytes"}


def to_speedscope(report: Report, side: Side | None = None) -> Rendered:
    """Return both sides' profiles, or one side's, of cases with a flame graph."""
    comparisons, left_out = kept_cases(report, lambda case: "" if has_frames(case) else "without a flame graph")
    places: dict[str, int] = {}  # of names among the frames
    profiles = [
        _profile(comparison.case, examination, shown_side, places)
        for comparison in comparisons
        for examination in (comparison.cause.examinations if comparison.cause else ())
        for shown_side in ((side,) if side else SIDES)
        if examination.flame
    ]
    document = {
        "$schema": SCHEMA,
        "exporter": "opduel",
        "name": f"{report.treatment.requested} against {report.control.requested}",
        "shared": {"frames": [{"name": name} for name in places]},
        "profiles": profiles,
    }
    return Rendered(json.dumps(document, ensure_ascii=False, allow_nan=False) + "\n", left_out)


def has_frames(comparison: Comparison) -> bool:
    """Return whether there is a flame graph of the case."""
    return comparison.cause is not None and any(examination.flame for examination in comparison.cause.examinations)


def _profile(case: str, examination: Examination, side: Side, places: dict[str, int]) -> dict[str, Any]:
    stacks = [(path, weight) for path, weight in _stacks(examination.flame, side) if weight > 0]
    return {
        "type": "sampled",
        "name": escaped(f"{case}, {examination.source}, {side}"),
        "unit": _UNITS.get(examination.unit, "none"),
        "startValue": 0,
        "endValue": sum(weight for _, weight in stacks),
        "samples": [[places.setdefault(escaped(frame), len(places)) for frame in path] for path, _ in stacks],
        "weights": [weight for _, weight in stacks],
    }


def _stacks(frames: Sequence[Frame], side: Side) -> Iterator[tuple[tuple[str, ...], float]]:
    """Yield each frame's stack, and its amount on that side without that of the frames within."""
    path: list[tuple[str, float]] = []  # of the frames around, what is left of each
    for frame in [*frames, Frame("", 0, 0.0, 0.0)]:
        amount = frame.control if side == "control" else frame.treatment
        while len(path) > frame.depth:
            yield tuple(name for name, _ in path), path[-1][1]
            path.pop()
        if path:
            path[-1] = path[-1][0], path[-1][1] - amount
        path.append((frame.name, amount))
