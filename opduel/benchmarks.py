"""Whole categories, an operator with the catalogue's inputs, and one operator in all namespaces that have it."""

import json
import os

from . import inside
from .performance import run_performance_test

CATALOGUE = os.path.join(inside.ROOT, "specifications", "operators")
NOT_ARGUMENTS = ("case",)
USUAL_SIZE = "_large"  # how the catalogue names the inputs that OperatorBenchmark takes where there are several


def run_category_benchmarks(category, operators=None, **options):
    """Measure every operator of a category of the catalogue on all its inputs; ``{name: [result, ...]}``.

    ``category``: "binary_broadcast" for specifications/operators/binary_broadcast.json. ``operators``: only these
    names, such as "nd.add". ``options``: as for ``run_performance_test``; ``run_backward`` is the catalogue's unless
    given. An operator that fails has ``failed_forward`` in its result, and it is the next one's turn. Here, one that
    crashes ends this process; with ``build`` it doesn't.

    Raises ValueError: there is no such category, or no such operator in it.
    """
    tests = [test for test in _tests(category) if operators is None or test["operator"] in operators]
    missing = set(operators or ()) - {test["operator"] for test in tests}
    if missing:
        raise ValueError("{} has no {}".format(category, ", ".join(sorted(missing))))
    results = {}
    if options.get("build") is not None:
        from . import outside  # needs the checkout's environment

        return outside.run_tests(tests, **options)
    for test in tests:
        for arguments in _inputs(test):
            for name, found in _measured(test, arguments, options).items():
                results.setdefault(name, []).extend(found)
    return results


class OperatorBenchmark:
    """One operator on the catalogue's inputs for it, any of which ``inputs`` may replace.

    ``operator``: a name, "nd.add". ``inputs``: arguments, and "dtype" and "run_backward". ``options``: as for
    ``run_performance_test``.

    Raises ValueError: the catalogue has no inputs for the operator and ``inputs`` are not given.
    """

    def __init__(self, operator, inputs=None, **options):
        self.operator = operator
        self.options = options
        self.inputs = dict(_usual_inputs(operator, inputs), **(inputs or {}))
        self.results = []

    def run_benchmark(self):
        """Measure; returns the results, and keeps them as ``results``."""
        self.results = run_performance_test(self.operator, inputs=[self.inputs], **self.options)
        return self.results

    def print_benchmark_results(self):
        """A line for each direction: ``add forward 0.0152 ms, p50 0.0151, p99 0.0171``."""
        for named in self.results:
            for name, found in named.items():
                for result in found:
                    _print_times(name, result)


def run_benchmark_operator(name, size=(128, 128), additional_inputs=None, run_backward=False, **options):
    """Measure an operator in every namespace that has it (``mx.nd``, ``mx.np``, ``mx.npx``); prints and returns.

    Every array that it needs has the shape ``size``; ``additional_inputs`` are further arguments, or arrays of other
    shapes; None leaves one out. ``options``: as for ``run_performance_test``, but for ``build``: this runs inside one.
    Returns ``{"nd": [{name: [result]}], "np": ...}``.

    Raises ValueError where no framework is here, and what the operator raises.
    """
    adaptor = inside.adaptor_of()
    found = {}
    for module, qualified in adaptor.counterparts(name):
        inputs = dict(adaptor.arrays_of(qualified, tuple(size)), **(additional_inputs or {}))
        inputs = {key: value for key, value in inputs.items() if value is not None}
        results = run_performance_test(qualified, inputs=[inputs], run_backward=run_backward, **options)
        print(module)
        print(results)
        found[qualified.partition(".")[0]] = results
    return found


def _tests(category):
    path = os.path.join(CATALOGUE, category + ".json")
    try:
        with open(path, encoding="utf-8") as stream:
            return json.load(stream)["tests"]
    except FileNotFoundError:
        known = sorted(name[: -len(".json")] for name in os.listdir(CATALOGUE) if name.endswith(".json"))
        raise ValueError("no category {!r}: use one of {}".format(category, ", ".join(known))) from None


def _inputs(test):
    return test["inputs"] if isinstance(test["inputs"], list) else [test["inputs"]]


def _measured(test, arguments, options):
    """One test on one of its inputs; a failure is a result."""
    wanted = dict({"run_backward": test.get("run_backward", False)}, **options)
    settings = {key: test[key] for key in ("dtype",) if key in test}
    try:
        (found,) = run_performance_test(test["operator"], inputs=[dict(settings, **_arguments(arguments))], **wanted)
    except Exception as error:  # whatever the operator raises: the category goes on
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        result = {"failed_forward": "{}: {}".format(type(error).__name__, line), "inputs": _arguments(arguments)}
        return {test["operator"].rpartition(".")[2]: [result]}
    return found


def _arguments(inputs):
    """The operator's own arguments, and the dtype that the case says."""
    arguments = {key: value for key, value in inputs.items() if key not in NOT_ARGUMENTS}
    case = inputs.get("case", {})
    return dict(arguments, **{key: case[key] for key in ("dtype",) if key in case})


def _usual_inputs(operator, given):
    for name in sorted(os.listdir(CATALOGUE)):
        for test in _tests(name[: -len(".json")]):
            if test["operator"] == operator:
                inputs = _inputs(test)
                usual = [one for one in inputs if one.get("case", {}).get("identifier", "").endswith(USUAL_SIZE)]
                settings = {"run_backward": test.get("run_backward", False), "dtype": test.get("dtype", "float32")}
                return dict(settings, **_arguments((usual or inputs)[0]))
    if not given:
        raise ValueError("the catalogue has no inputs for {}: give some".format(operator))
    return {}


def _print_times(name, result):
    for direction in ("forward", "backward"):
        key = "_time_{}_{}".format(direction, name)
        if "avg" + key in result:
            figures = [result[statistic + key] for statistic in ("avg", "p50", "p99")]
            print("{} {} {:.4f} ms, p50 {:.4f}, p99 {:.4f}".format(name, direction, *figures))
        elif "failed_" + direction in result:
            print("{} {} failed: {}".format(name, direction, result["failed_" + direction]))
