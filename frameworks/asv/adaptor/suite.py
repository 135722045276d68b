"""What a suite has, and its ``setup_cache``: run by path in the build's own interpreter. Python 3.6 syntax.

suite.py discover ROOT             prints all benchmarks as JSON; each module is imported in a process of its own
suite.py cache ROOT NAME FOLDER BYTES
                                   runs the ``setup_cache`` of the benchmark NAME in FOLDER, where its result is kept
"""

import importlib
import importlib.util
import itertools
import json
import os
import pickle
import pkgutil
import resource
import select
import signal
import sys
import time
import traceback

sys.path.pop(0)  # this folder: its modules must not hide any of the build's

MODULE_S = 120.0  # for one module's import
MOST_SETS = 10000  # of parameters, of one benchmark
LONGEST_ERROR = 300  # characters


def load_benchmarks():
    """benchmarks.py, which the adaptor uses, too."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "benchmarks.py")
    spec = importlib.util.spec_from_file_location("opduel_benchmarks", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def one_line(error):
    """An exception as one line."""
    line = " ".join("".join(traceback.format_exception_only(type(error), error)).split())
    return line if len(line) <= LONGEST_ERROR else line[: LONGEST_ERROR - 3] + "..."


def modules_of(name, folder):
    """The names of a package's modules, and of those in it, without importing any; the package itself first."""
    yield name, True
    for _, inner, is_package in sorted(pkgutil.iter_modules([folder]), key=lambda one: one[1]):
        if is_package:
            yield from modules_of(f"{name}.{inner}", os.path.join(folder, inner))
        else:
            yield f"{name}.{inner}", False


def discover(root):
    """``{"modules": [{"module", "benchmarks", "problems"}, ...]}``; ``error`` in place of it where the suite itself
    can't be imported."""
    benchmarks = load_benchmarks()
    benchmarks.enter(root)
    package = os.path.basename(root)
    try:
        benchmarks.seed_generators(0)
        importlib.import_module(package)
    except BaseException as error:
        return {"error": one_line(error)}
    return {"modules": [of_module(benchmarks, *one) for one in modules_of(package, root)]}


def of_module(benchmarks, module, is_package):
    """What a child finds in the module: it may hang, or die."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        answer = json.dumps(in_child(benchmarks, module, is_package)).encode("utf-8") + b"\n"
        while answer:
            answer = answer[os.write(writing, answer) :]
        os._exit(0)
    os.close(writing)
    text, deadline = b"", time.time() + MODULE_S
    while select.select([reading], [], [], max(0.0, deadline - time.time()))[0]:
        piece = os.read(reading, 1 << 16)
        text += piece
        if not piece or b"\n" in piece:  # what the module has started may keep the pipe open
            break
    os.close(reading)
    hung = time.time() >= deadline and b"\n" not in text
    if hung:
        os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    if hung or status or not text:  # one may end its process without an error, too
        how = f"was not imported within {MODULE_S:g} s" if hung else "ended the process that imported it"
        return {"module": module, "benchmarks": [], "problems": [f"{module} {how}"]}
    return json.loads(text.partition(b"\n")[0].decode("utf-8"))


def in_child(benchmarks, module, is_package):
    """The module's benchmarks, and what is wrong with it or with one of them."""
    found, problems = [], []
    try:
        benchmarks.seed_generators(0)
        imported = importlib.import_module(module)
        if is_package:
            imported.__path__ = []  # its modules are looked into one by one
        for benchmark in benchmarks.disc_benchmarks(module):
            try:
                found.append(described(benchmarks, benchmark, module))
            except Exception as error:
                problems.append(f"{benchmark.name}: {one_line(error)}")
    except BaseException as error:
        problems.append(f"{module}: {one_line(error)}")
    return {"module": module, "benchmarks": found, "problems": problems}


def described(benchmarks, benchmark, module):
    """A benchmark as plain data. Raises ValueError for one of a kind that is not known, or with too many parameters."""
    kind = benchmarks.kind_of(benchmark)
    if kind is None:
        raise ValueError(f"a {type(benchmark).__name__} is not known")
    names, values = benchmarks.parameters(benchmark)
    sets = 1
    for axis in values:
        sets *= len(axis)
    if sets > MOST_SETS:
        raise ValueError(f"has {sets} sets of parameters, more than {MOST_SETS}")
    return {
        "name": benchmark.name,
        "kind": kind,
        "module": module,
        "names": names,
        "values": values,
        "skipped": skipped(benchmark),
        "timeout": number_of(benchmark.timeout),
        "setup_cache": benchmarks.cache_name(benchmark),
        "setup_cache_timeout": number_of(benchmark.setup_cache_timeout),
        "unit": str(benchmark.unit),
        "version": str(benchmark.version),
        "pretty_name": benchmark.pretty_name and str(benchmark.pretty_name),
        "lower_is_better": lower_is_better(benchmark),
    }


def number_of(value):
    """Seconds, or None for what states none."""
    return float(value) if isinstance(value, (int, float)) and value > 0 else None


def skipped(benchmark):
    """The numbers of the sets of parameters that the benchmark skips by ``skip_params``."""
    wanted = getattr(benchmark, "_skip_tuples", None)
    if not wanted:
        return []
    return [number for number, one in enumerate(itertools.product(*benchmark._params)) if one in wanted]


def lower_is_better(benchmark):
    """False where the benchmark's own attribute says so: asv has no such attribute, and takes lower for better."""
    found = (getattr(one, "lower_is_better", None) for one in benchmark._attr_sources)
    return next((bool(one) for one in found if one is not None), True)


def make_cache(root, name, folder, most_bytes):
    """Run ``setup_cache``, with no file of more than so many bytes; its result is pickled."""
    benchmarks = load_benchmarks()
    benchmarks.enter(root)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
    benchmarks.seed_generators(0)
    benchmark = benchmarks.find(root, name)
    os.chdir(folder)
    benchmarks.seed_generators(0)
    cache = benchmark.do_setup_cache()
    with open(os.path.join(folder, benchmarks.CACHE_FILE), "wb") as stream:
        pickle.dump(cache, stream)


def main():
    answer = os.dup(1)
    os.dup2(2, 1)
    if sys.argv[1] == "discover":
        with os.fdopen(answer, "w") as stream:
            json.dump(discover(sys.argv[2]), stream)
        os._exit(0)  # whatever a suite has started
    os.close(answer)
    try:
        make_cache(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]))
    except BaseException as error:
        sys.stderr.write(f"\n{one_line(error)}\n")
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    main()
