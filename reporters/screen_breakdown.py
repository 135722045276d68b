"""Below the screen's table: where the time of a case goes, operator by operator, on either side."""

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from opduel.records import FLAGGED, Breakdown, OperatorTime, Report
from opduel.reporters.summary import not_broken_down_line
from opduel.reporters.text import fold, printable, shorten
from opduel.reporters.units import human_share, human_value

MOST_ROWS = 8
_NAME = (16, 32)  # columns, at least and at most
BREAKDOWN_HEADINGS = ("count", "control", "share", "treatment", "share", "difference")


def breakdown_lines(report: Report, width: int) -> list[Text]:
    """The breakdowns of cases that regressed or improved, or of all if the run was asked for all; may be none."""
    every = report.configuration.breakdown
    lines: list[Text] = []
    for one in report.comparisons:
        if one.breakdown is not None and (every or one.verdict in FLAGGED):
            lines += [Text(""), Text(f"operators of {shorten(printable(one.case), width - 13)}", style="bold")]
            lines += _table(one.breakdown, width)
            if one.breakdown.note:
                words = shorten(printable(f"not profiled: {one.breakdown.note}"), 3 * (width - 4))
                lines += [Text(f"  {piece}") for piece in fold(words, width - 2)]
    if left_out := not_broken_down_line(report):
        lines += [Text(""), *(Text(piece) for piece in fold(left_out, width))]
    return lines


def breakdown_rows(breakdown: Breakdown) -> list[tuple[str, tuple[str, ...]]]:
    """Operators and their cells (``BREAKDOWN_HEADINGS``): those whose time differs most between the sides first; what
    is left is summed up."""
    control = {row.name: row for row in breakdown.control}
    treatment = {row.name: row for row in breakdown.treatment}
    names = sorted(
        control.keys() | treatment.keys(), key=lambda name: (-abs(_ns(treatment, name) - _ns(control, name)), name)
    )
    rows = [(name, _cells(control.get(name), treatment.get(name), breakdown)) for name in names[:MOST_ROWS]]
    if others := names[MOST_ROWS:]:
        sums = [_sum([table[name] for name in others if name in table]) for table in (control, treatment)]
        rows.append((f"{len(others)} others", _cells(sums[0], sums[1], breakdown)))
    return rows


def _table(breakdown: Breakdown, width: int) -> list[Text]:
    rows = breakdown_rows(breakdown)
    if not rows:
        return []
    columns = zip(BREAKDOWN_HEADINGS, *(cells for _, cells in rows), strict=True)
    widths = [max(map(cell_len, column)) for column in columns]
    room = min(max(width - sum(widths) - 2 * len(widths) - 2, _NAME[0]), _NAME[1])
    lines = [Text(_line("operator", room, BREAKDOWN_HEADINGS, widths), style="bold")]
    return lines + [Text(_line(printable(name), room, cells, widths)) for name, cells in rows]


def _line(name: str, room: int, cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = ("  " + " " * (space - cell_len(cell)) + cell for cell, space in zip(cells, widths, strict=True))
    return "  " + set_cell_size(shorten(name, room), room) + "".join(padded)


def _ns(table: dict[str, OperatorTime], name: str) -> float:
    return table[name].ns if name in table else 0.0


def _sum(rows: Sequence[OperatorTime]) -> OperatorTime:
    return OperatorTime("", sum(row.count for row in rows), sum(row.ns for row in rows), sum(row.share for row in rows))


def _cells(control: OperatorTime | None, treatment: OperatorTime | None, breakdown: Breakdown) -> tuple[str, ...]:
    """Count (of both sides where they differ), time and share of either side, and the difference."""
    counts = list(dict.fromkeys(f"{row.count:g}" for row in (control, treatment) if row is not None))
    cells = ["/".join(counts)]
    for row in (control, treatment):
        cells += [human_value(row.ns if row else None, "ns"), human_share(row.share if row else None)]
    if not (breakdown.control and breakdown.treatment):
        return (*cells, "-")
    difference = (treatment.ns if treatment else 0.0) - (control.ns if control else 0.0)
    return (*cells, ("+" if difference > 0 else "-" if difference < 0 else "") + human_value(abs(difference), "ns"))
