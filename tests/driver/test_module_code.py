"""What differs between two versions of a Python file."""

import pytest

from opduel.driver.module_code import ModuleChange, ModuleCode, compare_modules

BASE = '''"""A module."""
import os
from typing import TYPE_CHECKING

from .shapes import area

LIMIT = 10


def smooth(x, width=3):
    """Smooth."""
    # in place
    return helper(x)[:width]


def helper(x):
    return [value + 1 for value in x]


class Grid(Base):
    """A grid."""

    size = 3

    @property
    def total(self):
        return self.size
'''


def change(old: str, new: str, path: str = "pkg/module.py") -> ModuleChange:
    return compare_modules(path, ModuleCode.of(old.encode()), ModuleCode.of(new.encode()))


def edited(old: str, new: str) -> ModuleChange:
    assert old in BASE
    return change(BASE, BASE.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('    """Smooth."""\n    # in place\n', ""),
        ('"""A grid."""', '"""A lattice."""'),
        ("import os\n", "import os\n\n# for types\n"),
        ("LIMIT = 10\n", "LIMIT = 10\nif TYPE_CHECKING:\n    from elsewhere import Grid\n"),
        ("LIMIT = 10\n", 'LIMIT = 10\n__version__ = version = "1.2.dev3"\n'),
    ],
)
def test_what_is_not_executed_makes_no_difference(old: str, new: str) -> None:
    assert edited(old, new) == ModuleChange()


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ("value + 1", "value + 2", {"helper"}),
        ("width=3", "width=4", {"smooth"}),
        ("    @property\n", "    @cached_property\n", {"Grid.total"}),
        ("value + 1", "value + jitter", {"helper"}),
        ("return self.size", "return sum(n for n in [self.size])", {"Grid.total"}),
    ],
)
def test_a_function_differs_by_its_source_defaults_and_decorators(old: str, new: str, names: set[str]) -> None:
    assert edited(old, new) == ModuleChange(frozenset(names))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 10", "LIMIT = 11"),
        ("class Grid(Base)", "class Grid(Other)"),
        ("    size = 3\n", "    size = 4\n"),
        ("import area\n", "import area as smooth_area\nfrom .other import area\n"),  # the name stands for another
        ("LIMIT = 10\n", "LIMIT = 10\nregister(LIMIT)\n"),
        ("LIMIT = 10\n", "LIMIT = 10\nlen = max\n"),  # hides Python's own
        ("LIMIT = 10\n", "LIMIT = 10\nfrom other import *\n"),
        ("LIMIT = 10\n", "LIMIT = 10\nif LIMIT:\n    import json\n"),
        (
            "import os\n",
            "import os\nimport numba\nfast = numba.jit\n\n\ndef more(): ...\n",
        ),  # Python sees no call of it
    ],
)
def test_other_code_reaches_all_that_imports_the_file(old: str, new: str) -> None:
    assert edited(old, new).is_deeper


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ("import os\n", "import os\nimport json\nimport os.path\n", set()),
        ("import os\n", "", set()),  # nothing used it
        ("LIMIT = 10\n", "LIMIT = 10\nDEEPEST = 3\n__all__ = ['smooth']\n", set()),
        ("LIMIT = 10\n", "LIMIT = 10\nfrom .shapes import *\nfrom pkg.other import *\n", set()),
        ("def helper", "def other(): ...\n\n\ndef helper", {"other"}),
        ("    size = 3\n", "    size = 3\n\n    def __len__(self):\n        return 3\n", {"Grid.__len__"}),
    ],
)
def test_names_that_come_or_go_are_no_deeper_change(old: str, new: str, names: set[str]) -> None:
    assert edited(old, new) == ModuleChange(frozenset(names), adds=True)
    assert not change(BASE.replace(old, new), BASE).is_deeper or "import *" in new


def test_a_name_that_goes_while_code_uses_it_is_a_deeper_change() -> None:
    assert change("import os\n\n\ndef f():\n    return os.sep\n", "def f():\n    return os.sep\n").is_deeper


def test_functions_within_conditions_and_functions_are_found() -> None:
    text = "try:\n    import fast\nexcept ImportError:\n"
    text += "    def f():\n        def g():\n            return 1\n        return g\n"
    assert change(text, text.replace("return 1", "return 2")) == ModuleChange(frozenset({"f"}))
    code = ModuleCode.of(text.encode())
    assert code is not None
    assert [code.name_at(line) for line in (1, 4, 6, 7, 8)] == ["", "f", "f", "f", ""]


def test_a_decorator_is_a_part_of_its_function() -> None:
    code = ModuleCode.of(b"@first\n@second\ndef f():\n    pass\n")
    assert code is not None
    assert code.name_at(1) == "f"


def test_what_can_not_be_parsed_reaches_all_that_imports_it() -> None:
    assert ModuleCode.of(b"print 1\n") is None
    assert compare_modules("a.py", None, ModuleCode.of(b"")) == ModuleChange(is_deeper=True)
