"""The remote reporter: reports posted to a results server, and kept on disk until it has them.

See docs/how-to/remote.md.
"""

from opduel.reporters.remote.reporter import RemoteReporter

__all__ = ["RemoteReporter"]
