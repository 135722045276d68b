"""The screen's table of cases, the worst first, with the breakdown of their time by operator below it."""

from collections.abc import Iterable, Mapping, Sequence

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from opduel.records import FLAGGED, Breakdown, Comparison, Report, Verdict
from opduel.records.host_record import RooflineRecord
from opduel.reporters.cause_text import BREAKDOWN_HEADINGS, breakdown_rows
from opduel.reporters.changes import change_and_interval, effect_text
from opduel.reporters.kinds import kinds_table, verdict_text
from opduel.reporters.needs import needs_of, reason_and_needs
from opduel.reporters.run_text import interval_words, rates_words
from opduel.reporters.summary import by_verdict, not_broken_down_line
from opduel.reporters.text import fold, printable, shorten
from opduel.reporters.units import ABSENT, human_share, human_value
from opduel.support.text import counted

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
_HOST = 12  # columns of a host's name, at most
_MOST_BY_KIND = 20  # rows
_REMARK_LINES = 5
_USELESS = 10.0  # a minimum detectable effect, and an interval with it, that says nothing
_MOST_UNMEASURED = 3  # rows of cases that have no figures, or are undecided for the same reason, for want of time
_OPERATOR = (16, 32)  # columns of an operator's name, at least and at most


def cases_lines(report: Report, comparisons: Sequence[Comparison], width: int) -> list[Text]:
    """Return the table of ``comparisons`` of a report as lines, at most ``width`` columns wide (76 or more).

    A case id that doesn't fit has a line of its own, wider than the table if need be: in one piece it can be copied.
    Remarks stand below the case, or once below all cases that are undecided for the same reason, over the table's
    width. Hosts are named if there are several.
    """
    headings = ["change", "interval", "control", "rounds", "mde"]
    rows = {comparison.case: _figures(comparison) for comparison in comparisons}
    if len({comparison.host for comparison in comparisons}) > 1:
        headings.append("host")
        for comparison in comparisons:
            rows[comparison.case].append(shorten(printable(comparison.host or "-"), _HOST))
    widths = _widths([headings, *rows.values()])
    case_width = max(_NARROWEST_CASE, width - sum(widths) - _GAP * len(widths))
    case_width = _fitting_width([printable(comparison.case) for comparison in comparisons], case_width)

    lines = [Text(_line("case", case_width, headings, widths), style="bold")]
    needs = needs_of(report)
    for group, comparisons_of_group in by_verdict(comparisons):
        lines.append(Text(f"{group.words} ({group.count})", style=STYLES[group.verdict]))
        failed = [comparison for comparison in comparisons_of_group if comparison.failure and not comparison.rounds]
        if len(failed) > _MOST_UNMEASURED:
            lines.append(Text(f"  {len(failed)} without figures: see below, under failures", style="italic"))
            comparisons_of_group = [other for other in comparisons_of_group if other.rounds or not other.failure]
        for alike in _alike(comparisons_of_group, needs):
            visible = alike if alike[0].rounds and not alike[0].is_unreached else alike[:_MOST_UNMEASURED]
            for comparison in visible:
                lines += _case_lines(comparison.case, case_width, rows[comparison.case], widths)
            remark = _remark(alike, needs, report.host.roofline, len(alike) - len(visible))
            remark = shorten(remark, _REMARK_LINES * (width - 3))
            lines += [Text(f"  {line}", style="italic") for line in fold(remark, width - 2) if remark]
    return [*lines, *(Text(line, style="dim") for line in fold(interval_words(report.configuration.alpha), width))]


def _alike(comparisons: Sequence[Comparison], needs: Mapping[str, str]) -> list[list[Comparison]]:
    """Return the comparisons, those together that are undecided for the same reason and need the same."""
    groups: dict[object, list[Comparison]] = {}
    for place, comparison in enumerate(comparisons):
        remark = _remark([comparison], needs, None)
        groups.setdefault(remark if comparison.verdict == "inconclusive" and remark else place, []).append(comparison)
    return list(groups.values())


def kinds_lines(report: Report, width: int) -> list[Text]:
    """Return the cases with a finding, with the verdict of each kind of host; empty for a run that was not measured by
    kind."""
    table = kinds_table(report)
    if table is None:
        return []
    rows_shown = table.notable_rows[:_MOST_BY_KIND]
    lines = [Text(""), *([Text("case by kind", style="bold")] if rows_shown else [])]
    for row in rows_shown:
        lines.append(Text(printable(row.case)))
        kinds = zip(table.kinds, row.comparisons, strict=True)
        lines += [Text(f"  {printable(kind)}: {verdict_text(comparison)}") for kind, comparison in kinds]
    if hidden := len(table.notable_rows) - len(rows_shown):
        lines.append(Text(f"not shown by kind: {counted(hidden, 'more case')} (report.json has them)"))
    return [*lines, *(Text(piece) for piece in fold(shorten(printable(table.summary), 4 * width), width))]


def _widths(rows: Iterable[Sequence[str]]) -> list[int]:
    return [max(map(cell_len, column)) for column in zip(*rows, strict=True)]


def _fitting_width(names: Iterable[str], room: int) -> int:
    """Return the width of the longest of those names that fit into ``room`` cells, but no less than the narrowest."""
    return max([_NARROWEST_CASE, *(width for name in names if (width := cell_len(name)) <= room)])


def _case_lines(case: str, room: int, cells: Sequence[str], widths: Sequence[int]) -> list[Text]:
    """Return the row of a case; its id stands above it where it is longer than ``room`` cells."""
    name = printable(case)
    if cell_len(name) <= room:
        return [Text(_line(name, room, cells, widths))]
    return [Text(name), Text(_line("", room, cells, widths))]


def _line(first: str, room: int, cells: Sequence[str], widths: Sequence[int]) -> str:
    """Return one row: ``first`` to the left in ``room`` cells, the others to the right in theirs."""
    padded = (" " * (_GAP + width - cell_len(cell)) + cell for cell, width in zip(cells, widths, strict=True))
    return set_cell_size(first, room) + "".join(padded)


def _figures(comparison: Comparison) -> list[str]:
    unit, mde = printable(comparison.unit), comparison.mde
    change, interval = change_and_interval(comparison, unit)
    if mde is not None and mde > _USELESS:  # of two rounds or so
        interval, mde = ABSENT, None
    return [change, interval, human_value(comparison.control, unit), str(comparison.rounds), human_share(mde)]


def _remark(
    alike: Sequence[Comparison], needs: Mapping[str, str], roofline: RooflineRecord | None, hidden: int = 0
) -> str:
    """Return the remark on a case, or on several that have the same; with a ``roofline`` of the host also the rates of
    the call. ``hidden``: how many of them have no row."""
    comparison, count, confirmed = alike[0], len(alike), ""
    again = comparison.verification
    if again is not None and again.verdict == comparison.verdict:  # where it was not confirmed, the note says so
        confirmed = f"confirmed: {effect_text(again, printable(comparison.unit))} in {counted(again.rounds, 'round')}"
    injected = "injected" if comparison.injected else ""
    why = printable(reason_and_needs(comparison, needs.get(comparison.case, ""), count))
    rates = rates_words(comparison, roofline) if count == 1 else ""
    remark = "; ".join(filter(None, (injected, why, confirmed, rates)))
    cases = f"{count} cases" + (f" ({hidden} not shown)" if hidden else "")
    return f"{cases}: {remark}" if count > 1 else remark


def breakdown_lines(report: Report, width: int) -> list[Text]:
    """Return the breakdowns of cases that regressed or improved, or of all if the run was asked for them."""
    every = report.configuration.breakdown
    lines: list[Text] = []
    for comparison in report.comparisons:
        if comparison.breakdown is not None and (every or comparison.verdict in FLAGGED):
            lines += [Text(""), Text(f"{comparison.part}s of {printable(comparison.case)}", style="bold")]
            lines += _breakdown_table(comparison.breakdown, comparison.part, width)
            if comparison.breakdown.note:
                words = shorten(printable(f"not profiled: {comparison.breakdown.note}"), 3 * (width - 4))
                lines += [Text(f"  {piece}") for piece in fold(words, width - 2)]
    if left_out := not_broken_down_line(report):
        lines += [Text(""), *(Text(piece) for piece in fold(left_out, width))]
    return lines


def _breakdown_table(breakdown: Breakdown, part: str, width: int) -> list[Text]:
    if not (rows := breakdown_rows(breakdown)):
        return []
    widths = _widths([BREAKDOWN_HEADINGS, *(cells for _, cells in rows)])
    least, most = _OPERATOR
    room = min(max(width - sum(widths) - _GAP * len(widths) - 2, least), most)
    lines = [
        "  " + _line(shorten(printable(name), room), room, cells, widths)
        for name, cells in [(part, BREAKDOWN_HEADINGS), *rows]
    ]
    return [Text(lines[0], style="bold"), *map(Text, lines[1:])]
