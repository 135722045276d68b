"""Enter the environment of a checkout, from any python3. Runs before it: old syntax, standard library only."""

# The core of the module signal, which is there at once: signal itself imports others first, and Ctrl-C meanwhile would
# be a traceback.
import _signal as signal
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))  # opduel/commands is a link
ENVIRONMENT = os.path.join(ROOT, ".venv")
STOPPING = {signal.SIGINT: "SIGINT", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP"}
PYTHONS = ((3, 11), (3, 12))  # from the first to below the second: requires-python in pyproject.toml
INCOMPLETE = 3  # the exit code of what was stopped
# Variables that are meant for another interpreter, or change how this one ends: the commands go on without them.
UNWANTED = ("PYTHONHOME", "PYTHONINSPECT", "PYTHONPATH", "PYTHONPLATLIBDIR", "PYTHONWARNINGS")
NEEDED = ("numpy", "scipy", "pydantic", "yaml", "rich", "platformdirs", "psutil", "git", "requests")


def run(module):
    """Enter the environment, and end with what ``main()`` of the command's module returns.

    A command that can't be loaded must not end in 1, which means that a regression was found. Loading takes seconds; a
    signal that comes meanwhile ends the command with one line and the exit code of what was stopped.
    """
    stop_on_signals()
    enter()
    import importlib

    try:
        main = importlib.import_module(module).main
    except ImportError as error:
        say(f"opduel: its environment does not work ({one_line(error)}); rebuild it with: {fix()}\n")
        raise SystemExit(2) from None
    except Exception as error:  # no memory, no more open files, a module that is damaged
        say(f"opduel: cannot be loaded: {type(error).__name__}: {one_line(error)}\n")
        raise SystemExit(INCOMPLETE) from None
    code = main()
    ignore_signals()  # all is said: what comes now must not change the exit code
    raise SystemExit(code)


def stop_on_signals():
    """End at once when a signal comes that stops a command, unless it is ignored (nohup)."""
    for number in STOPPING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stop)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)  # they were held back while the environment was entered


def stop(number, frame):
    """Nothing has begun yet: one line, and the end."""
    try:
        name = os.path.basename(sys.argv[0])
        os.write(2, f"{name}: stopped by {STOPPING[number]}\n".encode("utf-8", "backslashreplace"))
    except OSError:  # standard error is closed
        pass
    os._exit(INCOMPLETE)


def ignore_signals():
    """From now on a signal stops nothing."""
    for number in STOPPING:
        signal.signal(number, signal.SIG_IGN)


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
    say("opduel: its environment is missing or incomplete; make it with: " + fix() + "\n")
    raise SystemExit(2)


def start_again(interpreter, without, variables):
    """Run this command in ``interpreter`` in place of this process; returns only if that can't be.

    Signals wait until the new process handles them: a new program begins with the handlers of the system.
    """
    if sys.stdout is not None:  # it may be closed
        sys.stdout.flush()
    environment = {name: value for name, value in os.environ.items() if name not in without}
    environment.update(variables)
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
    try:
        os.execve(interpreter, [interpreter, *sys.argv], environment)
    except OSError:  # made on another machine, say
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)


def one_line(error):
    """What an error says; a library's text may have several lines."""
    return " ".join(str(error).split())


def say(text):
    """To standard error, unless that is closed."""
    if sys.stderr is not None:
        sys.stderr.write(text)


def importable(name):
    """Whether a top-level module can be found, without importing it."""
    import importlib.util

    return importlib.util.find_spec(name) is not None


def fix():
    """The command that makes the environment; what is there of it and does not do is removed first."""
    import shlex

    targets = "clean setup" if os.path.lexists(ENVIRONMENT) else "setup"
    return "make -C " + shlex.quote(ROOT) + " " + targets
