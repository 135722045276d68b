"""Specs: what is to be measured. Found by name, read strictly, and expanded into cases.

Each name here is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opduel.harness.specs.expand import expand_cases, select_cases
    from opduel.harness.specs.find import find_spec, list_specs
    from opduel.harness.specs.load import is_bundle, load_cases, load_spec, members_of, validate
    from opduel.harness.specs.model import Settings, Spec
    from opduel.harness.specs.read import plain_of, read_plain

_NAMES_BY_MODULE = {
    "expand": {"expand_cases", "select_cases"},
    "find": {"find_spec", "list_specs"},
    "load": {"is_bundle", "load_cases", "load_spec", "members_of", "validate"},
    "model": {"Settings", "Spec"},
    "read": {"plain_of", "read_plain"},
}


def __getattr__(name: str) -> Any:
    for module, names in _NAMES_BY_MODULE.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
