"""Where functions begin in source files."""

import pytest

from opduel.driver.function_lines import defines


@pytest.mark.parametrize(
    ("line", "is_definition"),
    [
        ("int Sum(int n) {", True),
        ("static inline std::vector<int> &Sum(", True),
        ("void lib::op::Sum<float>(int n)", True),
        ("Layer::Sum(int n)", True),
        ("  virtual float Sum() const {", True),
        ("    async def Sum(self):", True),
        ("cdef inline int Sum(int n):", True),
        ("    Sum(n)", False),
        ("  return Sum(n) +", False),
        ("  lib::Sum(n,", False),
        ("  int s = Sum(n", False),
        ("int Sum(int n);", False),
        ("int Summary(int n) {", False),
        ("  if (Sum(n)) {", False),
    ],
)
def test_the_look_of_a_definition(line: str, is_definition: bool) -> None:
    assert defines(line, r"(?<!\w)(?:Sum)(?!\w)") == is_definition
