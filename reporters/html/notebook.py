"""A report as a piece of HTML for a notebook's output: a table without scripts."""

from opduel.records import Report
from opduel.reporters.html.cases import rows
from opduel.reporters.html.page import template
from opduel.reporters.html.run_details import heading
from opduel.reporters.summary import worst_first

MOST_ROWS = 200


def to_notebook_html(report: Report) -> str:
    """The report's heading, and a table of its cases, the worst first; at most ``MOST_ROWS`` of them.

    Whatever texts the report holds are shown as text.
    """
    comparisons = worst_first(report.comparisons)
    return template("notebook.html.jinja").render(
        heading=heading(report),
        confidence=_confidence(report.configuration.alpha),
        rows=rows(comparisons[:MOST_ROWS]),
        left=len(comparisons[MOST_ROWS:]),
    )


def _confidence(alpha: float | None) -> str:
    return f"{100 * (1 - alpha):g} % CI" if alpha and 0 < alpha < 1 else "CI"
