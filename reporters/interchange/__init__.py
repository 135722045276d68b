"""Interchange: a report in the words of tools that people already use. See docs/how-to/interchange.md."""
