"""Enter the project's environment from any python3. Runs before it: old syntax, standard library only."""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ENVIRONMENT = os.path.join(ROOT, ".venv")
NEEDED = ("numpy", "scipy", "pydantic", "yaml", "rich", "platformdirs", "psutil", "git", "requests")


def run(module):
    """Enter the environment, and end with what ``main()`` of the command's module returns.

    A command that can't be loaded must not end in 1, which means that a regression was found.
    """
    enter()
    import importlib

    try:
        main = importlib.import_module(module).main
    except ImportError as error:
        say(f"opduel: its environment does not work ({error}); rebuild it with: {mend()}\n")
        raise SystemExit(2) from None
    raise SystemExit(main())


def enter():
    """Go on in .venv if it is there, else in this interpreter if it can run opduel; else say how to make .venv.

    Another environment's packages may be of other versions: .venv comes first.
    """
    inside = os.path.realpath(sys.prefix) == os.path.realpath(ENVIRONMENT)
    entered = os.environ.pop("OPDUEL_ENTERED", None)  # a damaged .venv must not be entered for ever
    redirected = "PYTHONPATH" in os.environ  # meant for a framework; its packages must not stand before ours
    interpreter = os.path.join(ENVIRONMENT, "bin", "python")
    if os.access(interpreter, os.X_OK) and not entered and (redirected or not inside):
        if sys.stdout is not None:  # it may be closed
            sys.stdout.flush()
        environment = dict(os.environ, OPDUEL_ENTERED="1")
        environment.pop("PYTHONPATH", None)
        try:
            os.execve(interpreter, [interpreter, *sys.argv], environment)
        except OSError:  # made on another machine, say
            pass
    elif (inside or not entered) and sys.version_info[:2] >= (3, 11) and all(map(importable, NEEDED)):
        return
    say("opduel: its environment is missing or incomplete; make it with: " + mend() + "\n")
    raise SystemExit(2)


def say(text):
    """To standard error, unless that is closed."""
    if sys.stderr is not None:
        sys.stderr.write(text)


def importable(name):
    """Whether a top-level module can be found, without importing it."""
    import importlib.util

    return importlib.util.find_spec(name) is not None


def mend():
    """The command that makes the environment; what is there of it and does not do is removed first."""
    import shlex

    targets = "clean setup" if os.path.lexists(ENVIRONMENT) else "setup"
    return "make -C " + shlex.quote(ROOT) + " " + targets
