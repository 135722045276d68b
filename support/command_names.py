"""How messages and help name the commands: as ``opduel``, or as a checkout's scripts where one of those was called."""

from collections.abc import Iterator
from contextlib import contextmanager

# Subcommand of opduel -> the script that does the same.
SCRIPTS = {
    "compare": "harness.py",
    "measure": "harness.py",
    "drive": "repo_driver.py",
    "local": "repo_driver.py",
    "bisect": "repo_driver.py",
    "list": "run_bench.py --list",
    "flush": "run_bench.py --flush",
    "send": "run_bench.py --send",
    "convert": "run_bench.py --convert",
    "calibrate": "run_bench.py --calibrate",
    "spec-from": "run_bench.py --spec_from",
}
_are_scripts = [False]  # of the process: threads are named for in the same way


@contextmanager
def named_for(command: str) -> Iterator[None]:
    """Within it, commands are named as for a user of ``command``: by scripts if it is one (``harness.py``)."""
    _are_scripts.append(".py" in command)
    try:
        yield
    finally:
        _are_scripts.pop()


def command_name(subcommand: str) -> str:
    """Return what to call for a subcommand: ``opduel list``, or ``run_bench.py --list`` if there is such a script."""
    usual = f"opduel {subcommand}"
    return SCRIPTS.get(subcommand, usual) if _are_scripts[-1] else usual


def reinstall_words() -> str:
    """Return what repairs the installation."""
    return "run `make setup`" if _are_scripts[-1] else "install opduel again"
