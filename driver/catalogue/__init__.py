"""The catalogue: a build's own registry and rules that are data become specs, one a category."""

from opduel.driver.catalogue.apply import Catalogue, apply_rules
from opduel.driver.catalogue.network import (
    Call,
    Input,
    Network,
    ask_network,
    network_source,
    network_spec,
    network_test,
    operator_tests,
)
from opduel.driver.catalogue.registry import Function, Registry, ask_registry
from opduel.driver.catalogue.rules import Rules, load_rules
from opduel.driver.catalogue.write import spec_files, write_specs

__all__ = [
    "Call",
    "Catalogue",
    "Function",
    "Input",
    "Network",
    "Registry",
    "Rules",
    "apply_rules",
    "ask_network",
    "ask_registry",
    "load_rules",
    "network_source",
    "network_spec",
    "network_test",
    "operator_tests",
    "spec_files",
    "write_specs",
]
