"""The adaptor for functions of any package, in this process: names, arguments, results, memory; on our own NumPy."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy
import pytest

from opduel.frameworks import get_framework

ADAPTOR = get_framework("python").adaptor
SORTED = {"a": {"shape": [5], "init": "randint", "dtype": "int32"}}


@pytest.fixture(scope="module")
def adaptor() -> Iterator[ModuleType]:
    """As a worker loads it, under a name of its own."""
    sys.path.append(str(ADAPTOR.parent.parent / "common"))
    spec = importlib.util.spec_from_file_location(
        "python_adaptor", ADAPTOR / "__init__.py", submodule_search_locations=[str(ADAPTOR)]
    )
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    for name in [name for name in sys.modules if name.partition(".")[0] == spec.name]:
        del sys.modules[name]


def case(operator: str, inputs: dict[str, Any] | None = None, **fields: str) -> dict[str, Any]:
    usual = {"id": "one/forward", "dtype": "float32", "context": "cpu", "direction": "forward"}
    return {**usual, **fields, "operator": operator, "inputs": inputs or {}}


def computed(adaptor: ModuleType, one: dict[str, Any], folder: Path, seed: int = 1) -> dict[str, numpy.ndarray]:
    found = adaptor.results(one, seed, str(folder), 1 << 20)
    return {each["name"]: numpy.fromfile(folder / each["file"], each["dtype"]).reshape(each["shape"]) for each in found}


def test_arguments_are_arrays_calls_and_plain_values(adaptor: ModuleType, tmp_path: Path) -> None:
    args = [{"value": "ij,j->i"}, {"call": "numpy.eye", "args": [3]}, {"call": "numpy.arange", "kwargs": {"stop": 3}}]
    assert computed(adaptor, case("numpy.einsum", {"args": args}), tmp_path)["output"].tolist() == [0, 1, 2]
    axes = {"call": "builtins.tuple", "args": [{"value": [0, 1]}]}
    total = case("numpy.sum", {"a": {"shape": [2, 3], "init": "ones"}, "axis": axes})
    assert computed(adaptor, total, tmp_path)["output"] == 6
    joined = case("numpy.concatenate", {"args": [{"tuple": [[2], [3]]}]})
    assert computed(adaptor, joined, tmp_path)["output"].shape == (5,)
    same = case("numpy.subtract", {"args": [[4], [4]], "out": [4]})
    assert set(computed(adaptor, same, tmp_path)) == {"output", "out after the call"}


def test_methods_are_those_of_what_a_call_made(adaptor: ModuleType, tmp_path: Path) -> None:
    made = {"call": "numpy.polynomial.Polynomial", "args": [{"value": [1, 2]}]}
    one = case("numpy.polynomial.Polynomial.__call__", {"self": made, "args": [{"value": 3}]})
    assert computed(adaptor, one, tmp_path)["output"] == 7
    filled = {"call": "numpy.ma.masked_less", "args": [{"value": [1, 5]}, 3]}  # a subclass, whose own method is called
    assert computed(adaptor, case("numpy.ndarray.sum", {"self": filled}), tmp_path)["output"] == 5
    in_place = computed(adaptor, case("numpy.ndarray.sort", {"self": {**SORTED["a"]}}), tmp_path)
    assert (numpy.diff(in_place["self after the call"]) >= 0).all()


@pytest.mark.parametrize("inputs", [SORTED, {"a": {"call": "numpy.random.rand", "args": [5]}}])
def test_inputs_come_from_the_seed_alone(adaptor: ModuleType, tmp_path: Path, inputs: dict[str, Any]) -> None:
    values = [computed(adaptor, case("numpy.sort", inputs), tmp_path, seed)["output"].tolist() for seed in (1, 1, 2)]
    assert values[0] == values[1] != values[2]
    digests = [adaptor.digest(case("numpy.sort", SORTED), seed) for seed in (1, 1, 2)]
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize(
    ("operator", "kind"),
    [
        ("numpy.sortt", "missing"),
        ("numpy.nothing.sort", "missing"),
        ("numpy.linalg.__version__", "missing"),  # no function
        ("nopackage.sort", "missing"),
        ("os.system", "missing"),
        ("builtins.eval", "missing"),
        ("numpy.f2py.os.system", "missing"),  # a module that the package imports
        ("numpy.ma.core.builtins.eval", "missing"),
    ],
)
def test_names_that_can_not_be_measured(adaptor: ModuleType, operator: str, kind: str) -> None:
    with pytest.raises(Exception, match=r"numpy|package|standard") as caught:
        adaptor.make_call(case(operator, {"a": [3]}), 1)
    assert getattr(caught.value, "kind", "error") == kind


@pytest.mark.parametrize(
    ("one", "message"),
    [
        (case("numpy.sort", {"a": {"call": "numpy.nope"}}), r"a: numpy.nope: numpy.nope does not exist"),
        (case("numpy.sort", {"a": [3]}, direction="backward"), "no backward direction: use forward"),
        (case("numpy.sort", {"a": [3]}, context="gpu"), "run on cpu"),
        (case("numpy.sort", {"a": {"call": "numpy.ones", "args": [3]}}, dtype="int8"), "nothing in this case .* int8"),
        (case("numpy.sort", {"a": {"index": "1:2"}}), "a: .*index.* is not an argument"),
        (case("numpy.sort", {"a": {"shape": [3, 3], "stype": "csr"}}), "a: there are no csr arrays"),
        (case("numpy.add", {"args": [[2]], "out": {"same_as": "x"}}), "out: is the same as x"),
    ],
)
def test_inputs_that_can_not_be_made(adaptor: ModuleType, one: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception, match=message) as caught:
        adaptor.make_call(one, 1)
    assert getattr(caught.value, "kind", "error") == "error"  # the operator is there


def test_results_of_other_types(adaptor: ModuleType, tmp_path: Path) -> None:
    spectrum = computed(adaptor, case("numpy.fft.fft", {"a": [4]}), tmp_path)
    assert [(name, value.shape) for name, value in spectrum.items()] == [("output.real", (4,)), ("output.imag", (4,))]
    assert set(computed(adaptor, case("numpy.linalg.eigh", {"a": [2, 2]}), tmp_path)) == {"output[0]", "output[1]"}
    sparse = {"args": [{"call": "scipy.sparse.eye", "args": [2]}]}
    assert computed(adaptor, case("scipy.sparse.csr_matrix", sparse), tmp_path)["output"].tolist() == [[1, 0], [0, 1]]
    with pytest.raises(TypeError, match="output: a str is not a number"):
        computed(adaptor, case("numpy.array2string", {"a": [2]}), tmp_path)


def test_memory_is_what_a_call_needs(adaptor: ModuleType) -> None:
    copied = case("numpy.copy", {"a": [1000, 250]})
    assert adaptor.memory(copied, 1, 2)["cpu"] == pytest.approx(1e6, rel=0.01)
