"""A report as Markdown, for a pull request, a wiki or our own docs: changes in full, other cases folded."""

import re
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cache

import jinja2

from opduel.records import Report, Verdict
from opduel.reporters.kinds import kinds_table, verdict_text
from opduel.reporters.needs import needs_of, reason_and_needs
from opduel.reporters.run_text import differences_text, effort_text, frameworks_text, host_text, interval_words
from opduel.reporters.summary import by_verdict, caveats, next_line, notes, verdict_counts
from opduel.reporters.templates import environment
from opduel.reporters.text import printable
from opduel.support.text import counted

# In <details>, which GitHub and GitLab show as one line.
FOLDED: tuple[Verdict, ...] = ("inconclusive", "not_better", "not_worse", "unchanged")
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|~&#!@$]|:(?=//)|(?<=www)\.)")  # the last two: GitHub makes links of them


def to_markdown(report: Report, most: int | None = None) -> str:
    """Return the report: the builds, the counts, and a table of cases for each verdict, the worst first.

    With ``most``, only so many cases have a row, and a line says how many are left out.
    """
    kinds, hidden = kinds_table(report), 0 if most is None else len(report.comparisons) - most
    text = _template().render(
        report=report,
        counts=verdict_counts(report.comparisons),
        caveats=caveats(report),
        notes=[line for line in (*notes(report), next_line(report)) if line],
        frameworks=frameworks_text(report.control, report.treatment),
        differences=differences_text(report.control, report.treatment),
        kinds=kinds,
        notable_rows=kinds.notable_rows[:most] if kinds else (),
        groups=by_verdict(report.comparisons, most),
        needs=needs_of(report),
        folded=FOLDED,
        hidden=counted(hidden, "case") if hidden > 0 else "",
        effort=effort_text(report),
        interval_words=interval_words(report.configuration.alpha),
        host=host_text(report.host),
    )
    return text.rstrip() + "\n"


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


def cell(text: str) -> str:
    """Return ``text`` as Markdown shows it literally, on one line."""
    return _SPECIAL.sub(r"\\\1", printable(" ".join(text.split())))


def code(text: str) -> str:
    """Return ``text`` as code in a table's cell, with backticks and bars replaced."""
    return f"`{printable(' '.join(text.split())).replace('`', chr(39)).replace('|', chr(92) + '|')}`"


@cache
def _template() -> jinja2.Template:
    templates = environment(cell=cell, code=code, verdict_text=verdict_text, reason=reason_and_needs)
    return templates.get_template("report.md.jinja")
