"""The screen's table of cases, grouped by verdict, the worst first."""

from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from opduel.records import Comparison, Verdict
from opduel.reporters.rates import rates_words
from opduel.reporters.summary import WORST_FIRST, worst_first
from opduel.reporters.text import fold, folded_names, printable, shorten
from opduel.reporters.units import human_change, human_interval, human_share, human_value

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
_REMARK_LINES = 5  # why a case is open, and what would settle it, must be there whole


def cases_lines(comparisons: Sequence[Comparison], alpha: Any, width: int, roofline: Any = None) -> list[Text]:
    """The table of ``comparisons`` as lines, at most ``width`` columns wide (76 or more).

    Case names that don't fit are folded, very long ones lose their middle; what else is to be said of a case stands
    below it, over the table's whole width. With a ``roofline`` (``host["roofline"]``), that is how fast it ran, too.
    """
    headings = _headings(alpha)
    rows = {one.case: _figures(one) for one in comparisons}
    widths = [max(map(cell_len, column)) for column in zip(headings, *rows.values(), strict=True)]
    case_width = max(_NARROWEST_CASE, width - sum(widths) - _GAP * len(widths))
    names = folded_names([one.case for one in comparisons], case_width, _CASE_LINES)
    longest = max(cell_len(part) for name in names.values() for part in name)
    case_width = min(case_width, max(longest, _NARROWEST_CASE))

    def line(first: str, cells: Sequence[str]) -> str:
        padded = (" " * (_GAP + room - cell_len(cell)) + cell for cell, room in zip(cells, widths, strict=True))
        return set_cell_size(first, case_width) + "".join(padded)

    lines = [Text(line("case", headings), style="bold")]
    for verdict in WORST_FIRST:
        group = [one for one in worst_first(comparisons) if one.verdict == verdict]
        if group:
            lines.append(Text(f"{verdict} ({len(group)})", style=STYLES[verdict]))
        for one in group:
            name, *rest = names[one.case]
            lines.append(Text(line(name, rows[one.case])))
            lines += [Text(more) for more in rest]
            lines += [Text(f"  {remark}", style="italic") for remark in _remarks(one, width - 2, roofline)]
    return lines


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


def _confirmation(one: Comparison) -> str:
    """What the second measurement of a case that stays flagged found; where it wasn't confirmed, the note says it."""
    again = one.verification
    if again is None or again.verdict != one.verdict:
        return ""
    return f"confirmed: {human_change(again.ratio)} {human_interval(again.ci)} in {again.rounds} rounds"


def _remarks(one: Comparison, width: int, roofline: Any) -> list[str]:
    """What is to be said of a case, folded to ``width``."""
    parts = ("injected" if one.injected else "", printable(one.note), _confirmation(one), rates_words(one, roofline))
    remark = "; ".join(part for part in parts if part)
    return fold(shorten(remark, _REMARK_LINES * (width - 1)), width) if remark else []
