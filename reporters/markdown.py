"""A report as Markdown, for a pull request, a wiki or our own docs: what changed in full, the rest folded."""

import re
from collections.abc import Iterable, Iterator, Sequence

from opduel.records import Build, Comparison, Report, Verdict
from opduel.reporters.kinds import kinds_table, verdict_text
from opduel.reporters.run_text import differences_text, frameworks_text
from opduel.reporters.summary import VerdictCount, caveats, notes, verdict_counts, worst_first
from opduel.reporters.text import printable
from opduel.reporters.units import human_change, human_duration, human_interval, human_share, human_value

# In <details>, which GitHub and GitLab show as one line.
FOLDED: tuple[Verdict, ...] = ("inconclusive", "not_better", "not_worse", "unchanged")
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|~&#!@$]|:(?=//)|(?<=www)\.)")  # the last two: GitHub makes links of them


def to_markdown(report: Report, most: int | None = None) -> str:
    """The whole report: who was compared, the counts, and a table of cases for each verdict, the worst first.

    With ``most``, so many of the cases have a row, the worst, and a line says how many are left out.
    """
    lines = [*_heading(report), "", *_by_kind(report, most)]
    ordered = worst_first(report.comparisons)
    shown = ordered[:most]
    for group in verdict_counts(report.comparisons):
        comparisons = [comparison for comparison in shown if comparison.verdict_words == group.words]
        if comparisons:
            lines += _section(group, comparisons)
    if left := len(ordered) - len(shown):
        lines.append(f"Not shown: {left} cases (report.json has them).")
    return "\n".join(lines).rstrip() + "\n"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A Markdown table's lines; cells are escaped by who made them."""
    return [_row(headings), _row(["---"] * len(headings)), *map(_row, rows)]


def cell(text: str) -> str:
    """``text`` as it is, whatever Markdown or HTML it holds, on one line."""
    return _SPECIAL.sub(r"\\\1", printable(" ".join(text.split())))


def code(text: str) -> str:
    """``text`` as code in a table's cell; a backtick ends no code, and a bar no cell."""
    return f"`{printable(' '.join(text.split())).replace('`', chr(39)).replace('|', chr(92) + '|')}`"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _heading(report: Report) -> Iterator[str]:
    run = report.run
    counts = ", ".join(f"{one.count} {one.words}" for one in verdict_counts(report.comparisons))
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
        "" if wall is None else human_duration(wall),
        f"seed {cell(str(run.seed))}",
        f"host {cell(str(report.host.cpu_model))}, {cell(str(report.host.logical_cpus))} CPUs",
    ]
    yield "; ".join(word for word in words if word)
    for line in notes(report):
        yield ""
        yield cell(line)


def _by_kind(report: Report, most: int | None) -> list[str]:
    """The table of cases by kind of host, of those with a finding on any; none for a run not measured by kind."""
    found = kinds_table(report)
    if found is None:
        return []
    rows = [[code(row.case), *(cell(verdict_text(one)) for one in row.found)] for row in found.shown[:most]]
    lines = ["### By kind of host", "", f"{cell(found.summary)}.", ""]
    return [*lines, *table(["case", *map(code, found.kinds)], rows), ""] if rows else lines


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
    for one in cases:
        failure = one.failure
        said = [failure.side, cell(failure.kind), cell(failure.reason)] if failure else ["-", "-", cell(one.note)]
        rows.append([code(one.case), *said])
    return table(["case", "side", "kind", "reason"], rows)


def _changes(cases: Sequence[Comparison]) -> list[str]:
    headings = ["case", "change", "interval", "control", "rounds", "minimum detectable", "note"]
    rows = []
    for one in cases:
        control = cell(human_value(one.control, one.unit))
        figures = [human_change(one.ratio), human_interval(one.ci), control, str(one.rounds), human_share(one.mde)]
        rows.append([code(one.case), *figures, cell(one.note)])
    return table(headings, rows)
