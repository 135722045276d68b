"""A single-build run as tables: CSV, Markdown as opperf's, the screen's; and what a baseline says of it."""

import csv
import io
import json
from collections.abc import Sequence

from opduel.records import achieved
from opduel.records.single import BaselineComparison, SingleReport, SingleResult
from opduel.reporters.markdown import cell
from opduel.reporters.opperf_form import KB, MS, STATISTICS, grouped, without_direction
from opduel.reporters.run_text import one_side_words, roofline_words
from opduel.reporters.text import printable
from opduel.reporters.units import ABSENT, human_change, human_size, human_value

CSV_COLUMNS = (
    *("case", "operator", "direction", "dtype", "context"),
    *(f"{name}_ms" for name in STATISTICS),
    *("calls", "rounds", "max_storage_mem_alloc_kb", "gflops", "gbytes", "inputs", "failure", "mode", "note"),
)
MARKDOWN_COLUMNS = (
    *("Operator", "Case", "Inputs", "Max Mem Usage (Storage) (kB)"),
    *(f"{kind} {name} Time (ms)" for name in ("Forward", "Backward") for kind in ("Avg", "P50", "P90", "P99")),
)
_WORST_FIRST = ("slower", "failed", "incomparable", "gone", "new", "faster", "within")


def csv_text(report: SingleReport) -> str:
    """One line a case under a line of headings; times in ms, memory in kB (1000 bytes), inputs as JSON."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for one in report.cases:
        times = ["" if one.time is None else f"{getattr(one.time, name) / MS:.6f}" for name in STATISTICS]
        memory = "" if one.memory is None else f"{sum(one.memory.values()) / KB:.3f}"
        inputs = json.dumps(one.inputs, separators=(",", ":"))
        failure = one.failure.reason if one.failure else ""
        row = [one.case, one.operator, one.direction, one.dtype, one.context, *times]
        writer.writerow([*row, one.calls, one.rounds, memory, *_rates(one), inputs, failure, one.mode or "", one.note])
    return stream.getvalue()


def _rates(one: SingleResult) -> list[str]:
    """10^9 operations and 10^9 bytes a second at the median; empty where the work isn't known."""
    if one.work is None or one.time is None:
        return ["", ""]
    rates = achieved(one.work, one.time.p50)
    return ["" if rate is None else f"{rate:.6g}" for rate in (rates.gflops, rates.gbytes)]


def markdown_text(report: SingleReport) -> str:
    """opperf's table, a line for each input of an operator, and below it what failed or could not be timed."""
    lines = ["# Benchmark Results", "", _row(MARKDOWN_COLUMNS), _row([":---:"] * len(MARKDOWN_COLUMNS))]
    for group in sorted(grouped(report.cases), key=lambda group: group[0].operator):
        by_direction = {one.direction: one for one in group}
        sizes = [sum(one.memory.values()) / KB for one in group if one.memory is not None]
        size = f"{max(sizes):.4f}" if sizes else "---"
        cells = [group[0].operator, without_direction(group[0]), json.dumps(group[0].inputs), size]
        times = [time for name in ("forward", "backward") for time in _markdown_times(by_direction.get(name))]
        lines.append(_row([*cells, *times]))
    both = [one for one in report.cases if one.direction == "both" and one.time is not None]
    if both:
        lines += ["", "# Forward and Backward together", "", _row(["Case", "Avg Time (ms)", "P50", "P90", "P99"])]
        lines += [_row([":---:"] * 5), *(_row([one.case, *_markdown_times(one)]) for one in both)]
    failed = [(one.case, one.failure.reason) for one in report.cases if one.failure is not None]
    untimed = [(one.case, one.note) for one in report.cases if one.note]
    for title, found in (("Failed", failed), ("Not timed", untimed)):
        if found:
            lines += ["", f"# {title}", "", *(f"- {printable(case)}: {cell(why)}" for case, why in found)]
    return "\n".join(lines) + "\n"


def _markdown_times(one: SingleResult | None) -> list[str]:
    if one is None or one.time is None:
        return ["---"] * 4
    return [f"{value / MS:.4f}" for value in (one.time.mean, one.time.p50, one.time.p90, one.time.p99)]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def screen_text(report: SingleReport) -> str:
    """A table for people: a line a case, in the spec's order, what failed below its case."""
    rows = [["case", "p50", "p90", "p99", "mean", "stdev", "memory", "calls"]]
    notes: dict[int, str] = {}
    for one in report.cases:
        figures = [getattr(one.time, name) if one.time else None for name in ("p50", "p90", "p99", "mean", "stdev")]
        memory = ABSENT if one.memory is None else human_size(sum(one.memory.values()))
        rows.append([one.case, *(human_value(value, "ns") for value in figures), memory, str(one.calls)])
        rates = one_side_words(one.work, one.time.p50 if one.time else None, report.host.roofline)
        if said := f"failed: {printable(one.failure.reason)}" if one.failure else printable(one.note) or rates:
            notes[len(rows) - 1] = f"  {said}"
    lines = aligned(rows)
    if roofline := roofline_words(report.host.roofline):
        lines.append(f"roofline of the host: {roofline}")
    return "".join(f"{line}\n" + (f"{notes[number]}\n" if number in notes else "") for number, line in enumerate(lines))


def baseline_text(comparisons: Sequence[BaselineComparison]) -> str:
    """What an earlier result makes of this one: a line a case, the worst first, and a line that counts them."""
    ordered = sorted(comparisons, key=lambda one: (_WORST_FIRST.index(one.verdict), -(one.ratio or 0)))
    rows = [["verdict", "case", "change", "then", "now"]]
    for one in ordered:
        times = [human_value(value, "ns") for value in (one.then_ns, one.now_ns)]
        rows.append([one.verdict, one.case, human_change(one.ratio), *times])
    lines = aligned(rows, left=2)
    notes = [""] + [f"  {printable(one.note)}" if one.note else "" for one in ordered]
    counts = [(verdict, sum(one.verdict == verdict for one in comparisons)) for verdict in _WORST_FIRST]
    summary = ", ".join(f"{count} {verdict}" for verdict, count in counts if count)
    return "".join(f"{line}{note}\n" for line, note in zip(lines, notes, strict=True)) + f"\n{summary}\n"


def aligned(rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Rows of cells as lines: the first ``left`` columns to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = [*["<"] * left, *[">"] * (len(widths) - left)]
    layout = "  ".join(f"{{:{side}{width}}}" for side, width in zip(sides, widths, strict=True))
    return [layout.format(*row).rstrip() for row in rows]
