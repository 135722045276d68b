"""What scripts share that run by path in a build's interpreter, and print one JSON document. Python 3.6 syntax."""

import importlib.util
import json
import os
import sys


def load_adaptor(folder):
    """The package ``adaptor`` in a framework's folder, as the worker loads it."""
    package = os.path.join(folder, "adaptor")
    source = os.path.join(package, "__init__.py")
    spec = importlib.util.spec_from_file_location("opduel_adaptor", source, submodule_search_locations=[package])
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def answer(make, *arguments):
    """Print what ``make`` returns as JSON, whatever the build prints meanwhile, and end the process."""
    stdout = os.dup(1)
    os.dup2(2, 1)
    found = make(*arguments)
    with os.fdopen(stdout, "w") as stream:
        json.dump(found, stream)
    os._exit(0)  # whatever a framework would do as it exits: the answer is complete
