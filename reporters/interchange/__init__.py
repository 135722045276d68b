"""Interchange: a report in the words of tools that people already use, a file for each.

See docs/how-to/interchange.md.
"""

from opduel.reporters.interchange.rendered import Rendered

__all__ = ["Rendered"]
