"""Specs: what is to be measured. Found by name, read strictly, and expanded into cases."""

from harness.specs.expand import expand_cases, select_cases
from harness.specs.find import find_spec, list_specs
from harness.specs.load import is_bundle, load_spec
from harness.specs.model import Spec

__all__ = ["Spec", "expand_cases", "find_spec", "is_bundle", "list_specs", "load_spec", "select_cases"]
