"""Templates of texts and pages, by Jinja: what the code computes of a report they lay out."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jinja2

from opduel.reporters import units
from opduel.reporters.changes import change_and_interval
from opduel.reporters.text import printable

_HERE = Path(__file__).parent
_UNITS: Mapping[str, Callable[..., str]] = {
    name: getattr(units, f"human_{name}") for name in ("change", "interval", "share", "value")
}


def environment(*, is_html: bool = False, **filters: Callable[..., Any]) -> jinja2.Environment:
    """Return an environment for the templates of this package, with ``filters`` beside ``change``, ``interval``,
    ``share``, ``value``, and ``change_of`` and ``interval_of`` a comparison. HTML is escaped, and characters that could
    disguise others."""
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=is_html,
        finalize=(lambda value: printable(value) if type(value) is str else value) if is_html else None,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        **_UNITS,
        "change_of": lambda comparison: change_and_interval(comparison, comparison.unit)[0],
        "interval_of": lambda comparison: change_and_interval(comparison, comparison.unit)[1],
        **filters,
    }
    return templates
