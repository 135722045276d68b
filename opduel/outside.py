"""A build driven from outside: every operator and input in a process of its own, through the harness."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy
from pydantic import ValidationError

from opduel.driver.builds import BuildCache, resolve_build
from opduel.driver.catalogue.registry import Registry, ask_registry
from opduel.frameworks import get_framework
from opduel.harness.other_runs.single import SingleRequest, run_single
from opduel.harness.specs import expand_cases
from opduel.harness.specs.load import validate
from opduel.harness.specs.model import Settings
from opduel.inside import known_frameworks
from opduel.records import Build, RunConfiguration, UsageError
from opduel.records.measurement import Profiler
from opduel.reporters.opperf_form import group_by_input, opperf_entry
from opduel.support.validation import explain
from opduel.user_inputs import read_input

Spec = Mapping[str, Any]
FRAMEWORK = get_framework(known_frameworks()[0])
_registries: dict[str, Registry] = {}  # by the build's interpreter


def run_performance_test(
    operators: Sequence[Any],
    inputs: Sequence[Mapping[str, Any]],
    build: str,
    run_backward: bool,
    dtype: Any,
    ctx: Any,
    **how: Any,
) -> list[dict[str, list[dict[str, Any]]]]:
    """``opduel.run_performance_test`` for operators by name; ``how``: its profiler, warmup, runs and seed.

    Raises:
        UsageError: arguments that a spec could not have, or no such build; RunError: nothing could be measured.
    """
    for operator in operators:
        if not isinstance(operator, str):
            raise UsageError(f"{operator!r}: a build driven from outside takes operators by name: 'nd.add'")
    where = _build(build)
    tests = [
        {"operator": name, "inputs": [_input(where, name, arguments) for arguments in inputs]} for name in operators
    ]
    defaults = {"run_backward": run_backward, "dtype": _dtype(dtype), "context": _context(ctx)}
    results = _run({"tests": tests, "defaults": defaults}, Settings(), where, **how)
    return [{name.rpartition(".")[2]: entries} for name, entries in zip(operators, results, strict=True)]


def run_tests(
    spec: Spec, build: str, run_backward: bool | None = None, dtype: Any = None, ctx: Any = None, **how: Any
) -> dict[str, list[dict[str, Any]]]:
    """``opduel.run_category_benchmarks``: a spec's tests; what is given overrides what the spec says.

    Raises:
        UsageError, RunError: as ``run_performance_test``.
    """
    requested = {
        "run_backward": run_backward,
        "dtype": _dtype(dtype),
        "context": None if ctx is None else _context(ctx),
    }
    try:
        settings = Settings.model_validate({key: value for key, value in requested.items() if value is not None})
    except ValidationError as error:
        raise UsageError(explain(error, "the spec")) from None
    results: dict[str, list[dict[str, Any]]] = {}
    results_by_test = _run(spec, settings, _build(build), **how)
    for test, entries in zip(spec["tests"], results_by_test, strict=True):
        results.setdefault(test["operator"].rpartition(".")[2], []).extend(entries)
    return results


def counterparts(name: str, size: tuple[int, ...], build: str) -> list[tuple[str, str, dict[str, Any]]]:
    """What the build has by that name, in every namespace or in the one that it says: ``(build, "nd.add", arrays)``.

    Raises:
        UsageError: nothing; RunError: the build doesn't answer.
    """
    registry = _registry(_build(build))
    not_operators = (*FRAMEWORK.cases.block_namespaces, *FRAMEWORK.cases.networks)
    roots = [root for root in FRAMEWORK.cases.namespaces if root not in not_operators]
    names = [name] if name.partition(".")[0] in roots else [f"{root}.{name}" for root in roots]
    functions = [
        (f"{build} {function}", function, _arrays(registry, function, size))
        for function in names
        if function in registry.functions
    ]
    if not functions:
        raise UsageError(f"{name}: {build} has no such operator under {', '.join(roots)}: give another name")
    return functions


def _arrays(registry: Registry, name: str, size: tuple[int, ...]) -> dict[str, Any]:
    """Every array that the operator can't do without, as far as the registry says."""
    kinds = registry.functions[name].arguments
    if "tensors" in kinds.values():
        return {"args": [size, size]}
    tensors = [key for key, kind in kinds.items() if kind == "tensor"]
    return dict.fromkeys(tensors or [key for key, kind in kinds.items() if kind == "required"], size)


def _run(
    spec: Spec,
    settings: Settings,
    build: Build,
    profiler: Profiler = "native",
    warmup: int = 10,
    runs: int = 50,
    seed: int = 0,
) -> list[list[dict[str, Any]]]:
    """For each test the entries of its inputs and modes, in order."""
    single: list[dict[str, Any]] = []
    places: list[int] = []
    for number, test in enumerate(spec["tests"]):
        inputs = test["inputs"] if isinstance(test["inputs"], list) else [test["inputs"]]
        for arguments in inputs:
            single.append(_test(str(len(single)), test, arguments))
            places.append(number)
    document = {"framework": FRAMEWORK.name, "defaults": spec.get("defaults", {}), "tests": single}
    request = SingleRequest(
        framework=FRAMEWORK,
        build=build,
        cases=expand_cases(validate(document), metrics=["time"], settings=settings),
        seed=seed,
        configuration=RunConfiguration(rounds=1, profiler=profiler, runs=runs, warmup=warmup),
    )
    entries_by_test: list[list[dict[str, Any]]] = [[] for _ in spec["tests"]]
    for group in group_by_input(run_single(request).cases):
        place = places[int(group[0].case.partition("/")[0])]
        entries_by_test[place].append(opperf_entry(group[0].operator.rpartition(".")[2], group))
    return entries_by_test


def _test(identifier: str, test: Spec, inputs: Mapping[str, Any]) -> dict[str, Any]:
    case = {key: value for key, value in inputs.get("case", {}).items() if key != "identifier"}
    arguments = {key: value for key, value in inputs.items() if key != "case"}
    return {**test, "identifier": identifier, "inputs": {**arguments, **({"case": case} if case else {})}}


def _input(build: Build, name: str, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """One of a user's inputs as a spec has it.

    UsageError if it holds what a spec can't, RunError if the build doesn't say what the operator takes.
    """
    function = _registry(build).functions.get(name) if "dtype" in inputs else None
    takes_dtype = function is not None and function.takes_dtype
    arguments, settings = read_input(inputs, takes_dtype, FRAMEWORK.cases.is_block(name))
    if "initializer" in settings:
        raise UsageError("initializer: with build=, give it for each array: {'shape': [2], 'init': 'ones'}")
    if "dtype" in settings:
        settings["dtype"] = _dtype(settings["dtype"])
    if "dtype" in arguments and not isinstance(arguments["dtype"], dict):
        arguments["dtype"] = _dtype(arguments["dtype"])
    return {**{key: _plain(value) for key, value in arguments.items()}, **({"case": settings} if settings else {})}


def _registry(build: Build) -> Registry:
    """What the build says of its operators; asked once, which takes an import."""
    if build.interpreter not in _registries:
        _registries[build.interpreter] = ask_registry(build, FRAMEWORK)
    return _registries[build.interpreter]


def _build(build: str) -> Build:
    return resolve_build(build, FRAMEWORK, BuildCache())


def _dtype(dtype: Any) -> Any:
    """``numpy.float32`` as a spec's word for it; what numpy doesn't know is the spec's to refuse."""
    try:
        return None if dtype is None else numpy.dtype(dtype).name
    except TypeError:
        return dtype


def _context(ctx: Any) -> str:
    return "cpu" if ctx is None or str(ctx) == "cpu(0)" else str(ctx)


def _plain(value: Any) -> Any:
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value
