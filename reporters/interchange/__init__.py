"""Interchange: a report in the words of tools that people already use, a file for each. See docs/interchange.md."""

from reporters.interchange.written import Written

__all__ = ["Written"]
