"""Interchange: a report in the words of tools that people already use, a file for each.

See docs/how-to/interchange.md.
"""

from reporters.interchange.written import Written

__all__ = ["Written"]
