#!/usr/bin/env python3
"""Commits of a framework's repository, pulled, built and measured against each other. See --help."""

if __name__ == "__main__":
    import _signal  # the core of the module signal: there at once
    import os
    import sys

    # Signals wait until bootstrap handles them.
    _signal.pthread_sigmask(_signal.SIG_BLOCK, (_signal.SIGHUP, _signal.SIGINT, _signal.SIGTERM))
    sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))  # which PYTHONSAFEPATH and -P leave out

    from opduel.commands import bootstrap

    bootstrap.run("repo_driver.py")
