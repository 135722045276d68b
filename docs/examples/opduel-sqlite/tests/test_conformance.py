import sys

import pytest
from opduel.conformance import CHECKS, check, subject_of


@pytest.mark.parametrize("name", CHECKS)
def test_conformance(name: str) -> None:
    assert not check(name, subject_of("sqlite.json", control=sys.executable)).problems
