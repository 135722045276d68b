#!/usr/bin/env python3
"""The entry command: asks on its first use for what is missing, keeps the answers, and measures. See --help."""

if __name__ == "__main__":
    import _signal  # the core of the module signal: there at once
    import os
    import sys

    # Signals wait until bootstrap handles them.
    _signal.pthread_sigmask(_signal.SIG_BLOCK, (_signal.SIGHUP, _signal.SIGINT, _signal.SIGTERM))
    sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))  # which PYTHONSAFEPATH and -P leave out

    from opduel.commands import bootstrap

    bootstrap.run("run_bench.py")
