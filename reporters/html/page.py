"""The page: the template filled in, with style, scripts and data within it.

The templates escape all texts of a report, and characters that could disguise others.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from opduel.records import Comparison, Report
from opduel.reporters.assets import PLOT_CLASS, PLOT_STYLE, asset, csp_hash, flame_style
from opduel.reporters.document import strict
from opduel.reporters.html.cases import case_data, case_facts, exact, fragment, probability, remark
from opduel.reporters.html.run_details import heading, not_measured, run_details
from opduel.reporters.kinds import kinds_table, verdict_text
from opduel.reporters.needs import needs_of
from opduel.reporters.reproduce import reproduction
from opduel.reporters.run_text import certainty, failure_text, interval_words
from opduel.reporters.summary import WORST_FIRST, changed_first, worst_first
from opduel.reporters.templates import environment
from opduel.support.atomic import write_atomically
from opduel.support.text import counted, printable_lines

_HERE = Path(__file__).parent
_MOST_ROWS = 200  # of a table in a notebook


def to_html(report: Report, culprits: Sequence[str] = ()) -> str:
    """Return the report as one HTML document, with the lines ``culprits`` at its head, that loads nothing from
    elsewhere.

    A Content-Security-Policy allows only the page's own scripts.
    """
    comparisons = changed_first(report.comparisons)
    needs = needs_of(report)
    style, first, script = asset("theme.css") + _own("report.css"), _own("first.js"), _script()
    plot = asset("plot.min.js")  # alone and last: an opened case, with its flame graphs, doesn't wait for it
    return _template("report.html.jinja").render(
        **heading(report),
        cases=comparisons,
        needs=needs,
        culprits="\n".join(culprits),
        interval_words=interval_words(report.configuration.alpha),
        not_measured=not_measured(report),
        run_details=run_details(report),
        kinds=kinds_table(report),
        policy=_policy(style, (first, script, plot)),
        first_script=Markup(first),
        style=Markup(style),
        script=Markup(script),
        plot_script=Markup(plot),
        data=Markup(_embedded(_data(report, comparisons, needs))),
    )


def to_notebook_html(report: Report) -> str:
    """Return HTML for a notebook's output, without scripts: the report's heading, and a table of its worst cases."""
    comparisons = worst_first(report.comparisons)
    return _template("notebook.html.jinja").render(
        **heading(report),
        sure=certainty(report.configuration.alpha),
        cases=comparisons[:_MOST_ROWS],
        needs=needs_of(report),
        hidden=counted(hidden, "more case") if (hidden := len(comparisons[_MOST_ROWS:])) else "",
    )


def write_page(path: Path, report: Report, culprits: Sequence[str] = ()) -> None:
    """Write the page at ``path``, atomically. Raises OSError: it could not be written; whatever was at ``path`` is
    still there."""
    write_atomically(path, to_html(report, culprits).encode("utf-8"))


def _data(report: Report, comparisons: list[Comparison], needs: Mapping[str, str]) -> dict[str, Any]:
    """Return what the page's script draws and shows of each case: plain data, in the order of the table's rows."""
    again = reproduction(report)
    cases = {case.id: case for case in report.cases}
    facts = [case_facts(comparison, cases.get(comparison.case), report) for comparison in comparisons]
    return {
        "plotClass": PLOT_CLASS,
        "labels": list(facts[0]) if facts else [],
        "here": again.here,
        "anywhere": again.anywhere,
        "cases": [
            {**case_data(comparison, facts_of_case, needs.get(comparison.case, "")), "again": again.of(comparison)}
            for comparison, facts_of_case in zip(comparisons, facts, strict=True)
        ],
    }


def _embedded(data: Any) -> str:
    """Return ``data`` as JSON that can't end the script element it stands in."""
    text = json.dumps(strict(data), allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@cache
def _template(name: str) -> jinja2.Template:
    templates = environment(
        is_html=True,
        exact=exact,
        probability=probability,
        remark=remark,
        fragment=fragment,
        how=failure_text,
        verdict_text=verdict_text,
        rank=WORST_FIRST.index,
        lines=lambda text: escape(printable_lines(text).strip()),
    )
    return templates.get_template(f"html/{name}")


def _script() -> str:
    licences = f"/*!\n{asset('LICENSES.txt')}*/"
    libraries = [licences, asset("d3.min.js"), asset("d3-flamegraph.min.js"), asset("flame.js")]
    return "\n".join([*libraries, asset("table.js"), _own("draw.js"), _own("report.js")])


@cache
def _own(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


@cache
def _policy(style: str, scripts: tuple[str, ...]) -> str:
    """Return the page's Content-Security-Policy: its own style and scripts by their hashes, and nothing else."""
    styles = f"style-src {' '.join(map(csp_hash, (style, PLOT_STYLE, flame_style())))}"
    allowed = f"script-src {' '.join(map(csp_hash, scripts))}"
    return f"default-src 'none'; {allowed}; {styles}; base-uri 'none'; form-action 'none'"
