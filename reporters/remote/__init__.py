"""The remote reporter: reports posted to a results server, and kept on disk until it has them."""

from opduel.reporters.remote.reporter import RemoteReporter as RemoteReporter
