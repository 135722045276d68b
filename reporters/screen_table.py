"""The screen's table of cases, grouped by verdict, the worst first."""

from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from records import Comparison, Verdict
from reporters.summary import WORST_FIRST, worst_first
from reporters.text import fold, folded_names, printable, shorten
from reporters.units import human_change, human_interval, human_share, human_value

STYLES: dict[Verdict, str] = {
    "regressed": "bold red",
    "failed": "magenta",
    "inconclusive": "yellow",
    "improved": "green",
    "unchanged": "dim",
}
_GAP = 2  # columns between two columns
_NARROWEST_CASE = 20
_CASE_LINES = 3


def cases_table(comparisons: Sequence[Comparison], alpha: Any, width: int) -> Table:
    """The table of ``comparisons``, at most ``width`` columns wide (76 or more).

    Case names that don't fit are folded, very long ones lose their middle.
    """
    headings = _headings(alpha)
    rows = {one.case: _figures(one) for one in comparisons}
    widths = [max(map(cell_len, column)) for column in zip(headings, *rows.values(), strict=True)]
    case_width = max(_NARROWEST_CASE, width - sum(widths) - _GAP * len(widths))
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="bold", expand=False)
    table.add_column(Text("case"), width=min(case_width, _longest(comparisons)), no_wrap=True)
    for heading, column_width in zip(headings, widths, strict=True):
        table.add_column(Text(heading), width=column_width, no_wrap=True, justify="right")
    names = folded_names([one.case for one in comparisons], case_width, _CASE_LINES)
    for verdict in WORST_FIRST:
        group = [one for one in worst_first(comparisons) if one.verdict == verdict]
        if group:
            table.add_row(Text(f"{verdict} ({len(group)})", style=STYLES[verdict]))
        for one in group:
            table.add_row(_case_cell(one, names[one.case], case_width), *map(Text, rows[one.case]))
    return table


def _headings(alpha: Any) -> list[str]:
    confidence = f"{100 * (1 - alpha):g} % CI" if isinstance(alpha, float) and 0 < alpha < 1 else "CI"
    return ["change", confidence, "control", "rounds", "mde"]


def _figures(one: Comparison) -> list[str]:
    return [
        human_change(one.ratio),
        human_interval(one.ci),
        human_value(one.control, printable(one.unit)),
        str(one.rounds),
        human_share(one.mde),
    ]


def _longest(comparisons: Sequence[Comparison]) -> int:
    """Cells of the longest thing that the first column has to hold."""
    texts = [text for one in comparisons for text in (printable(one.case), f"  {_remark(one)}")]
    return max(map(cell_len, [*texts, "inconclusive (99999)"]))


def _remark(one: Comparison) -> str:
    return "; ".join(part for part in ("injected" if one.injected else "", printable(one.note)) if part)


def _case_cell(one: Comparison, name: list[str], width: int) -> Text:
    """The case's name, and below it what else is to be said of it."""
    cell = Text("\n".join(name))
    remark = _remark(one)
    if remark:
        short = shorten(remark, _CASE_LINES * (width - 3))
        cell.append("".join(f"\n  {line}" for line in fold(short, width - 2)), style="italic")
    return cell
