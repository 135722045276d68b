"""Whole categories, an operator with the catalogue's inputs, and one operator in all namespaces that have it."""

import itertools
import json
import os

from . import inside
from .performance import check, run_performance_test
from .user_inputs import each_mode, nearest

CATALOGUE = os.path.join(inside.PACKAGE, "specifications", "operators")
USUAL_SIZE = "_large"  # how the catalogue names the inputs that OperatorBenchmark takes where there are several


def run_category_benchmarks(category, operators=None, **options):
    """Measure every operator of a category of the catalogue on all its inputs; ``{name: [result, ...]}``.

    ``category``: "binary_broadcast" for specifications/operators/binary_broadcast.json. ``operators``: only these
    names, such as "nd.add". ``options``: as for ``run_performance_test``; where ``dtype``, ``ctx`` and
    ``run_backward`` aren't given, the catalogue's hold. A Gluon block has a result for each of its modes. An operator
    that fails has ``failed_forward`` in its result, and it is the next one's turn. Here, one that crashes ends this
    process; with ``build`` it doesn't.

    Raises ValueError: there is no such category, or no such operator in it, or options that make no sense.
    """
    spec = _spec(category)
    tests = [test for test in spec["tests"] if operators is None or test["operator"] in operators]
    missing = set(operators or ()) - {test["operator"] for test in tests}
    if missing:
        raise ValueError("{} has no {}".format(category, ", ".join(sorted(missing))))
    check(options.get("profiler", "native"), options.get("warmup", 10), options.get("runs", 50))
    if options.get("build") is not None:
        from . import outside  # needs the checkout's environment

        return outside.run_tests(dict(spec, tests=tests), **options)
    return _run_here(tests, spec.get("defaults", {}), **options)


def _run_here(
    tests, defaults, run_backward=None, dtype=None, ctx=None, profiler="native", warmup=10, runs=50, build=None, seed=0
):
    adaptor = inside.adaptor_of()
    requested = {"run_backward": run_backward, "dtype": dtype, "context": ctx}
    requested = {key: value for key, value in requested.items() if value is not None}
    results = {}
    for test in tests:
        for index, inputs in enumerate(_inputs(test)):
            for settings in each_mode(nearest([requested, inputs.get("case", {}), test, defaults])):
                result = _measured(adaptor, test["operator"], inputs, settings, profiler, warmup, runs, seed + index)
                results.setdefault(test["operator"].rpartition(".")[2], []).append(result)
    return results


def _measured(adaptor, name, inputs, settings, *how):
    """One test on one of its inputs, in one mode; a failure is a result."""
    arguments = {key: value for key, value in inputs.items() if key != "case"}
    try:
        result = adaptor.measure(adaptor.Operator(name), arguments, settings, *how)
    except Exception as error:  # whatever the operator raises: the category goes on
        settings_of_result = {key: settings[key] for key in ("dtype", "mode")}
        result = dict(settings_of_result, failed_forward=adaptor.describe_error(error))
    return dict(result, inputs=arguments)


class OperatorBenchmark:
    """One operator on the catalogue's inputs for it, any of which ``inputs`` may replace.

    ``operator``: a name, "nd.add" or "gluon.nn.Dense". ``inputs``: arguments, and "dtype", "run_backward" and "case".
    ``options``: as for ``run_performance_test``.

    Raises ValueError: the catalogue has no inputs for the operator and ``inputs`` are not given.
    """

    def __init__(self, operator, inputs=None, **options):
        self.operator = operator
        self.options = options
        self.inputs = dict(_usual_inputs(operator, inputs, options), **(inputs or {}))
        self.results = []

    def run_benchmark(self):
        """Measure; returns the results, and keeps them as ``results``."""
        self.results = run_performance_test(self.operator, inputs=[self.inputs], **self.options)
        return self.results

    def print_benchmark_results(self):
        """A line for each direction: ``add forward 0.0152 ms, p50 0.0151, p99 0.0171``."""
        for named in self.results:
            for name, results in named.items():
                for result, direction in itertools.product(results, ("forward", "backward", "both")):
                    key = "_time_{}_{}".format(direction, name)
                    if "avg" + key in result:
                        figures = [result[statistic + key] for statistic in ("avg", "p50", "p99")]
                        print("{} {} {:.4f} ms, p50 {:.4f}, p99 {:.4f}".format(name, direction, *figures))
                    elif "failed_" + direction in result:
                        print("{} {} failed: {}".format(name, direction, result["failed_" + direction]))


def run_benchmark_operator(name, size=(128, 128), additional_inputs=None, run_backward=False, build=None, **options):
    """Measure an operator in every namespace that has it (``mx.nd``, ``mx.np``, ``mx.npx``); prints and returns.

    ``name``: "add" in all of them, "np.add" in one; "linalg.norm" is in a module of theirs. Every array that the
    operator needs has the shape ``size``; ``additional_inputs`` are further arguments, or arrays of other shapes; None
    leaves one out. ``build`` and ``options``: as for ``run_performance_test``.
    Returns ``{"nd": [{name: [result]}], "np": ...}``.

    Raises ValueError where neither a build is given nor a framework is here, what the operator raises, and from
    outside UsageError and RunError.
    """
    if build is not None:
        from . import outside  # needs the checkout's environment

        places = outside.counterparts(name, tuple(size), build)
    else:
        adaptor = inside.adaptor_of()
        places = [
            (module, function, adaptor.required_arrays(function, tuple(size)))
            for module, function in adaptor.operators_by_name(name)
        ]
    results_by_namespace = {}
    for place, qualified, arrays in places:
        inputs = dict(arrays, **(additional_inputs or {}))
        inputs = {key: value for key, value in inputs.items() if value is not None}
        results = run_performance_test(qualified, inputs=[inputs], run_backward=run_backward, build=build, **options)
        print(place)
        print(results)
        results_by_namespace[qualified.partition(".")[0]] = results
    return results_by_namespace


def _spec(category):
    path = os.path.join(CATALOGUE, category + ".json")
    try:
        with open(path, encoding="utf-8") as stream:
            return json.load(stream)
    except FileNotFoundError:
        raise ValueError("no category {!r}: use one of {}".format(category, ", ".join(_categories()))) from None


def _categories():
    return sorted(name[: -len(".json")] for name in os.listdir(CATALOGUE) if name.endswith(".json"))


def _inputs(test):
    return test["inputs"] if isinstance(test["inputs"], list) else [test["inputs"]]


def _usual_inputs(operator, own_inputs, options):
    """The catalogue's inputs for an operator, as ``run_performance_test`` takes them; what ``options`` say is left out.

    Raises ValueError: there are none, and none are given.
    """
    specs = map(_spec, _categories())
    tests = ((test, spec.get("defaults", {})) for spec in specs for test in spec["tests"])
    test, defaults = next((candidate for candidate in tests if candidate[0]["operator"] == operator), (None, {}))
    if test is None:
        if not own_inputs:
            raise ValueError("the catalogue has no inputs for {}: give some".format(operator))
        return {}
    inputs = _inputs(test)
    usual = [item for item in inputs if item.get("case", {}).get("identifier", "").endswith(USUAL_SIZE)]
    arguments = dict((usual or inputs)[0])
    settings = nearest([arguments.pop("case", {}), test, defaults])
    option_by_setting = {"dtype": "dtype", "context": "ctx", "directions": "run_backward", "mode": "mode"}
    case = {
        key: settings[key] for key, option in option_by_setting.items() if key in settings and option not in options
    }
    if "run_backward" not in options and "directions" not in settings:
        arguments = dict({"run_backward": settings.get("run_backward", False)}, **arguments)
    return dict(arguments, case=case) if case else arguments
