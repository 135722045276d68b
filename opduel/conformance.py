"""The conformance test for frameworks, for the tests of the package that brings one: docs/how-to/add-a-framework.md.

@pytest.mark.parametrize("name", CHECKS)
def test_conformance(name):
    assert not check(name, subject_of("spec.json", control="...", treatment="...")).problems
"""

from opduel.commands.conformance import subject_of, subject_of_suite
from opduel.harness.conformance import CHECKS, Outcome, Subject, check

__all__ = ["CHECKS", "Outcome", "Subject", "check", "subject_of", "subject_of_suite"]
