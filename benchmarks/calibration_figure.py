"""The calibration's figure: how much of an injected slowdown is found, and how much is flagged that isn't there."""

import io
import logging
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from opduel.comparator.calibration import Rate, Row
from opduel.records.atomic import write_atomically

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")  # Okabe and Ito 2008
MARKERS = "os^Dvp"
STYLE = {
    "svg.hashsalt": "opduel",  # ids that are the same every time
    "svg.fonttype": "none",  # text as text: small, and can be searched
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def draw(rows: Sequence[Row], path: Path) -> None:
    """Write ``path``, the same bytes for the same rows."""
    logging.getLogger("matplotlib").setLevel(logging.WARNING)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.2, 3.2), layout="constrained", facecolor="white")  # also where the page is dark
        detection, false = figure.subplots(1, 2, width_ratios=(3, 2))
        thresholds = sorted({row.threshold for row in rows}, reverse=True)
        for index, threshold in enumerate(thresholds):
            own = [row for row in rows if row.threshold == threshold]
            _curve(detection, own, COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)])
            _false_flags(false, own, index, COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)])
        _label(detection, false, rows, thresholds)
        content = io.BytesIO()
        figure.savefig(content, format="svg", metadata={"Date": None, "Creator": None})
    write_atomically(path, content.getvalue())


def _curve(axes: Axes, rows: Sequence[Row], colour: str, marker: str) -> None:
    """Detection against the injected share, for one threshold."""
    points = [(row.share * 100, row.found) for row in rows if row.found.of]
    if points:
        _points(axes, points, colour, marker, "-", f"--threshold {rows[0].threshold * 100:g}%")


def _false_flags(axes: Axes, rows: Sequence[Row], place: int, colour: str, marker: str) -> None:
    """All runs at one threshold: the share of cases that had not changed by more, and were flagged."""
    pooled = Rate(sum(row.false_flags.count for row in rows), sum(row.false_flags.of for row in rows))
    if pooled.of:
        _points(axes, [(float(place), pooled)], colour, marker, "", "")


def _points(axes: Axes, points: Sequence[tuple[float, Rate]], colour: str, marker: str, line: str, label: str) -> None:
    """Shares in per cent with their intervals."""
    middle = [100 * rate.count / rate.of for _, rate in points]
    reach = [
        [share - 100 * rate.interval[0] for share, (_, rate) in zip(middle, points, strict=True)],
        [100 * rate.interval[1] - share for share, (_, rate) in zip(middle, points, strict=True)],
    ]
    places = [place for place, _ in points]
    axes.errorbar(
        places, middle, reach, color=colour, marker=marker, ls=line, capsize=3, ms=4, label=label, clip_on=False
    )


def _label(detection: Axes, false: Axes, rows: Sequence[Row], thresholds: Sequence[float]) -> None:
    """Titles and axes."""
    detection.set_title("injected slowdowns found", loc="left", fontsize=9)
    detection.set_xlabel("injected, %")
    detection.set_ylabel("% of cases, exact 95 % interval")
    detection.set_ylim(0, 102)
    shares = sorted({row.share for row in rows if row.found.of})
    if shares:
        detection.set_xscale("log")
        detection.set_xticks([100 * share for share in shares], [f"{100 * share:g}" for share in shares])
        detection.minorticks_off()
        detection.legend(frameon=False, loc="lower right")
    false.set_title("flagged, though not changed by more", loc="left", fontsize=9)
    false.set_xlabel("threshold, %")
    false.set_xticks(range(len(thresholds)), [f"{100 * threshold:g}" for threshold in thresholds])
    false.set_xlim(-0.5, len(thresholds) - 0.5)
    false.set_ylim(bottom=0)
