"""Specs: what is to be measured. Found by name, read strictly, and expanded into cases."""

from opduel.harness.specs.expand import expand_cases, matches, select_cases
from opduel.harness.specs.find import find_spec, list_specs
from opduel.harness.specs.load import is_bundle, load_spec, members_of, validate
from opduel.harness.specs.model import Settings, Spec
from opduel.harness.specs.read import plain_of, read_plain

__all__ = [
    "Settings",
    "Spec",
    "expand_cases",
    "find_spec",
    "is_bundle",
    "list_specs",
    "load_spec",
    "matches",
    "members_of",
    "plain_of",
    "read_plain",
    "select_cases",
    "validate",
]
