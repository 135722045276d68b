"""The formats that a report can be written in for others to read, by name."""

from collections.abc import Callable, Mapping

from records import Report
from reporters.markdown import to_markdown

FORMATS: Mapping[str, Callable[[Report], str]] = {"md": to_markdown}
