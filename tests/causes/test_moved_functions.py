"""Functions that moved to another module: which are taken for the same on both sides."""

import pytest

from opduel.causes.attribution.moved_functions import rename_moved_functions
from opduel.records.cause import Part


def names_of(before: dict[str, Part], after: dict[str, Part]) -> dict[str, str]:
    """The control's name -> the treatment's, of the parts that are taken for moved."""
    (renamed,) = rename_moved_functions([{"control": before, "treatment": after}])
    return {part.was: name for name, part in renamed["control"].items() if part.was}


def in_module(module: str, *functions: str, callers: tuple[str, ...] = ()) -> dict[str, Part]:
    where = f"{module.replace('.', '/')}.py:12"
    return {f"{module}.{function}": Part(1.0, 1, where, dict.fromkeys(callers, 1.0)) for function in functions}


def test_functions_are_the_same_in_modules_that_differ_in_underscores_and_endings() -> None:
    names = names_of(
        in_module("pkg.core.numeric", "allclose", "A.run") | in_module("pkg.lib.base", "trim", "_trim"),
        in_module("pkg._core.numeric", "allclose", "A.run") | in_module("pkg.lib._base_impl", "trim", "_trim"),
    )
    assert names == {
        "pkg.core.numeric.allclose": "pkg._core.numeric.allclose",
        "pkg.core.numeric.A.run": "pkg._core.numeric.A.run",
        "pkg.lib.base.trim": "pkg.lib._base_impl.trim",
        "pkg.lib.base._trim": "pkg.lib._base_impl._trim",
    }


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (in_module("pkg.core.a", "f"), in_module("pkg._core.a", "f") | in_module("pkg.core._a", "f")),  # which?
        (in_module("pkg.a", "f"), in_module("pkg.a", "f") | in_module("pkg._a", "f")),  # the old one is still there
        (in_module("one.a", "f"), in_module("two.a", "f")),  # another package
        (in_module("pkg.a", "f"), in_module("pkg.a", "_f")),  # another function
        ({"foo.part.0": Part(1.0, 1, "lib.so")}, {"foo._part.0": Part(1.0, 1, "lib.so")}),  # of a compiler
    ],
)
def test_what_may_be_another_function_is_not_the_same(before: dict[str, Part], after: dict[str, Part]) -> None:
    assert names_of(before, after) == {}
