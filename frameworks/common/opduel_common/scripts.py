"""Helpers of scripts that a build's interpreter runs by path and that print one JSON document. Python 3.6 syntax."""

import importlib.machinery
import importlib.util
import json
import os
import sys


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
