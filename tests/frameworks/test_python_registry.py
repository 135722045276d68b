"""The script that lists a package's public functions, and the rules for NumPy and SciPy, on our own packages."""

import sys
from types import ModuleType
from typing import Any

import numpy
import pytest
from adaptor_modules import load

from opduel.driver.catalogue.apply import apply_rules
from opduel.driver.catalogue.registry import Function, Registry
from opduel.driver.catalogue.rules import catalogue_names, load_rules
from opduel.driver.catalogue.write import spec_files
from opduel.frameworks import get_framework
from opduel.frameworks.base import SPECIFICATIONS
from opduel.harness.specs import expand_cases, find_spec, load_spec

FRAMEWORK = get_framework("python")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    assert FRAMEWORK.scripts.registry
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.path", ["", *sys.path])  # the script replaces the first, its own folder
        return load(FRAMEWORK.scripts.registry)


@pytest.fixture(scope="module")
def listed(script: ModuleType) -> dict[str, Any]:
    names = ["numpy", "numpy.linalg", "numpy.random.Generator", "scipy.special", "scipy.stats", "numpy.no_such"]
    document: dict[str, Any] = script.document(names)
    return document


def test_functions_have_kinds_arguments_and_first_names(listed: dict[str, Any]) -> None:
    functions = listed["functions"]
    assert functions["numpy.sort"]["arguments"][:2] == [["a", "required"], ["axis", "optional"]]
    assert (functions["numpy.sort"]["kind"], functions["numpy.add"]["kind"]) == ("function", "ufunc")
    assert functions["numpy.add"]["arguments"] == [["x1", "positional"], ["x2", "positional"]]
    assert {"float32", "float64", "int32", "bool"} <= set(functions["numpy.add"]["dtypes"])
    assert "int32" not in functions["numpy.sin"]["dtypes"]
    assert functions["numpy.abs"]["registered"] == "numpy.absolute", "by its own name"
    assert functions["numpy.random.Generator.normal"]["arguments"][0] == ["self", "required"]
    assert functions["numpy.random.Generator.normal"]["kind"] == "method"
    assert functions["scipy.special.jv"]["arguments"] == [["v", "positional"], ["z", "positional"]]
    assert functions["scipy.stats.gamma.pdf"]["arguments"][:2] == [["x", "required"], ["a", "required"]]
    assert "numpy.random.Generator.__eq__" not in functions, "every object has it"
    assert not [name for name in functions if name.endswith("Error")]
    assert listed["version"].split()[0] == numpy.__version__


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("dot(a, b, out=None)\n\nDot product.", [["a", "required"], ["b", "required"], ["out", "optional"]]),
        ("f(x, /, y, *, z=1)", [["x", "positional"], ["y", "required"], ["z", "optional"]]),
        ("concatenate((a1, a2, ...), axis=0)", [["tup", "required"], ["axis", "optional"]]),
        ("arange([start,] stop[, step,], dtype=None)", None),
        ("Nothing of the kind.", None),
    ],
)
def test_signatures_of_docstrings(script: ModuleType, text: str, arguments: Any) -> None:
    class Documented:
        __doc__ = text

    assert script.arguments_from_docstring_line(Documented) == arguments


def test_arguments_of_a_section_of_parameters(script: ModuleType) -> None:
    class Documented:
        """Does it.

        Parameters
        ----------
        x, y : array_like
            Both.
        axis : int, optional
            Which.

        Returns
        -------
        z : array
        """

    assert script.arguments_from_numpydoc(Documented) == [["x", "required"], ["y", "required"], ["axis", "optional"]]


@pytest.mark.parametrize("name", ["numpy", "scipy"])
def test_the_rules_cover_what_they_list(script: ModuleType, name: str) -> None:
    """On our own releases of these packages, which need not be those that the specs were written from."""
    rules = load_rules(FRAMEWORK, name)
    document = script.document(rules.namespaces)
    functions = {
        full: Function(full, entry["registered"], dict(entry["arguments"]), kind=entry["kind"], dtypes=entry["dtypes"])
        for full, entry in document["functions"].items()
    }
    catalogue = apply_rules(rules, Registry(document["version"], document["registered"], functions))
    named = {functions[test["operator"]].registered for tests in catalogue.tests.values() for test in tests}
    assert len(named) / len(document["registered"]) > 0.85
    without_rule = [full for full, why in catalogue.left_out.items() if why.startswith("no rule")]
    assert len(without_rule) <= 20, without_rule
    assert len(spec_files(catalogue, rules, "python")) == len(catalogue.tests) + 1


def test_specs_of_the_catalogues_are_valid_and_narrowed_by_category() -> None:
    assert {"numpy", "scipy"} <= set(catalogue_names(FRAMEWORK))
    for name in ("numpy", "scipy"):
        rules = load_rules(FRAMEWORK, name)
        cases = expand_cases(load_spec(find_spec(f"{rules.bundle}"), ["linalg"]))
        assert {case.operator.rpartition(".")[0] for case in cases} == {f"{name}.linalg"}
        written = {path.stem for path in (SPECIFICATIONS / rules.folder).glob("*.json")}
        assert written <= set(rules.categories)
        assert expand_cases(load_spec(find_spec(f"{name}/linalg"))) == cases
