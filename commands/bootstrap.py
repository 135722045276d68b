"""Enter the project's environment from any python3. Runs before it: old syntax, standard library only."""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
INTERPRETER = os.path.join(ROOT, ".venv", "bin", "python")
NEEDED = ("numpy", "scipy", "pydantic", "yaml", "rich", "platformdirs", "psutil")


def enter():
    """Return if this interpreter can run opduel; else go on in .venv, or say how to make it and exit with 2."""
    if sys.version_info[:2] >= (3, 11) and all(map(importable, NEEDED)):
        return
    inside = os.path.realpath(sys.prefix) == os.path.realpath(os.path.join(ROOT, ".venv"))
    if os.access(INTERPRETER, os.X_OK) and not inside:
        sys.stdout.flush()
        os.execv(INTERPRETER, [INTERPRETER, *sys.argv])
    sys.stderr.write("opduel: its environment is missing or incomplete; make it with: make -C " + ROOT + " setup\n")
    raise SystemExit(2)


def importable(name):
    """Whether a top-level module can be found, without importing it."""
    import importlib.util

    return importlib.util.find_spec(name) is not None
