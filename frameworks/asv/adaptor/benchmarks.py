"""A suite's benchmarks by name: found with asv_runner, with one set of parameters, and their ``setup_cache``.

Runs inside the build: standard library and asv_runner.  Used by the adaptor and by suite.py: what was discovered is
found again.
"""

import hashlib
import importlib
import os
import pickle
import random
import re
import sys
from collections import Counter

from asv_runner._aux import update_sys_path
from asv_runner.discovery import disc_benchmarks, get_benchmark_from_name

LONGEST = 60  # characters of a parameter in a case's id
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
KINDS_OF_SCALARS = r"bool|u?int(?:\d+|c|p)|u?longlong|float\d+|complex\d+|c?longdouble|str_|bytes_"
SCALAR = re.compile(r"\bnp\.(?:(True|False)_|(" + KINDS_OF_SCALARS + r")\(([^()]*)\))")
TIME = re.compile(r"\bnp\.(datetime64|timedelta64)\(")
IMAGINARY = re.compile(r"[-+]?(?:[\d.]+(?:e[-+]?\d+)?|inf|nan)j")
PLACES = []  # where the suite is, by any name
CACHE_FILE, FAILED_FILE = "cache.pickle", "failed.txt"
KINDS = {
    "TimeBenchmark": "time",
    "TimerawBenchmark": "timeraw",
    "TrackBenchmark": "track",
    "MemBenchmark": "mem",
    "PeakMemBenchmark": "peakmem",
}


class MissingBenchmark(Exception):
    """The suite, with this build, has no such benchmark or parameters."""

    kind = "missing"


class NoCache(Exception):
    """``setup_cache`` failed before anything was measured."""


def enter(root):
    """Let the suite's modules be imported by the name of its folder, as asv does."""
    update_sys_path(root)
    PLACES[:] = sorted({root, os.path.realpath(root)}, key=len, reverse=True)


def import_all(modules):
    """Import these modules, so that all cases share that. One that raises is imported again in the case's own process,
    which then says why; whether one crashes, hangs or starts threads is tried before (opduel_common/forks.py)."""
    for name in modules:
        seed_generators(0)
        try:
            importlib.import_module(name)
        except BaseException:
            sys.modules.pop(name, None)


def seed_generators(seed):
    """The same numbers on both sides from ``random`` and ``numpy.random``, if the build has that."""
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed)


def kind_of(benchmark):
    """One of ``KINDS``' values; None for a plug-in's benchmark."""
    return next((KINDS[one.__name__] for one in type(benchmark).__mro__ if one.__name__ in KINDS), None)


def find(root, name):
    """The benchmark of this name.

    Raises MissingBenchmark; whatever its module raises when it is imported.
    """
    parts, package = name.split("."), os.path.basename(root)
    places = [parts[:-last] for last in (1, 2) if len(parts) > last]  # of a function's, or a method's, module
    for place in places:
        if os.path.isfile(os.path.join(root, *place) + ".py"):
            found = importlib.import_module(".".join([package, *place]))
            for part in parts[len(place) :]:
                found = getattr(found, part, None)
            if found is not None:
                return get_benchmark_from_name(root, name)
    # One in a package's own file, or one that states another name than its function's.
    modules = [".".join([package, *place]) for place in places if os.path.isdir(os.path.join(root, *place))]
    for module in [*modules, package]:
        for benchmark in disc_benchmarks(module, ignore_import_errors=True):
            if benchmark.name == name:
                return benchmark
    raise MissingBenchmark("the suite has no benchmark {} with this build".format(name))


def shown(text, longest=LONGEST):
    """A parameter's ``repr`` as ids have it: printable, on one line, and cut, with a digest, where it is long."""
    clean = " ".join("".join(one if one.isprintable() else " " for one in text).split())
    if clean == text and len(text) <= longest:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]
    return "{}~{}".format(clean[: longest - 9], digest)


def parameters(benchmark):
    """``(names, values)``: a name for each parameter, all different, and the texts that its values are known by.

    A text has no address of an object, and no path of the suite, which would be others in each process. NumPy's scalars
    are written as NumPy 1 writes them, so that both sides of a comparison have one text. Equal ones are numbered.
    """
    names = list(benchmark.param_names)
    if len(set(names)) < len(names):
        names = ["param{}".format(number) for number in range(1, len(names) + 1)]
    return names, [numbered([shown(alike(one)) for one in axis]) for axis in benchmark.params]


def alike(text):
    """A ``repr`` without what differs between two processes, two copies of the suite, or two releases of NumPy."""
    for place in PLACES:
        text = text.replace(place, os.path.basename(place))
    text = TIME.sub(r"numpy.\1(", text.replace("<class 'numpy.bool'>", "<class 'numpy.bool_'>"))
    return SCALAR.sub(scalar, ADDRESS.sub("", text))


def scalar(found):
    """One of NumPy 2 as NumPy 1 writes it."""
    constant, kind, value = found.groups()
    if constant:
        return constant
    value = value.strip("'") if kind.endswith("longdouble") else value
    has_parts = kind.startswith("c") and not IMAGINARY.fullmatch(value)
    return "({})".format(value) if has_parts else value


def numbered(texts):
    """The texts, those that occur more than once with a number each."""
    counts, seen, found = Counter(texts), Counter(), []
    for text in texts:
        found.append("{} ({})".format(text, seen[text]) if counts[text] > 1 else text)
        seen[text] += 1
    return found


def choose(benchmark, inputs):
    """Give the benchmark the parameters ``inputs``: name -> text. Raises MissingBenchmark where it has no such."""
    names, values = parameters(benchmark)
    if set(names) != set(inputs):
        raise MissingBenchmark("{} has the parameters {}".format(benchmark.name, ", ".join(names) or "(none)"))
    position = 0
    for name, texts in zip(names, values):
        if inputs[name] not in texts:
            raise MissingBenchmark("{}: {} has no value {}".format(benchmark.name, name, inputs[name]))
        position = position * len(texts) + texts.index(inputs[name])
    benchmark.set_param_idx(position)


def cache_name(benchmark):
    """The name of the folder with the result of a ``setup_cache``, and what that wrote: the working folder of its
    benchmarks. None without one."""
    key = benchmark.setup_cache_key
    if key is not None and os.path.isabs(key):  # one in the suite's own __init__.py: each side has a copy of that
        key = os.path.basename(key)
    return None if key is None else "cache-" + hashlib.sha256(key.encode("utf-8")).hexdigest()[:16]


def load_cache(benchmark, folder):
    """Hand the benchmark what its ``setup_cache`` returned. Raises NoCache where that failed."""
    failed = os.path.join(folder, FAILED_FILE)
    if os.path.exists(failed):
        with open(failed, encoding="utf-8") as stream:
            raise NoCache(stream.read())
    with open(os.path.join(folder, CACHE_FILE), "rb") as stream:
        cache = pickle.load(stream)
    if hasattr(benchmark, "set_cache"):
        benchmark.set_cache(cache)
    elif cache is not None:  # asv_runner before 0.2.2
        benchmark.insert_param(cache)


def arguments(benchmark):
    """What the benchmark's functions are called with."""
    build = getattr(benchmark, "_build_params", None)
    return tuple(build() if build else benchmark._current_params)
