"""The table: each rule's false flags and findings, with exact intervals, and what they cost."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from scipy import stats

from benchmarks.peer_tools.results import Result

FLAGS = ("slower", "faster")
CONFIDENCE = 0.95


@dataclass
class Row:
    """One rule on one tool's data, over all sessions. ``seconds`` are a case's, by session."""

    rule: str
    settings: str
    origin: str
    plain: int = 0
    false: int = 0
    injected: dict[float, int] = field(default_factory=dict)  # by share
    found: dict[float, int] = field(default_factory=dict)
    wrong_way: int = 0
    failed: int = 0
    seconds: list[float] = field(default_factory=list)


def rows_of(results: Iterable[Result]) -> list[Row]:
    """A row for each rule and settings, in the order in which they first come."""
    rows: dict[tuple[str, str], Row] = {}
    for result in results:
        for rule, answers in result.answers.items():
            row = rows.setdefault((rule, result.settings), Row(rule, result.settings, result.origin))
            row.seconds.append(result.seconds / len(answers))
            for case, answer in answers.items():
                _count(row, answer, result.share if case in result.injected else 0.0)
    return sorted(rows.values(), key=lambda row: row.rule)


def _count(row: Row, answer: str, share: float) -> None:
    if answer == "failed":
        row.failed += 1
    elif not share:
        row.plain += 1
        row.false += answer in FLAGS
    else:
        row.injected[share] = row.injected.get(share, 0) + 1
        row.found[share] = row.found.get(share, 0) + (answer == "slower")
        row.wrong_way += answer == "faster"


def interval(count: int, total: int) -> tuple[float, float]:
    """The exact interval of a share (Clopper and Pearson 1934, Biometrika 26, 404-413); all of [0, 1] for no trial."""
    if not total:
        return 0.0, 1.0
    low, high = stats.binomtest(count, total).proportion_ci(CONFIDENCE, method="exact")
    return float(low), float(high)


def share_text(count: int, total: int) -> str:
    """``3 of 40 (1.6 to 20.4 %)``, or nothing where nothing was tried."""
    if not total:
        return ""
    low, high = interval(count, total)
    return f"{count} of {total} ({100 * low:.1f} to {100 * high:.1f} %)"


def cells_of(rows: Sequence[Row]) -> list[list[str]]:
    """Heading and rows."""
    shares = sorted({share for row in rows for share in row.injected})
    heading = ["rule", "false flags of A/A", *(f"found of +{100 * share:g} %" for share in shares)]
    heading += ["called faster though slowed", "failed", "s a case", "procedure", "what it is"]
    cells = [heading]
    for row in rows:
        found = [share_text(row.found.get(share, 0), row.injected.get(share, 0)) for share in shares]
        seconds = f"{sum(row.seconds) / len(row.seconds):.1f}"
        line = [row.rule, share_text(row.false, row.plain), *found, str(row.wrong_way), str(row.failed)]
        cells.append([*line, seconds, row.settings, row.origin])
    return cells


def markdown(rows: Sequence[Row]) -> str:
    """For docs/explanation/peers.md."""
    heading, *lines = cells_of(rows)
    texts = [heading, ["---"] * len(heading), *lines]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in texts)


def plain(rows: Sequence[Row]) -> str:
    """For a terminal: columns padded to their widest cell."""
    cells = cells_of(rows)
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells
    )
