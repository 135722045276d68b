"""The screen's table of cases, the worst first; below it, where the time of a case goes, operator by operator."""

from collections.abc import Iterable, Sequence
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from opduel.records import FLAGGED, Breakdown, Comparison, OperatorTime, Report, Verdict
from opduel.reporters.kinds import kinds_table, verdict_text
from opduel.reporters.run_text import confidence_text, rates_words
from opduel.reporters.summary import not_broken_down_line, verdict_counts, worst_first
from opduel.reporters.text import fold, folded_names, printable, shorten
from opduel.reporters.units import human_change, human_interval, human_share, human_value

STYLES: dict[Verdict, str] = {
    "regressed": "bold red",
    "failed": "magenta",
    "inconclusive": "yellow",
    "not_better": "yellow",
    "improved": "green",
    "not_worse": "dim",
    "unchanged": "dim",
}
_GAP = 2  # columns between two columns
_NARROWEST_CASE = 20
_CASE_LINES = 3
_HOST = 12  # columns of a host's name, at most
_KIND = 20  # columns of a kind of host: its name, or "inconclusive +12.3 %"
_MOST_BY_KIND = 20  # rows
_REMARK_LINES = 5  # why a case is open, and what would settle it, must be there whole
_MOST_OPERATORS = 8
_OPERATOR = (16, 32)  # columns of an operator's name, at least and at most
_BREAKDOWN_HEADINGS = ("count", "control", "share", "treatment", "share", "difference")


def cases_lines(comparisons: Sequence[Comparison], alpha: float | None, width: int, roofline: Any = None) -> list[Text]:
    """The table of ``comparisons`` as lines, at most ``width`` columns wide (76 or more).

    Case names that don't fit are folded, very long ones lose their middle; what else is to be said of a case stands
    below it, over the table's whole width. Hosts are named where there are several. With a ``roofline``
    (``host["roofline"]``), that is how fast it ran, too.
    """
    headings = ["change", confidence_text(alpha, "CI"), "control", "rounds", "mde"]
    rows = {one.case: _figures(one) for one in comparisons}
    if len({one.host for one in comparisons}) > 1:
        headings.append("host")
        rows = {one.case: [*rows[one.case], shorten(printable(one.host or "-"), _HOST)] for one in comparisons}
    widths = _widths([headings, *rows.values()])
    case_width = max(_NARROWEST_CASE, width - sum(widths) - _GAP * len(widths))
    names = folded_names([one.case for one in comparisons], case_width, _CASE_LINES)
    longest = max(cell_len(part) for name in names.values() for part in name)
    case_width = min(case_width, max(longest, _NARROWEST_CASE))

    lines = [Text(_line("case", case_width, headings, widths), style="bold")]
    ordered = worst_first(comparisons)
    for group in verdict_counts(comparisons):
        if group.count:
            lines.append(Text(f"{group.words} ({group.count})", style=STYLES[group.verdict]))
        for comparison in ordered:
            if comparison.verdict_words != group.words:
                continue
            name, *rest = names[comparison.case]
            lines.append(Text(_line(name, case_width, rows[comparison.case], widths)))
            lines += [Text(more) for more in rest]
            lines += [Text(f"  {remark}", style="italic") for remark in _remarks(comparison, width - 2, roofline)]
    return lines


def kinds_lines(report: Report, width: int) -> list[Text]:
    """The table of cases by kind of host: those with a finding, as many kinds beside each other as there is room for;
    none for a run that was not measured by kind."""
    table = kinds_table(report)
    if table is None:
        return []
    lines = [Text("")]
    kinds = list(map(printable, table.kinds))
    marks = [kind if cell_len(kind) <= _KIND else f"kind {number}" for number, kind in enumerate(kinds, 1)]
    shown = table.shown[:_MOST_BY_KIND]
    each = max(1, (width - _NARROWEST_CASE) // (_GAP + _KIND))
    for first in range(0, len(marks), each) if shown else ():
        headings = marks[first : first + each]
        cells = [[verdict_text(one) for one in row.found[first : first + each]] for row in shown]
        widths = _widths([headings, *cells])
        room = min(max(cell_len(row.case) for row in shown), width - sum(widths) - _GAP * len(widths))
        room = max(room, _NARROWEST_CASE)
        lines.append(Text(_line("case by kind", room, headings, widths), style="bold"))
        for row, texts in zip(shown, cells, strict=True):
            name, *rest = fold(shorten(printable(row.case), _CASE_LINES * room), room)
            lines += [Text(_line(name, room, texts, widths)), *map(Text, rest)]
    for mark, kind in zip(marks, kinds, strict=True):
        lines += [Text(piece) for piece in fold(f"{mark}: {kind}", width)] if mark != kind else []
    if left := len(table.shown) - len(shown):
        lines.append(Text(f"not shown by kind: {left} more cases (report.json has them)"))
    return [*lines, *(Text(piece) for piece in fold(shorten(printable(table.summary), 4 * width), width))]


def _widths(rows: Iterable[Sequence[str]]) -> list[int]:
    return [max(map(cell_len, column)) for column in zip(*rows, strict=True)]


def _line(first: str, room: int, cells: Sequence[str], widths: Sequence[int]) -> str:
    """One row: ``first`` to the left in ``room`` cells, the others to the right in theirs."""
    padded = (" " * (_GAP + width - cell_len(cell)) + cell for cell, width in zip(cells, widths, strict=True))
    return set_cell_size(first, room) + "".join(padded)


def _figures(one: Comparison) -> list[str]:
    return [
        human_change(one.ratio),
        human_interval(one.ci),
        human_value(one.control, printable(one.unit)),
        str(one.rounds),
        human_share(one.mde),
    ]


def _remarks(one: Comparison, width: int, roofline: Any) -> list[str]:
    """What is to be said of a case, folded to ``width``."""
    again, confirmed = one.verification, ""
    if again is not None and again.verdict == one.verdict:  # where it was not confirmed, the note says so
        confirmed = f"confirmed: {human_change(again.ratio)} {human_interval(again.ci)} in {again.rounds} rounds"
    parts = ("injected" if one.injected else "", printable(one.note), confirmed, rates_words(one, roofline))
    remark = "; ".join(part for part in parts if part)
    return fold(shorten(remark, _REMARK_LINES * (width - 1)), width) if remark else []


def breakdown_lines(report: Report, width: int) -> list[Text]:
    """The breakdowns of cases that regressed or improved, or of all if the run was asked for all; may be none."""
    every = report.configuration.breakdown
    lines: list[Text] = []
    for one in report.comparisons:
        if one.breakdown is not None and (every or one.verdict in FLAGGED):
            lines += [Text(""), Text(f"operators of {shorten(printable(one.case), width - 13)}", style="bold")]
            lines += _breakdown_table(one.breakdown, width)
            if one.breakdown.note:
                words = shorten(printable(f"not profiled: {one.breakdown.note}"), 3 * (width - 4))
                lines += [Text(f"  {piece}") for piece in fold(words, width - 2)]
    if left_out := not_broken_down_line(report):
        lines += [Text(""), *(Text(piece) for piece in fold(left_out, width))]
    return lines


def breakdown_rows(breakdown: Breakdown) -> list[tuple[str, tuple[str, ...]]]:
    """Operators and their cells (``_BREAKDOWN_HEADINGS``): those whose time differs most between the sides first; what
    is left is summed up."""
    control = {row.name: row for row in breakdown.control}
    treatment = {row.name: row for row in breakdown.treatment}
    names = sorted(
        control.keys() | treatment.keys(), key=lambda name: (-abs(_ns(treatment, name) - _ns(control, name)), name)
    )
    rows = [(name, _cells(control.get(name), treatment.get(name), breakdown)) for name in names[:_MOST_OPERATORS]]
    if others := names[_MOST_OPERATORS:]:
        sums = [_sum([table[name] for name in others if name in table]) for table in (control, treatment)]
        rows.append((f"{len(others)} others", _cells(sums[0], sums[1], breakdown)))
    return rows


def _breakdown_table(breakdown: Breakdown, width: int) -> list[Text]:
    if not (rows := breakdown_rows(breakdown)):
        return []
    widths = _widths([_BREAKDOWN_HEADINGS, *(cells for _, cells in rows)])
    least, most = _OPERATOR
    room = min(max(width - sum(widths) - _GAP * len(widths) - 2, least), most)
    lines = [
        "  " + _line(shorten(printable(name), room), room, cells, widths)
        for name, cells in [("operator", _BREAKDOWN_HEADINGS), *rows]
    ]
    return [Text(lines[0], style="bold"), *map(Text, lines[1:])]


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
