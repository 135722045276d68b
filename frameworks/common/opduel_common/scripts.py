"""Helpers of scripts that a build's interpreter runs by path and that print one JSON document, and of adaptors of
suites. Python 3.6 syntax."""

import hashlib
import importlib.machinery
import importlib.util
import json
import os
import random
import sys
import traceback

LONGEST_ERROR = 300  # characters
LONGEST = 60  # characters of a parameter in a case's id


def one_line(error):
    """Return an exception as one line."""
    line = " ".join("".join(traceback.format_exception_only(type(error), error)).split())
    return line if len(line) <= LONGEST_ERROR else line[: LONGEST_ERROR - 3] + "..."


def text_of_parameter(text, longest=LONGEST):
    """Return a parameter's ``repr`` for a case's id: one printable line, if long cut and with a digest."""
    clean = " ".join("".join(character if character.isprintable() else " " for character in text).split())
    if clean == text and len(text) <= longest:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{clean[: longest - 9]}~{digest}"


def seed_generators(seed):
    """Seed ``random``, and ``numpy.random`` if NumPy is imported, so that both sides draw the same numbers."""
    random.seed(seed & 0x7FFFFFFF)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed & 0x7FFFFFFF)


def load_module(name, path, folders=None):
    """Execute a Python file as the module ``name``; of a package, ``folders`` has the modules."""
    loader = importlib.machinery.SourceFileLoader(name, path)
    spec = importlib.util.spec_from_file_location(name, path, loader=loader, submodule_search_locations=folders)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    loader.exec_module(module)
    return module


def load_adaptor(folder):
    """Load the package ``adaptor`` from a framework's folder, as the worker does."""
    package = os.path.join(folder, "adaptor")
    return load_module("opduel_adaptor", os.path.join(package, "__init__.py"), [package])


def list_arguments(parameters, leave_out=()):
    """Return ``[[name, "required" or "optional"], ...]`` of a signature's parameters, without ``*args, **kwargs``."""
    return [
        [parameter.name, "required" if parameter.default is parameter.empty else "optional"]
        for parameter in parameters
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) and parameter.name not in leave_out
    ]


def answer(make, *arguments):
    """Print what ``make`` returns as JSON, send whatever the build prints to stderr, and end the process."""
    stdout = os.dup(1)
    os.dup2(2, 1)
    document = make(*arguments)
    with os.fdopen(stdout, "w") as stream:
        json.dump(document, stream)
    os._exit(0)  # skip what the framework does at its exit
