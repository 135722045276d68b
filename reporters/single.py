"""A single-build run as one strict JSON document, which --baseline reads, and as tables: CSV, Markdown as opperf's, the
screen's, and beside a baseline."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from opduel.records import UsageError, achieved
from opduel.records.single import SINGLE_SCHEMA_VERSION, BaselineComparison, SingleReport, SingleResult
from opduel.reporters.document import json_text
from opduel.reporters.markdown import cell
from opduel.reporters.opperf_form import KB, MS, STATISTICS, group_by_input, opperf_results, without_direction
from opduel.reporters.run_text import one_side_words, roofline_words
from opduel.reporters.text import align, printable
from opduel.reporters.units import ABSENT, human_change, human_size, human_value
from opduel.support.files import LONGEST_REPORT, UnreadableError, parse_json, read_text
from opduel.support.validation import check_version, explain

KIND = "opduel single-build run"
_ADAPTER: TypeAdapter[SingleReport] = TypeAdapter(SingleReport)
_FIX = "give a file that --output_file wrote"
_CASE = ("case", "operator", "direction", "dtype", "context")
CSV_COLUMNS = (
    *_CASE,
    *(f"{name}_ms" for name in STATISTICS),
    *("calls", "rounds", "max_storage_mem_alloc_kb", "gflops", "gbytes", "inputs", "failure", "mode", "note"),
)
_MARKDOWN_HEAD = ("Operator", "Case", "Inputs", "Max Mem Usage (Storage) (kB)")
_WORST_FIRST = ("slower", "failed", "incomparable", "gone", "new", "faster", "within")


def single_text(report: SingleReport) -> str:
    """Return the document, ending in a newline. docs/how-to/single.md has its keys."""
    first = {"kind": KIND, "schema_version": report.schema_version, "results": opperf_results(report)}
    return json_text(first | asdict(report))


def read_single(path: Path) -> SingleReport:
    """Read the report that ``path`` holds. Unknown keys are ignored. Raises UsageError: it can't be read, is no such
    document, or has another schema version."""
    try:
        document = parse_json(read_text(path, LONGEST_REPORT))
    except UnreadableError as error:
        raise UsageError(f"{path}: cannot be read ({error}): {_FIX}") from None
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise UsageError(f"{path}: kind: is not {KIND!r}: {_FIX}")
    check_version(str(path), document, SINGLE_SCHEMA_VERSION, _FIX)
    try:
        return _ADAPTER.validate_python(document)
    except ValidationError as error:
        raise UsageError(f"{path}: {explain(error)}: {_FIX}") from None


def csv_text(report: SingleReport) -> str:
    """Return one line per case under a line of headings; times in ms, memory in kB (1000 bytes), inputs as JSON."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(_csv_row, report.cases))
    return stream.getvalue()


def _csv_row(result: SingleResult) -> dict[str, object]:
    row = {name: getattr(result, name) for name in (*_CASE, "calls", "rounds", "mode", "note")}
    row |= {"inputs": json.dumps(result.inputs, separators=(",", ":"))}
    row |= {"failure": result.failure.reason} if result.failure else {}
    row |= {} if result.memory is None else {"max_storage_mem_alloc_kb": f"{sum(result.memory.values()) / KB:.3f}"}
    if result.time is None:
        return row
    rates = achieved(result.work, result.time.p50) if result.work else None
    for name in ("gflops", "gbytes"):
        rate = getattr(rates, name, None)
        row |= {} if rate is None else {name: f"{rate:.6g}"}
    return row | {f"{name}_ms": f"{getattr(result.time, name) / MS:.6f}" for name in STATISTICS}


def markdown_text(report: SingleReport) -> str:
    """Return opperf's table, a line for each input of an operator, and below it what failed or could not be timed."""
    directions = ("forward", "backward") if any(result.direction for result in report.cases) else ("",)
    names = (f"{direction.capitalize()} " if direction else "" for direction in directions)
    times = [f"{kind} {name}Time (ms)" for name in names for kind in ("Avg", "P50", "P90", "P99")]
    head = [*_MARKDOWN_HEAD, *times]
    lines = ["# Benchmark Results", "", _row(head), _row([":---:"] * len(head))]
    for group in sorted(group_by_input(report.cases), key=lambda group: group[0].operator):
        by_direction = {result.direction: result for result in group}
        sizes = [sum(result.memory.values()) / KB for result in group if result.memory is not None]
        size = f"{max(sizes):.4f}" if sizes else "---"
        cells = [group[0].operator, without_direction(group[0]), json.dumps(group[0].inputs), size]
        cells += [time for direction in directions for time in _markdown_times(by_direction.get(direction))]
        lines.append(_row(cells))
    both = [result for result in report.cases if result.direction == "both" and result.time is not None]
    if both:
        lines += ["", "# Forward and Backward together", "", _row(["Case", "Avg Time (ms)", "P50", "P90", "P99"])]
        lines += [_row([":---:"] * 5), *(_row([result.case, *_markdown_times(result)]) for result in both)]
    failed = [(result.case, result.failure.reason) for result in report.cases if result.failure is not None]
    untimed = [(result.case, result.note) for result in report.cases if result.note]
    for title, cases in (("Failed", failed), ("Not timed", untimed)):
        if cases:
            lines += ["", f"# {title}", "", *(f"- {printable(case)}: {cell(why)}" for case, why in cases)]
    return "\n".join(lines) + "\n"


def _markdown_times(result: SingleResult | None) -> list[str]:
    if result is None or result.time is None:
        return ["---"] * 4
    return [f"{value / MS:.4f}" for value in (result.time.mean, result.time.p50, result.time.p90, result.time.p99)]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def screen_text(report: SingleReport) -> str:
    """Return a table for people: a line per case, in the spec's order, with failures and rates below their case."""
    rows = [["case", "p50", "p90", "p99", "mean", "stdev", "memory", "calls"]]
    notes: dict[int, str] = {}
    for result in report.cases:
        figures = [
            getattr(result.time, name) if result.time else None for name in ("p50", "p90", "p99", "mean", "stdev")
        ]
        memory = ABSENT if result.memory is None else human_size(sum(result.memory.values()))
        rows.append([result.case, *(human_value(value, "ns") for value in figures), memory, str(result.calls)])
        rates = one_side_words(result.work, result.time.p50 if result.time else None, report.host.roofline)
        if (
            remark := f"failed: {printable(result.failure.reason)}"
            if result.failure
            else printable(result.note) or rates
        ):
            notes[len(rows) - 1] = f"  {remark}"
    lines = align(rows)
    if roofline := roofline_words(report.host.roofline):
        lines.append(f"roofline of the host: {roofline}")
    return "".join(f"{line}\n" + (f"{notes[number]}\n" if number in notes else "") for number, line in enumerate(lines))


def baseline_text(comparisons: Sequence[BaselineComparison]) -> str:
    """Return the comparison with a baseline: a line per case, the worst first, and a line that counts the verdicts."""
    ordered = sorted(
        comparisons, key=lambda comparison: (_WORST_FIRST.index(comparison.verdict), -(comparison.ratio or 0))
    )
    rows = [["verdict", "case", "change", "then", "now"]]
    for comparison in ordered:
        times = [human_value(value, "ns") for value in (comparison.then_ns, comparison.now_ns)]
        rows.append([comparison.verdict, comparison.case, human_change(comparison.ratio), *times])
    lines = align(rows, left_columns=2)
    notes = [""] + [f"  {printable(comparison.note)}" if comparison.note else "" for comparison in ordered]
    counts = [(verdict, sum(comparison.verdict == verdict for comparison in comparisons)) for verdict in _WORST_FIRST]
    summary = ", ".join(f"{count} {verdict}" for verdict, count in counts if count)
    return "".join(f"{line}{note}\n" for line, note in zip(lines, notes, strict=True)) + f"\n{summary}\n"
