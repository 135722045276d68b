"""List a suite's benchmarks, or run a ``setup_cache``: run by path in the build's interpreter. Python 3.6 syntax.

suite.py discover ROOT             prints all benchmarks as JSON; each module is imported in a process of its own
suite.py cache ROOT NAME FOLDER BYTES
                                   runs the ``setup_cache`` of the benchmark NAME in FOLDER, and stores its result there
"""

import functools
import importlib
import itertools
import json
import operator
import os
import pickle
import pkgutil
import resource
import signal
import sys
import tempfile
import types

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.pop(0)  # this folder, whose modules would hide the build's
sys.path.append(os.path.join(HERE, "..", "..", "common"))

from opduel_common.forks import import_if_safe  # noqa: E402 - after the path is set
from opduel_common.scripts import answer, load_module, one_line  # noqa: E402 - after the path is set

MODULE_S = 120  # limit for the import of one module
MAX_PARAMETER_SETS = 10000  # of one benchmark
benchmarks = load_module("opduel_benchmarks", os.path.join(HERE, "benchmarks.py"))  # which the adaptor uses, too


def modules_of(name, folder):
    """Yield the package and its modules, ``(name, is_package)``, without importing any."""
    yield name, True
    for _, inner, is_package in sorted(pkgutil.iter_modules([folder]), key=lambda module: module[1]):
        if is_package:
            yield from modules_of(f"{name}.{inner}", os.path.join(folder, inner))
        else:
            yield f"{name}.{inner}", False


def discover(root):
    """Return ``{"modules": [{"module", "benchmarks", "problems"}, ...], "preloaded": packages that most of them import,
    if a process that has imported them can be forked}``, or ``error`` if it can't be imported."""
    benchmarks.make_importable(root)
    package = os.path.basename(root)
    try:
        benchmarks.seed_generators(0)
        importlib.import_module(package)
    except BaseException as error:
        return {"error": one_line(error)}
    common = benchmarks.common_imports(root)
    is_preloaded = import_if_safe(benchmarks.import_all, common)  # once, and not for each module
    modules = [describe_module(*module) for module in modules_of(package, root)]
    return {"modules": modules, "preloaded": common if is_preloaded else []}


def describe_module(module, is_package):
    """Describe the module's benchmarks in a child, since its import may hang or die."""
    with tempfile.TemporaryFile("w+") as stream:
        pid = os.fork()
        if pid == 0:
            signal.alarm(MODULE_S)
            json.dump(describe_module_here(module, is_package), stream)
            stream.flush()
            os._exit(0)
        status = os.waitpid(pid, 0)[1]
        stream.seek(0)
        text = stream.read()
    if status or not text:  # it may also end its process without an error
        hung = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM
        how = f"was not imported within {MODULE_S} s" if hung else "ended the process that imported it"
        return {"module": module, "benchmarks": [], "problems": [f"{module} {how}"]}
    return json.loads(text)


def describe_module_here(module, is_package):
    """Import the module; return its benchmarks, and problems with it or with one of them."""
    descriptions, problems = [], []
    try:
        benchmarks.seed_generators(0)
        imported = importlib.import_module(module)
        if is_package:
            imported.__path__ = []  # its modules are described one by one
        for benchmark in benchmarks.disc_benchmarks(module):
            try:
                descriptions.append(describe_benchmark(benchmark, module))
            except Exception as error:
                problems.append(f"{benchmark.name}: {one_line(error)}")
    except BaseException as error:
        problems.append(f"{module}: {one_line(error)}")
    return {"module": module, "benchmarks": descriptions, "problems": problems}


def describe_benchmark(benchmark, module):
    """Return a benchmark as plain data. Raise ValueError if its kind isn't known, or it has too many parameters."""
    kind = benchmarks.kind_of(benchmark)
    if kind is None:
        raise ValueError(f"a {type(benchmark).__name__} is not known")
    names, values = benchmarks.parameters(benchmark)
    sets = functools.reduce(operator.mul, map(len, values), 1)
    if sets > MAX_PARAMETER_SETS:
        raise ValueError(f"has {sets} sets of parameters, more than {MAX_PARAMETER_SETS}")
    return {
        "name": benchmark.name,
        "kind": kind,
        "module": module,
        "names": names,
        "values": values,
        "skipped": skipped_sets(benchmark),
        "timeout": number_of(benchmark.timeout),
        "setup_cache": benchmarks.cache_name(benchmark),
        "setup_cache_timeout": number_of(benchmark.setup_cache_timeout),
        "unit": str(benchmark.unit),
        "version": str(benchmark.version),
        "pretty_name": benchmark.pretty_name and str(benchmark.pretty_name),
        "lower_is_better": lower_is_better(benchmark),
    }


def number_of(value):
    """Return positive seconds, or None."""
    return float(value) if isinstance(value, (int, float)) and value > 0 else None


def skipped_sets(benchmark):
    """Return the numbers of the parameter sets that the benchmark skips by ``skip_params``."""
    skipped = getattr(benchmark, "_skip_tuples", None) or ()
    sets = enumerate(itertools.product(*benchmark._params))
    return [number for number, parameters in sets if parameters in skipped]


def lower_is_better(benchmark):
    """Return the benchmark's attribute of this name; without it True, as asv assumes."""
    values = (getattr(source, "lower_is_better", None) for source in benchmark._attr_sources)
    return next((bool(value) for value in values if value is not None), True)


def make_cache(root, name, folder, most_bytes):
    """Run ``setup_cache`` with a limit on the size of files, and pickle its result."""
    benchmarks.make_importable(root)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
    benchmarks.seed_generators(0)
    benchmark = benchmarks.find_benchmark(root, name)
    os.chdir(folder)
    benchmarks.seed_generators(0)
    cache = benchmark.do_setup_cache()
    with open(os.path.join(folder, benchmarks.CACHE_FILE), "wb") as stream:
        pickle.dump(cache, stream)


def main():
    if sys.argv[1] == "discover":
        answer(discover, sys.argv[2])
    os.dup2(2, 1)
    sys.modules["__main__"] = types.ModuleType("__main__")  # which a suite's own processes import (multiprocessing)
    try:
        make_cache(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]))
    except BaseException as error:
        sys.stderr.write(f"\n{one_line(error)}\n")
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    main()
