"""The style sheet, scripts and charting library of reports and pages, as texts. See README.md."""

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import Literal

FOLDER = Path(__file__).parent
AssetName = Literal[
    "d3.min.js", "d3-flamegraph.min.js", "plot.min.js", "theme.css", "table.js", "flame.js", "LICENSES.txt"
]

PLOT_CLASS = "opduel-plot"
# Observable Plot puts this style sheet into every plot; a Content-Security-Policy must know its hash.
PLOT_STYLE = f""":where(.{PLOT_CLASS}) {{
  --plot-background: white;
  display: block;
  height: auto;
  height: intrinsic;
  max-width: 100%;
}}
:where(.{PLOT_CLASS} text),
:where(.{PLOT_CLASS} tspan) {{
  white-space: pre;
}}"""


@cache
def asset(name: AssetName) -> str:
    """Return the text of a file in this folder."""
    return (FOLDER / name).read_text(encoding="utf-8")


def csp_hash(text: str) -> str:
    """Return ``'sha256-...'``, by which a Content-Security-Policy names an inline script or style sheet of exactly
    this text."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def flame_style() -> str:
    """Return the style sheet that d3-flame-graph adds to the page, whose hash a Content-Security-Policy must name."""
    return asset("d3-flamegraph.min.js").partition(".textContent=`")[2].partition("`")[0]
