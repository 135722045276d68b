"""Interchange: a report in the formats of other tools. See docs/how-to/interchange.md."""
