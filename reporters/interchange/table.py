"""CSV for spreadsheets and analysts: a line a case, or a line a sample. RFC 4180, and no cell is a formula."""

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from opduel.records import Case, Report
from opduel.reporters.document import strict
from opduel.reporters.formats import Rendered
from opduel.reporters.simple_screen import COLUMNS
from opduel.reporters.text import escaped

RUN_COLUMNS = ("run_id", "started", "control_build", "treatment_build")
CASE_COLUMNS = ("dtype", "context", "mode", "inputs")
SAMPLE_COLUMNS = ("stage", "round", "control", "treatment", "log_ratio", "blocks", "calls", "forks")
_MARKED = tuple("=+-@＝＋－＠'")  # how a formula begins in some spreadsheet; and the apostrophe that is the mark


def to_csv(report: Report) -> Rendered:
    """Return a line per case: the run, the columns of the simple screen reporter, and the case's definition."""
    columns, rows = case_rows(report)
    texts = ([*row, None if inputs is None else json.dumps(inputs, ensure_ascii=False)] for *row, inputs in rows)
    return Rendered(_csv(columns, texts))


def to_csv_samples(report: Report) -> Rendered:
    """Return a line per sample, including those of the second measurement, whose stage is ``verification``."""
    return Rendered(_csv(*sample_rows(report)))


def case_rows(report: Report) -> tuple[list[str], Iterator[list[Any]]]:
    """Return the columns, and a row for each case; ``inputs``, the last, is plain data, and unknown values are None."""
    cases = {case.id: case for case in report.cases}
    rows = (
        [
            *_run_cells(report),
            *(value(comparison) for value in COLUMNS.values()),
            *_case_cells(cases.get(comparison.case)),
        ]
        for comparison in report.comparisons
    )
    return [*RUN_COLUMNS, *COLUMNS, *CASE_COLUMNS], rows


def sample_rows(report: Report) -> tuple[list[str], Iterator[list[Any]]]:
    """Return the columns, and a row for each sample, including those of the second measurement (stage
    ``verification``)."""
    return [*RUN_COLUMNS, "case", "metric", "unit", *SAMPLE_COLUMNS], _sample_rows(report)


def text_cell(text: str) -> str:
    r"""Return ``text`` as a cell: tab, newline, return and backslash as \t, \n, \r and \\, other control characters
    as \x..; after an apostrophe if a spreadsheet could take it for a formula, or if it begins with one itself."""
    cell = escaped(text)
    return f"'{cell}" if cell.lstrip(" ").startswith(_MARKED) else cell


def _csv(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return CSV with quoted texts, so that no other separator divides them, unquoted numbers, and empty unknown
    values."""
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(header)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return value if math.isfinite(value) else ""
    return "" if value is None else text_cell(str(value))


def _run_cells(report: Report) -> list[Any]:
    run = report.run
    return [run.id, run.started, report.control.requested, report.treatment.requested]


def _case_cells(case: Case | None) -> list[Any]:
    if case is None:
        return [None] * len(CASE_COLUMNS)
    return [case.dtype, case.context, case.mode, strict(case.inputs)]


def _sample_rows(report: Report) -> Iterator[list[Any]]:
    for comparison in report.comparisons:
        again = comparison.verification.samples if comparison.verification else ()
        samples = [
            *((sample.stage, sample) for sample in comparison.samples),
            *(("verification", sample) for sample in again),
        ]
        for stage, sample in samples:
            values = [getattr(sample, name) for name in SAMPLE_COLUMNS[1:]]
            yield [*_run_cells(report), comparison.case, comparison.metric, comparison.unit, stage, *values]
