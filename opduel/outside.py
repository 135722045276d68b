"""A build driven from outside: every operator and input in a process of its own, through the harness."""

from collections.abc import Mapping, Sequence
from typing import Any

from driver.builds import BuildCache, resolve_build
from frameworks import get_framework
from harness.single import SingleRequest, run_single
from harness.specs import expand_cases
from harness.specs.load import validate
from opduel.inside import known_frameworks
from records import UsageError
from records.single import Profiler
from reporters.opperf_form import grouped, opperf_entry

SETTINGS = ("dtype", "run_backward")
NEEDS_A_FUNCTION = ("initializer", "data_initializer")


def run_performance_test(
    operators: Sequence[Any],
    inputs: Sequence[Mapping[str, Any]],
    run_backward: bool,
    dtype: str,
    ctx: Any,
    profiler: Profiler,
    warmup: int,
    runs: int,
    build: str,
    seed: int,
) -> list[dict[str, list[dict[str, Any]]]]:
    """``opduel.run_performance_test`` for operators by name.

    Raises:
        UsageError: arguments that a spec could not have, or no such build; RunError: nothing could be measured.
    """
    names = [_name(operator) for operator in operators]
    tests = [{"operator": name, "inputs": list(inputs)} for name in names]
    results = _run(tests, run_backward, dtype, ctx, profiler, warmup, runs, build, seed)
    return [{name.rpartition(".")[2]: found} for name, found in zip(names, results, strict=True)]


def run_tests(
    tests: Sequence[Mapping[str, Any]],
    build: str,
    run_backward: bool | None = None,
    dtype: str = "float32",
    ctx: Any = None,
    profiler: Profiler = "native",
    warmup: int = 10,
    runs: int = 50,
    seed: int = 0,
) -> dict[str, list[dict[str, Any]]]:
    """``opduel.run_category_benchmarks``: a spec's tests, each with its own ``run_backward`` unless one is given.

    Raises:
        UsageError, RunError: as ``run_performance_test``.
    """
    results: dict[str, list[dict[str, Any]]] = {}
    found = _run(tests, run_backward, dtype, ctx, profiler, warmup, runs, build, seed)
    for test, entries in zip(tests, found, strict=True):
        results.setdefault(test["operator"].rpartition(".")[2], []).extend(entries)
    return results


def _run(
    tests: Sequence[Mapping[str, Any]],
    run_backward: bool | None,
    dtype: str,
    ctx: Any,
    profiler: Profiler,
    warmup: int,
    runs: int,
    build: str,
    seed: int,
) -> list[list[dict[str, Any]]]:
    """For each test the entries of its inputs, in order."""
    framework = get_framework(known_frameworks()[0])
    single, places = [], []
    for number, test in enumerate(tests):
        inputs = test["inputs"] if isinstance(test["inputs"], list) else [test["inputs"]]
        for index, given in enumerate(inputs):
            backward = test.get("run_backward", False) if run_backward is None else run_backward
            single.append(_test(f"{number}_{index}", test, given, backward, test.get("dtype", dtype)))
            places.append(number)
    spec = {"framework": framework.name, "defaults": {"context": _context(ctx)}, "tests": single}
    cases = expand_cases(validate(spec), metrics=["time"])
    request = SingleRequest(
        framework=framework,
        build=resolve_build(build, framework, BuildCache()),
        cases=cases,
        seed=seed,
        rounds=1,
        profiler=profiler,
        calls=runs,
        warmup=warmup,
    )
    found: list[list[dict[str, Any]]] = [[] for _ in tests]
    for place, group in zip(places, grouped(run_single(request).cases), strict=True):
        found[place].append(opperf_entry(group[0].operator.rpartition(".")[2], group))
    return found


def _test(
    identifier: str, test: Mapping[str, Any], given: Mapping[str, Any], run_backward: bool, dtype: str
) -> dict[str, Any]:
    """One input of a test as a test of its own.

    Raises:
        UsageError: it holds a function.
    """
    for name in NEEDS_A_FUNCTION:
        if name in given:
            raise UsageError(f"{name}: from outside it is said of each array: {{'shape': [2], 'init': 'ones'}}")
    case = {**given.get("case", {})}
    case.pop("identifier", None)
    case.update({key: given[key] for key in SETTINGS if key in given})
    arguments = {key: _plain(value) for key, value in given.items() if key not in (*SETTINGS, "case")}
    return {
        "identifier": identifier,
        "operator": test["operator"],
        "run_backward": run_backward,
        "dtype": dtype,
        "inputs": {**arguments, **({"case": case} if case else {})},
    }


def _name(operator: Any) -> str:
    if not isinstance(operator, str):
        raise UsageError(f"{operator!r}: a build driven from outside takes operators by name: 'nd.add'")
    return operator


def _context(ctx: Any) -> str:
    """A spec's word for a context: ``cpu(0)`` is ``cpu``."""
    return "cpu" if ctx is None or str(ctx) == "cpu(0)" else str(ctx)


def _plain(value: Any) -> Any:
    """Tuples as the lists that a spec has."""
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value
