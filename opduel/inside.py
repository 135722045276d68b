"""The framework's worker-side code, found and loaded in the interpreter that has the framework."""

import functools
import importlib.util
import os
import sys

PACKAGE = os.path.dirname(os.path.abspath(__file__))
FRAMEWORKS = os.path.join(PACKAGE, "frameworks")
NAME = "opduel_inside_adaptor"


def adaptor_of(operators=()):
    """The adaptor of the framework that the operators come from; for names, of the one that can be imported here.

    Raises ValueError: there is none.
    """
    modules = {getattr(operator, "__module__", None) or "" for operator in operators if not isinstance(operator, str)}
    names = {module.partition(".")[0] for module in modules} & set(known_frameworks())
    return _loaded((sorted(names) or [importable_framework()])[0])


def known_frameworks():
    """The frameworks that have worker-side code that measures in place."""
    return sorted(
        name
        for name in os.listdir(FRAMEWORKS)
        if os.path.isfile(os.path.join(FRAMEWORKS, name, "adaptor", "performance.py"))
    )


def importable_framework():
    """The first framework that this interpreter can import.

    Raises ValueError: it can import none.
    """
    for name in known_frameworks():
        if importlib.util.find_spec(name) is not None:
            return name
    raise ValueError(
        "this interpreter ({}) can import none of {}: run it with `opduel python BUILD`, or give build=...".format(
            sys.executable, ", ".join(known_frameworks())
        )
    )


@functools.lru_cache(maxsize=None)
def _loaded(name):
    """Load the adaptor's package by its path: what is around it needs the checkout's environment."""
    sys.path.append(os.path.join(FRAMEWORKS, "common"))
    folder = os.path.join(FRAMEWORKS, name, "adaptor")
    spec = importlib.util.spec_from_file_location(
        NAME, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return importlib.import_module(NAME + ".performance")
