"""The adaptor for programs, loaded as a worker loads it, under a name of its own."""

import importlib.util
import sys
from types import ModuleType

from opduel.frameworks import get_framework

ADAPTOR = get_framework("generic").adaptor
NAME = "generic_adaptor_package"


def load() -> ModuleType:
    """The package; its modules are attributes."""
    sys.path.append(str(ADAPTOR.parent.parent / "common"))
    spec = importlib.util.spec_from_file_location(
        NAME, ADAPTOR / "__init__.py", submodule_search_locations=[str(ADAPTOR)]
    )
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = module
    spec.loader.exec_module(module)
    return module
