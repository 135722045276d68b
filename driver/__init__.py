"""Commits and builds: what the harness measures, and how it is had."""
