"""A report as Markdown, for a pull request, a wiki or our own docs: changes in full, other cases folded."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence

from opduel.records import Build, Comparison, Report, Verdict
from opduel.reporters.kinds import kinds_table, verdict_text
from opduel.reporters.run_text import differences_text, frameworks_text
from opduel.reporters.summary import VerdictCount, caveats, notes, verdict_counts, worst_first
from opduel.reporters.text import printable
from opduel.reporters.units import human_change, human_interval, human_share, human_value
from opduel.support.text import duration

# In <details>, which GitHub and GitLab show as one line.
FOLDED: tuple[Verdict, ...] = ("inconclusive", "not_better", "not_worse", "unchanged")
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|~&#!@$]|:(?=//)|(?<=www)\.)")  # the last two: GitHub makes links of them


def to_markdown(report: Report, most: int | None = None) -> str:
    """Return the report: the builds, the counts, and a table of cases for each verdict, the worst first.

    With ``most``, only so many cases have a row, and a line says how many are left out.
    """
    lines = [*_heading(report), "", *_by_kind(report, most)]
    ordered = worst_first(report.comparisons)
    shown_comparisons = ordered[:most]
    for group in verdict_counts(report.comparisons):
        comparisons = [comparison for comparison in shown_comparisons if comparison.verdict_words == group.words]
        if comparisons:
            lines += _section(group, comparisons)
    if hidden := len(ordered) - len(shown_comparisons):
        lines.append(f"Not shown: {hidden} cases (report.json has them).")
    return "\n".join(lines).rstrip() + "\n"


def summary(report: Report, culprits: Sequence[str], room: int, size: Callable[[str], int] = len) -> str:
    """Return the report below a heading and ``culprits`` as a list, of at most this ``size``: without the least
    important cases if necessary. It is larger only if there is no room for even one case."""
    title = f"## opduel: {cell(f'{report.run.spec} ({report.run.framework})')}"
    head = "\n".join([title, "", *(f"- {cell(line)}" for line in culprits), "", ""])

    def with_cases(most: int | None) -> str:
        return head + to_markdown(report, most)

    full = with_cases(None)
    if size(full) <= room:
        return full
    fits = bisect_right(range(len(report.comparisons)), room, key=lambda most: size(with_cases(most))) - 1
    return with_cases(max(0, fits))


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a Markdown table, whose cells are already escaped."""
    return [_row(headings), _row(["---"] * len(headings)), *map(_row, rows)]


def cell(text: str) -> str:
    """Return ``text`` as Markdown shows it literally, on one line."""
    return _SPECIAL.sub(r"\\\1", printable(" ".join(text.split())))


def code(text: str) -> str:
    """Return ``text`` as code in a table's cell, with backticks and bars replaced."""
    return f"`{printable(' '.join(text.split())).replace('`', chr(39)).replace('|', chr(92) + '|')}`"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _heading(report: Report) -> Iterator[str]:
    run = report.run
    counts = ", ".join(f"{count.count} {count.words}" for count in verdict_counts(report.comparisons))
    yield f"**{counts}**"
    yield ""
    for line in caveats(report):
        yield f"**{cell(line)}**"
        yield ""
    sides = (("control", report.control), ("treatment", report.treatment))
    yield from table(["side", "build", "version", "Python"], [[name, *_build(build)] for name, build in sides])
    yield ""
    if meaning := frameworks_text(report.control, report.treatment):
        yield f"Verdicts: {cell(meaning)}"
    if differing := differences_text(report.control, report.treatment):
        yield f"Also different: {cell(differing)}"
        yield ""
    wall = run.wall_s
    words = [
        f"spec {code(str(run.spec))}",
        f"{cell(str(run.rounds))} process pairs",
        "" if wall is None else duration(wall),
        f"seed {cell(str(run.seed))}",
        f"host {cell(str(report.host.cpu_model))}, {cell(str(report.host.logical_cpus))} CPUs",
    ]
    yield "; ".join(word for word in words if word)
    for line in notes(report):
        yield ""
        yield cell(line)


def _by_kind(report: Report, most: int | None) -> list[str]:
    """Return the table of cases with a finding by kind of host; empty for a run not measured by kind."""
    kinds = kinds_table(report)
    if kinds is None:
        return []
    rows = [
        [code(row.case), *(cell(verdict_text(comparison)) for comparison in row.comparisons)]
        for row in kinds.notable_rows[:most]
    ]
    lines = ["### By kind of host", "", f"{cell(kinds.summary)}.", ""]
    return [*lines, *table(["case", *map(code, kinds.kinds)], rows), ""] if rows else lines


def _build(build: Build) -> list[str]:
    return [code(build.requested), cell(build.version), cell(build.python)]


def _section(group: VerdictCount, comparisons: Sequence[Comparison]) -> list[str]:
    title = f"{group.words} ({group.count})"
    rows = _failures(comparisons) if group.verdict == "failed" else _changes(comparisons)
    if group.verdict in FOLDED:
        return ["<details>", f"<summary>{title}</summary>", "", *rows, "", "</details>", ""]
    return [f"### {title}", "", *rows, ""]


def _failures(cases: Sequence[Comparison]) -> list[str]:
    rows = []
    for comparison in cases:
        failure = comparison.failure
        reason_cells = (
            [failure.side, cell(failure.kind), cell(failure.reason)] if failure else ["-", "-", cell(comparison.note)]
        )
        rows.append([code(comparison.case), *reason_cells])
    return table(["case", "side", "kind", "reason"], rows)


def _changes(cases: Sequence[Comparison]) -> list[str]:
    headings = ["case", "change", "interval", "control", "rounds", "minimum detectable", "note"]
    rows = []
    for comparison in cases:
        control = cell(human_value(comparison.control, comparison.unit))
        figures = [
            human_change(comparison.ratio),
            human_interval(comparison.ci),
            control,
            str(comparison.rounds),
            human_share(comparison.mde),
        ]
        rows.append([code(comparison.case), *figures, cell(comparison.note)])
    return table(headings, rows)
