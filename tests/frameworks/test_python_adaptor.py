"""The adaptor for functions of any package, in this process: names, arguments, results, memory; on our own NumPy."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy
import pytest
from adaptor_modules import load_adaptor

SORTED = {"a": {"shape": [5], "init": "randint", "dtype": "int32"}}


@pytest.fixture(scope="module")
def adaptor() -> Iterator[ModuleType]:
    """As a worker loads it, under a name of its own."""
    yield load_adaptor("python")
    for name in [name for name in sys.modules if name.partition(".")[0] == "python_adaptor"]:
        del sys.modules[name]


def case(operator: str, inputs: dict[str, Any] | None = None, **fields: str) -> dict[str, Any]:
    usual = {"id": "one/forward", "dtype": "float32", "context": "cpu", "direction": "forward"}
    return {**usual, **fields, "operator": operator, "inputs": inputs or {}}


def computed(adaptor: ModuleType, tested_case: dict[str, Any], folder: Path, seed: int = 1) -> dict[str, numpy.ndarray]:
    entries = adaptor.results(tested_case, seed, str(folder), 1 << 20)
    return {
        entry["name"]: numpy.fromfile(folder / entry["file"], entry["dtype"]).reshape(entry["shape"])
        for entry in entries
    }


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


def test_a_function_is_an_argument_by_its_dotted_name(adaptor: ModuleType, tmp_path: Path) -> None:
    argument = {"call": "numpy.reshape", "args": [{"call": "numpy.arange", "args": [{"value": 6}]}, {"value": [2, 3]}]}
    along = case("numpy.apply_along_axis", {"func1d": {"function": "numpy.sum"}, "axis": 1, "arr": argument})
    assert computed(adaptor, along, tmp_path)["output"].tolist() == [3, 12]
    first = {"function": "numpy.add", "args": [{"shape": [], "init": "ones"}]}
    argument = {"call": "numpy.vectorize", "args": [first]}
    vectorized = case("numpy.vectorize.__call__", {"self": argument, "args": [{"value": [1, 2]}]})
    assert computed(adaptor, vectorized, tmp_path)["output"].tolist() == [2, 3]
    for name in ("os.system", "numpy.absent", "double"):
        with pytest.raises(Exception, match=f"func1d: {name}") as raised:
            adaptor.make_call(
                case("numpy.apply_along_axis", {"func1d": {"function": name}, "axis": 0, "arr": argument}), 1
            )
        assert type(raised.value).__name__ == "UnusableCall"


def test_methods_are_those_of_what_a_call_made(adaptor: ModuleType, tmp_path: Path) -> None:
    instance = {"call": "numpy.polynomial.Polynomial", "args": [{"value": [1, 2]}]}
    call_case = case("numpy.polynomial.Polynomial.__call__", {"self": instance, "args": [{"value": 3}]})
    assert computed(adaptor, call_case, tmp_path)["output"] == 7
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
        ("numpy.f2py.crackfortran.Path", "missing"),  # a class that the package imports
        ("numpy.f2py.crackfortran.Path.unlink", "missing"),
        ("numpy.testing._private.utils.mkdtemp", "missing"),  # a function
    ],
)
def test_names_that_can_not_be_measured(adaptor: ModuleType, operator: str, kind: str) -> None:
    with pytest.raises(Exception, match=r"numpy|package|standard") as caught:
        adaptor.make_call(case(operator, {"a": [3]}), 1)
    assert getattr(caught.value, "kind", "error") == kind


@pytest.mark.parametrize(
    ("tested_case", "message"),
    [
        (case("numpy.sort", {"a": {"call": "numpy.nope"}}), r"a: numpy.nope: numpy.nope does not exist"),
        (case("numpy.sort", {"a": [3]}, direction="backward"), "no backward direction: leave it out"),
        (case("numpy.sort", {"a": [3]}, context="gpu"), "run on cpu"),
        (case("numpy.sort", {"a": {"call": "numpy.ones", "args": [3]}}, dtype="int8"), "nothing in this case .* int8"),
        (case("numpy.sort", {"a": {"index": "1:2"}}), "a: .*index.* is not an argument"),
        (case("numpy.sort", {"a": {"shape": [3, 3], "stype": "csr"}}), "a: there are no csr arrays"),
        (case("numpy.add", {"args": [[2]], "out": {"same_as": "x"}}), "out: is the same as x"),
    ],
)
def test_inputs_that_can_not_be_made(adaptor: ModuleType, tested_case: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception, match=message) as caught:
        adaptor.make_call(tested_case, 1)
    assert getattr(caught.value, "kind", "error") == "error"  # the operator is there


def test_results_of_other_types(adaptor: ModuleType, tmp_path: Path) -> None:
    spectrum = computed(adaptor, case("numpy.fft.fft", {"a": [4]}), tmp_path)
    assert [(name, value.shape) for name, value in spectrum.items()] == [("output.real", (4,)), ("output.imag", (4,))]
    assert set(computed(adaptor, case("numpy.linalg.eigh", {"a": [2, 2]}), tmp_path)) == {"output[0]", "output[1]"}
    sparse = {"args": [{"call": "scipy.sparse.eye", "args": [2]}]}
    assert computed(adaptor, case("scipy.sparse.csr_matrix", sparse), tmp_path)["output"].tolist() == [[1, 0], [0, 1]]
    with pytest.raises(TypeError, match=r"output\[0\]: a builtin_function_or_method holds no numbers and no text"):
        computed(adaptor, case("numpy.asarray", {"a": {"function": "numpy.frombuffer"}}), tmp_path)


@pytest.mark.parametrize(
    ("operator", "inputs", "expected"),
    [
        ("numpy.binary_repr", {"num": 2}, {"output": [49, 48]}),  # "10"
        ("numpy.char.upper", {"a": {"value": ["ab", "c"]}}, {"output": [[65, 66], [67, 0]]}),
        ("numpy.rec.array", {"obj": {"value": [[1], [2]]}, "formats": "i4"}, {"output['f0']": [[1], [2]]}),
        (
            "numpy.array",
            {"object": {"value": [[1], [2, 3]]}, "dtype": "object"},
            {"output[0]": [1], "output[1]": [2, 3]},
        ),
        (
            "numpy.ma.clump_masked",
            {"a": {"call": "numpy.ma.masked_less", "args": [{"value": [1, 9]}, 5]}},
            {"output[0][0]": 0, "output[0][1]": 1},
        ),
        ("numpy.dtype", {"args": [{"value": "int8"}]}, {"output": list(b"int8")}),
        ("numpy.ndenumerate", {"arr": {"value": [5]}}, {"output[0][0]": [0], "output[0][1]": 5}),
    ],
)
def test_text_records_and_lists_are_results(
    adaptor: ModuleType, tmp_path: Path, operator: str, inputs: dict[str, Any], expected: dict[str, Any]
) -> None:
    arrays = computed(adaptor, case(operator, inputs), tmp_path)
    assert {name: value.tolist() for name, value in arrays.items()} == expected


def test_of_an_object_its_public_attributes_are_results(adaptor: ModuleType, tmp_path: Path) -> None:
    limits = computed(adaptor, case("numpy.iinfo", {"args": [{"value": "int8"}]}), tmp_path)
    assert (limits["output.min"], limits["output.max"]) == (-128, 127)


def test_the_profile_has_every_functions_own_time(adaptor: ModuleType) -> None:
    call = adaptor.make_call(case("numpy.median", {"a": [1000000]}), 1)
    first, second = adaptor.profile(call, 2)
    times = {name: sum(runs) for name, runs in second["operators"].items()}
    assert set(times) == set(first["operators"])
    assert max(times, key=lambda name: times[name]) == "numpy.ndarray.partition"
    assert len(second["operators"]["numpy.median"]) == 1
    assert all(value > 0 for value in times.values())
    ufunc = adaptor.make_call(case("numpy.add", {"args": [[9], [9]]}), 1)
    assert set(adaptor.profile(ufunc, 1)[0]["operators"]) == {"numpy.add"}, "Python's profiler sees no ufunc"
    statement = adaptor.make_call(case("statement", {"statement": "sorted([2, 1])"}), 1)
    assert set(adaptor.profile(statement, 1)[0]["operators"]) == {"statement", "builtins.sorted"}


def test_modules_are_imported_before_the_fork_unless_that_is_dangerous(
    adaptor: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    bodies = {"good": "", "crashing": "import os; os.kill(os.getpid(), 9)", "raising": "1 / 0"}
    bodies["threading_one"] = (
        "import threading, time; threading.Thread(target=time.sleep, args=[9], daemon=True).start()"
    )
    for name, body in bodies.items():
        (tmp_path / f"{name}.py").write_text(body)
        monkeypatch.setenv("OPDUEL_IMPORTS", f"{name}.Class,no_such_package.x,os")
        adaptor.import_before_forking()
        assert (name in sys.modules) == (name == "good"), name
    sys.modules.pop("good")


GENERATORS = """
ran = []

class Folds:
    def split(self):
        ran.append("split")
        yield 1
        ran.append("its end")

def decorated(function):
    import functools
    return functools.wraps(function)(lambda: function())

@decorated
def pairs():
    ran.append("pairs")
    yield 2

import contextlib

@contextlib.contextmanager
def managed():
    ran.append("managed")
    yield

async def awaited():
    ran.append("awaited")

async def asynchronous():
    yield 1

class Awaited:
    async def __call__(self):
        ran.append("awaited")

instance = Awaited()

class Decorator:
    def __init__(self, function):
        import functools
        functools.update_wrapper(self, function)
    def __call__(self):
        return self.__wrapped__()

@Decorator
def by_class():
    ran.append("by class")
    yield 2

@decorated
async def unwrapped():
    pass
"""


def test_a_generator_function_is_run_to_its_end(
    adaptor: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "made_generators.py").write_text(GENERATORS)
    monkeypatch.syspath_prepend(str(tmp_path))
    adaptor.make_call(case("made_generators.Folds.split", {"self": {"call": "made_generators.Folds"}}), 1)()
    adaptor.make_call(case("made_generators.pairs"), 1)()
    adaptor.make_call(case("made_generators.by_class"), 1)()
    adaptor.make_call(case("made_generators.managed"), 1)()  # which returns no generator, and runs it when entered
    for name in ("awaited", "asynchronous", "instance"):
        with pytest.raises(
            ValueError, match=f"made_generators.{name} is asynchronous, and a call of it executes nothing"
        ):
            adaptor.make_call(case(f"made_generators.{name}"), 1)
    adaptor.make_call(case("made_generators.unwrapped"), 1)  # what wraps it may run it
    assert sys.modules.pop("made_generators").ran == ["split", "its end", "pairs", "by class"]


def test_memory_is_what_a_call_needs(adaptor: ModuleType) -> None:
    copied = case("numpy.copy", {"a": [1000, 250]})
    assert adaptor.memory(copied, 1, 2)["cpu"] == pytest.approx(1e6, rel=0.01)


def drawn(adaptor: ModuleType, shape: list[int], seed: int = 1, **tensor: Any) -> Any:
    """What an input in its long form becomes: the argument that ``builtins.tuple`` of it would hold."""
    inputs = {"args": [{"call": "builtins.tuple", "args": [{"tuple": [{"shape": shape, **tensor}]}]}]}
    _, _, args, _ = adaptor.prepare_case(case("numpy.asarray", inputs, dtype=""), seed)
    return args[0][0]


@pytest.mark.parametrize("dtype", ["float64", "complex128", "int16", "float32"])
def test_matrices_are_what_their_init_says(adaptor: ModuleType, dtype: str) -> None:
    symmetric = drawn(adaptor, [3, 20, 20], init="symmetric", dtype=dtype)
    assert symmetric.dtype == dtype
    assert (symmetric == symmetric.swapaxes(-1, -2)).all()
    hermitian = drawn(adaptor, [20, 20], init="hermitian", dtype=dtype)
    assert (hermitian == hermitian.conj().T).all()
    assert len(numpy.unique(hermitian)) > 5
    if dtype != "int16":
        definite = drawn(adaptor, [20, 20], init="positive_definite", dtype=dtype)
        numpy.testing.assert_allclose(definite, definite.conj().T, atol=1e-6)
        assert numpy.linalg.eigvalsh(definite).min() > 0
        assert numpy.iscomplexobj(definite) == (dtype == "complex128")


def test_values_lie_in_their_range_and_are_sorted(adaptor: ModuleType) -> None:
    for dtype in ("float64", "int32", "uint8"):
        values = drawn(adaptor, [200], dtype=dtype, low=3, high=7)
        assert (values.min() >= 3, values.max() < 7, values.dtype) == (True, True, dtype)
        assert len(numpy.unique(values)) > 3
    for dtype in ("float64", "int64", "datetime64[s]", "U4", "complex64"):
        values = drawn(adaptor, [2, 50], dtype=dtype, init="sorted")
        assert (numpy.sort(values) == values).all()
        assert len(numpy.unique(values)) > 5
    assert drawn(adaptor, [50], init="sorted", dtype="float64", low=5, high=6).min() >= 5


@pytest.mark.parametrize(
    "dtype", ["bool", ">f8", "longdouble", "c8", "U3", "S5", "U", "O", "m8[ns]", "M8[D]", "f8,i4", "(2,)f4", "u8"]
)
def test_arrays_of_every_dtype_come_from_the_seed(adaptor: ModuleType, dtype: str) -> None:
    first, same, other = (drawn(adaptor, [40], seed, dtype=dtype) for seed in (1, 1, 2))
    assert first.dtype.kind == numpy.empty(0, dtype).dtype.kind
    assert (first == same).all()
    assert (first != other).any()
    whole = case("numpy.copy", {"a": [40]}, dtype=dtype)
    digests = [adaptor.digest(whole, seed) for seed in (1, 1, 2)]
    assert digests[0] == digests[1] != digests[2]


def test_a_large_array_repeats_what_was_drawn(adaptor: ModuleType) -> None:
    values = drawn(adaptor, [1000, 1200], dtype="float32", init="uniform")
    assert (values.dtype, values.shape) == ("float32", (1000, 1200))
    assert len(numpy.unique(values, axis=0)) == 1000
    assert (values.ravel()[1_000_003:] == values.ravel()[: 1_200_000 - 1_000_003]).all()


@pytest.mark.parametrize("kind", ["csr_array", "coo_matrix", "lil_array", "dia_matrix"])
def test_sparse_arrays_have_their_class_and_share_of_elements(adaptor: ModuleType, kind: str) -> None:
    scipy_sparse = pytest.importorskip("scipy.sparse")
    array = drawn(adaptor, [60, 50], sparse=kind, density=0.2, dtype="complex128", init="uniform")
    assert type(array) is getattr(scipy_sparse, kind)
    assert (array.shape, array.dtype) == ((60, 50), "complex128")
    assert 0.15 < (array.toarray() != 0).mean() < 0.25
    same, other = (drawn(adaptor, [60, 50], seed, sparse=kind, density=0.2, dtype="float64") for seed in (1, 2))
    assert (same.toarray() != other.toarray()).any()
    definite = drawn(adaptor, [40, 40], sparse=kind, density=0.1, dtype="float64", init="positive_definite").toarray()
    assert (definite == definite.T).all()
    assert numpy.linalg.eigvalsh(definite).min() > 0
    symmetric = drawn(adaptor, [40, 40], sparse=kind, density=0.3, dtype="float32", init="symmetric").toarray()
    assert (symmetric == symmetric.T).all()
    assert 0.2 < (symmetric != 0).mean() < 0.4
    hermitian = drawn(adaptor, [9, 9], sparse=kind, density=1, dtype="complex64", init="hermitian").toarray()
    assert (hermitian == hermitian.conj().T).all()


@pytest.mark.parametrize(
    ("setup", "statement", "kind", "text"),
    [
        ("", "np.srot(3)", "missing", "module 'numpy' has no attribute 'srot'"),
        ("rnage(3)", "1", "missing", "name 'rnage' is not defined"),
        ("", "undefined_thing(3)", "missing", "name 'undefined_thing' is not defined"),
        ("import numpi", "1", "missing", "No module named 'numpi'"),
        ("from numpy import srot", "1", "missing", "cannot import name 'srot' from 'numpy'"),
        ("x = None", "x.sort()", "error", "'NoneType' object has no attribute 'sort'"),
        ("import broken", "broken.f() or broken.nosuch", "error", "'list' object has no attribute 'nosuch'"),
        ("x = []", "x[3]", "error", "list index out of range"),
    ],
)
def test_a_statement_s_own_name_that_the_build_lacks_is_missing(
    adaptor: ModuleType, setup: str, statement: str, kind: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What goes wrong within the functions that it calls is an error."""
    broken = ModuleType("broken")
    exec("def f():\n    return [].nosuch", vars(broken))
    monkeypatch.setitem(sys.modules, "broken", broken)
    inputs = {"setup": setup, "statement": statement, "modules": {"np": "numpy"}}
    with pytest.raises(Exception) as raised:  # noqa: PT011 - which one is what is tested
        adaptor.make_call(case("statement", inputs), 1)
    assert str(raised.value).startswith(text)
    assert getattr(raised.value, "kind", "error") == kind
