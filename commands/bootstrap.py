"""Enter the environment of a checkout, from any python3. Runs before it: old syntax, standard library only."""

# The core of the module signal, which is there at once: signal itself imports others first, and Ctrl-C meanwhile would
# be a traceback.
import _signal as signal
import os
import sys

from opduel.commands import start

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))  # opduel/commands is a link
ENVIRONMENT = os.path.join(ROOT, ".venv")
PYTHONS = ((3, 11), (3, 14))  # from the first to below the second: requires-python in pyproject.toml
# Variables that are meant for another interpreter, or change how this one ends: the commands go on without them.
UNWANTED = ("PYTHONHOME", "PYTHONINSPECT", "PYTHONPATH", "PYTHONPLATLIBDIR", "PYTHONWARNINGS")
NEEDED = ("numpy", "scipy", "pydantic", "yaml", "rich", "platformdirs", "psutil", "git", "requests")


def run(script):
    """Enter the environment, and end with the exit code of the command ``opduel``, called as a script."""
    start.stop_on_signals()
    enter()
    start.call_main(fix(), script)


def enter():
    """Go on in .venv if it is there, else in this interpreter if it can run opduel; else say how to make .venv.

    Another environment's packages may be of other versions: .venv comes first.
    """
    inside = os.path.realpath(sys.prefix) == os.path.realpath(ENVIRONMENT)
    entered = os.environ.pop("OPDUEL_ENTERED", None)  # a damaged .venv must not be entered for ever
    redirected = any(name in os.environ for name in UNWANTED)
    interpreter = os.path.join(ENVIRONMENT, "bin", "python")
    if os.access(interpreter, os.X_OK) and not entered and (redirected or not inside):
        start_again(interpreter, UNWANTED, {"OPDUEL_ENTERED": "1"})
    elif (inside or not entered) and PYTHONS[0] <= sys.version_info[:2] < PYTHONS[1] and all(map(importable, NEEDED)):
        if "PYTHONINSPECT" in os.environ:  # at its end Python would ask for commands, and forget the exit code
            start_again(sys.executable, ("PYTHONINSPECT",), {})
        return
    start.say("opduel: its environment is missing or incomplete; make it with: " + fix() + "\n")
    raise SystemExit(start.USAGE)


def start_again(interpreter, without, variables):
    """Run this command in ``interpreter`` in place of this process; returns only if that can't be.

    Signals wait until the new process handles them: a new program begins with the handlers of the system.
    """
    if sys.stdout is not None:  # it may be closed
        sys.stdout.flush()
    environment = {name: value for name, value in os.environ.items() if name not in without}
    environment.update(variables)
    signal.pthread_sigmask(signal.SIG_BLOCK, start.STOPPING)
    try:
        os.execve(interpreter, [interpreter, *sys.argv], environment)
    except OSError:  # made on another machine, say
        signal.pthread_sigmask(signal.SIG_UNBLOCK, start.STOPPING)


def importable(name):
    """Whether a top-level module can be found, without importing it."""
    import importlib.util

    return importlib.util.find_spec(name) is not None


def fix():
    """The command that makes the environment; what is there of it and does not do is removed first."""
    import shlex

    targets = "clean setup" if os.path.lexists(ENVIRONMENT) else "setup"
    return "make -C " + shlex.quote(ROOT) + " " + targets
