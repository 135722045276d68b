"""The formats that a report can be written in for others to read, by name."""

from collections.abc import Callable, Mapping

from records import Report
from reporters.html import to_html
from reporters.markdown import to_markdown

FORMATS: Mapping[str, Callable[[Report], str]] = {"html": to_html, "md": to_markdown}
