"""What a user waits for: `opduel --help`, and the answer to a misspelt option."""

import subprocess
import sys


def run_opduel(*words: str) -> int:
    """Run a command, and return its exit code."""
    quiet = subprocess.DEVNULL
    return subprocess.run([sys.executable, "-m", "opduel", *words], stdout=quiet, stderr=quiet, check=False).returncode


def time_help() -> None:
    assert run_opduel("--help") == 0


def time_usage_error() -> None:
    assert run_opduel("compare", "numpy==1.26.4", "numpy==2.2.6", "--thresold", "1") == 2
