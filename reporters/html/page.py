"""The page put together: the template filled in, and style, scripts and data within it."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from opduel.records import Report
from opduel.records.atomic import write_atomically
from opduel.reporters.assets import PLOT_CLASS, PLOT_STYLE, asset, csp_hash
from opduel.reporters.document import strict
from opduel.reporters.html.cases import case_data, case_labels, rows
from opduel.reporters.html.run_details import heading, run_details
from opduel.reporters.reproduce import reproduction
from opduel.reporters.summary import worst_first

PAGE_NAME = "report.html"
_HERE = Path(__file__).parent


def to_html(report: Report) -> str:
    """The whole report as one HTML document that asks for nothing outside it.

    Whatever texts the report holds are shown as texts: they are escaped, characters that could disguise others are
    written as escapes, and a Content-Security-Policy lets nothing run but the page's own scripts.
    """
    comparisons = worst_first(report.comparisons)
    style, first, script = _style(), _own("first.js"), _script()
    return template("report.html.jinja").render(
        heading=heading(report),
        rows=rows(comparisons),
        run_details=run_details(report),
        policy=_policy(style, first, script),
        first_script=Markup(first),
        style=Markup(style),
        script=Markup(script),
        data=Markup(_embedded(_data(report))),
    )


def write_page(path: Path, report: Report) -> None:
    """Write the page at ``path``, atomically.

    Raises:
        OSError: it could not be written; whatever was at ``path`` is still there.
    """
    write_atomically(path, to_html(report).encode("utf-8"))


def _data(report: Report) -> dict[str, Any]:
    """What the page's script draws and tells of each case: plain data, in the order of the table's rows."""
    comparisons = worst_first(report.comparisons)
    again = reproduction(report)
    cases = {case.id: case for case in report.cases}
    roofline = report.host.roofline
    return {
        "plotClass": PLOT_CLASS,
        "labels": case_labels(report.configuration.alpha),
        "here": again.here,
        "anywhere": again.anywhere,
        "cases": [{**case_data(one, cases.get(one.case), roofline), "again": again.of(one)} for one in comparisons],
    }


def _embedded(data: Any) -> str:
    """``data`` as JSON that can stand within a script element: nothing in it can end the element."""
    text = json.dumps(strict(data), allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@cache
def template(name: str) -> jinja2.Template:
    """A template of this folder, which escapes all texts."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


def _style() -> str:
    return asset("theme.css") + _own("report.css")


def _script() -> str:
    licences = f"/*!\n{asset('LICENSES.txt')}*/"
    libraries = [licences, asset("d3.min.js"), asset("plot.min.js"), asset("table.js")]
    return "\n".join([*libraries, _own("draw.js"), _own("report.js")])


@cache
def _own(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


@cache
def _policy(style: str, first: str, script: str) -> str:
    """The page's Content-Security-Policy: its own style and scripts by their hashes, and nothing else at all."""
    styles = f"style-src {csp_hash(style)} {csp_hash(PLOT_STYLE)}"
    scripts = f"script-src {csp_hash(first)} {csp_hash(script)}"
    return f"default-src 'none'; {scripts}; {styles}; base-uri 'none'; form-action 'none'"
