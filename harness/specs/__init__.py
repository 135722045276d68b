"""Specs: what is to be measured. Found by name, read strictly, and expanded into cases.

Each name here is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opduel.harness.specs.expand import expand_cases as expand_cases
    from opduel.harness.specs.expand import matches as matches
    from opduel.harness.specs.expand import select_cases as select_cases
    from opduel.harness.specs.find import find_spec as find_spec
    from opduel.harness.specs.find import list_specs as list_specs
    from opduel.harness.specs.load import is_bundle as is_bundle
    from opduel.harness.specs.load import load_spec as load_spec
    from opduel.harness.specs.load import members_of as members_of
    from opduel.harness.specs.load import validate as validate
    from opduel.harness.specs.model import Settings as Settings
    from opduel.harness.specs.model import Spec as Spec
    from opduel.harness.specs.read import plain_of as plain_of
    from opduel.harness.specs.read import read_plain as read_plain

_NAMES_BY_MODULE = {
    "expand": {"expand_cases", "matches", "select_cases"},
    "find": {"find_spec", "list_specs"},
    "load": {"is_bundle", "load_spec", "members_of", "validate"},
    "model": {"Settings", "Spec"},
    "read": {"plain_of", "read_plain"},
}


def __getattr__(name: str) -> Any:
    for module, names in _NAMES_BY_MODULE.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
