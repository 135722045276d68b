"""Import the modules of the run's cases before the worker forks, so that no child has to import them for its case."""

import importlib
import os
import sys

from opduel_common.forks import import_if_safe
from opduel_common.names import is_standard

NAMES = "OPDUEL_IMPORTS"  # set by the framework: dotted names, with commas between


def import_all(names):
    """Import the modules of dotted names; the last parts of a name may be a class."""
    for name in names:
        parts = name.split(".")
        for count in range(1, len(parts) + 1):
            try:
                importlib.import_module(".".join(parts[:count]))
            except ImportError:
                break  # a class, or missing in this build: then its case says so


def import_before_forking():
    """Import the modules that the run's cases name if that is safe; otherwise each case's process does."""
    names = [name for name in os.environ.get(NAMES, "").split(",") if name and not is_standard(name.split(".")[0])]
    if any(name not in sys.modules for name in names):
        import_if_safe(import_all, names)
