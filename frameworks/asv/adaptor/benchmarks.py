"""Find a suite's benchmarks by name with asv_runner, choose their parameters, and load their ``setup_cache``.

Runs inside the build: standard library and asv_runner.  The adaptor and suite.py share it, so that the adaptor finds
what suite.py discovered.
"""

import hashlib
import importlib
import os
import pickle
import re
import sys
from collections import Counter

from asv_runner._aux import update_sys_path
from asv_runner.discovery import disc_benchmarks, get_benchmark_from_name

from opduel_common.scripts import seed_generators, text_of_parameter

ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
SCALAR = re.compile(r"\bnp\.(?:(True|False)_|(?:bool|u?int\d+|float\d+|str_|bytes_)\(([^()]*)\))")
IMPORTED = re.compile(r"^(?:import|from)[ \t]+(\w+)", re.MULTILINE)
SETS_UP = re.compile(r"environ\b[^\n=]*\][ \t]*=[^=]|environ\.(?:update|setdefault|pop)|putenv|sys\.(?:path|modules)")
PLACES = []  # paths of the suite, symbolic links resolved or not
CACHE_FILE, FAILED_FILE = "cache.pickle", "failed.txt"
KINDS = {
    "TimeBenchmark": "time",
    "TimerawBenchmark": "timeraw",
    "TrackBenchmark": "track",
    "MemBenchmark": "mem",
    "PeakMemBenchmark": "peakmem",
}


class MissingBenchmark(Exception):
    """With this build the suite has no such benchmark or parameters."""

    kind = "missing"


class NoCache(Exception):
    """``setup_cache`` failed before anything was measured."""


def common_imports(root):
    """Return the packages that more than half of a suite's modules import, in their first column, but those that one
    imports after it has set variables, paths or modules, by which an import may go another way."""
    excluded, counts, modules = {os.path.basename(root)}, Counter(), 0
    for place, _, names in os.walk(root):
        for name in names:
            if name.endswith(".py"):
                with open(os.path.join(place, name), encoding="utf-8", errors="replace") as stream:
                    text = stream.read()
                setting = SETS_UP.search(text)
                excluded.update(IMPORTED.findall(text, setting.end()) if setting else ())
                modules += name != "__init__.py"
                counts.update(set(IMPORTED.findall(text)))
    return sorted(name for name, count in counts.items() if 2 * count > modules and name not in excluded)


def make_importable(root):
    """Make the suite importable by the name of its folder, as asv does, and in processes that benchmarks start."""
    update_sys_path(root)
    folder = os.path.dirname(root)
    if folder not in sys.path:
        sys.path.insert(0, folder)  # multiprocessing passes it on
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
    PLACES[:] = sorted({root, os.path.realpath(root)}, key=len, reverse=True)


def import_all(modules):
    """Import modules, but those that raise an error."""
    for name in modules:
        try:
            import_seeded(name)
        except BaseException:
            sys.modules.pop(name, None)


def import_seeded(name):
    """Return a module, imported with the same random numbers in every process: parameters may be such."""
    if name not in sys.modules:
        seed_generators(0)
    return importlib.import_module(name)


def module_files(root, name):
    """Return the names of the modules in files in which a benchmark may be: as a function, or as a method."""
    parts, package = name.split("."), os.path.basename(root)
    places = [parts[:-last] for last in (1, 2) if len(parts) > last]
    return [".".join([package, *place]) for place in places if os.path.isfile(os.path.join(root, *place) + ".py")]


def kind_of(benchmark):
    """Return one of the values of ``KINDS``, or None for a plug-in's benchmark."""
    return next((KINDS[base.__name__] for base in type(benchmark).__mro__ if base.__name__ in KINDS), None)


def find_benchmark(root, name):
    """Return the benchmark of this name. Raise MissingBenchmark, and whatever its module raises when it is imported."""
    parts, package = name.split("."), os.path.basename(root)
    for module in module_files(root, name):
        function = import_seeded(module)
        for part in parts[module.count(".") :]:
            function = getattr(function, part, None)
        if function is not None:
            return get_benchmark_from_name(root, name)
    # It is in a package's __init__.py, or has another name than its function.
    places = [parts[:-last] for last in (1, 2) if len(parts) > last]
    modules = [".".join([package, *place]) for place in places if os.path.isdir(os.path.join(root, *place))]
    for module in [*modules, package]:
        seed_generators(0)
        for benchmark in disc_benchmarks(module, ignore_import_errors=True):
            if benchmark.name == name:
                return benchmark
    raise MissingBenchmark(f"the suite has no benchmark {name} with this build")


def parameters(benchmark):
    """Return ``(names, values)``: a unique name for each parameter, and the unique texts of its values.

    The texts must be the same in both sides' processes: they have no addresses of objects and no paths of the suite,
    and NumPy's booleans, integers, floats and texts are written as by NumPy 1. Equal texts are numbered.
    """
    names = list(benchmark.param_names)
    if len(set(names)) < len(names):
        names = [f"param{number}" for number in range(1, len(names) + 1)]
    return names, [
        number_duplicates([text_of_parameter(without_differences(text_of(value))) for value in axis])
        for axis in benchmark._params
    ]


def text_of(value):
    """Return a value's ``repr``, with sets sorted: their order depends on the process."""
    text, kind = repr(value), type(value)
    if "{" not in text:
        return text
    if kind is dict:
        return "{" + ", ".join(f"{text_of(key)}: {text_of(item)}" for key, item in value.items()) + "}"
    if kind not in (list, tuple, set, frozenset) or not value:
        return text
    texts = list(map(text_of, value))
    if kind in (set, frozenset):
        inner = "{" + ", ".join(sorted(texts)) + "}"
        return inner if kind is set else f"frozenset({inner})"
    inner = ", ".join(texts)
    return f"[{inner}]" if kind is list else f"({inner}{',' * (len(texts) == 1)})"


def without_differences(text):
    """Return a ``repr`` without what differs between processes, copies of the suite, or releases of NumPy."""
    for place in PLACES:
        text = text.replace(place, os.path.basename(place))
    text = text.replace("<class 'numpy.bool'>", "<class 'numpy.bool_'>")
    return SCALAR.sub(lambda match: match.group(1) or match.group(2), ADDRESS.sub("", text))


def number_duplicates(texts):
    """Append a number to each text that occurs more than once."""
    counts, numbers, numbered_texts = Counter(texts), Counter(), []
    for text in texts:
        numbered_texts.append(f"{text} ({numbers[text]})" if counts[text] > 1 else text)
        numbers[text] += 1
    return numbered_texts


def choose_parameters(benchmark, inputs):
    """Set the benchmark's parameters to ``inputs``, name -> text. Raise MissingBenchmark if it has no such."""
    names, values = parameters(benchmark)
    if set(names) != set(inputs):
        raise MissingBenchmark("{} has the parameters {}".format(benchmark.name, ", ".join(names) or "(none)"))
    position = 0
    for name, texts in zip(names, values):
        if inputs[name] not in texts:
            raise MissingBenchmark(f"{benchmark.name}: {name} has no value {inputs[name]}")
        position = position * len(texts) + texts.index(inputs[name])
    benchmark.set_param_idx(position)


def cache_name(benchmark):
    """Return the name of the folder with the result and the files of ``setup_cache``, in which its benchmarks run.

    Return None for a benchmark without ``setup_cache``. asv_runner's key is a module and a line: a class that inherits
    the function has a folder of its own here, and so has what a function returned as one.
    """
    key = benchmark.setup_cache_key
    if key is None:
        return None
    if os.path.isabs(key):  # in the suite's __init__.py, of which each side has a copy
        key = os.path.basename(key)
    function, *owners = benchmark._attr_sources
    owner = benchmark.name.rpartition(".")[0]
    if getattr(function, "setup_cache", None) is not None:
        owner, owners = benchmark.name, []
    of_class = len(owners) == 2 and getattr(owners[0], "setup_cache", None) is not None
    if of_class or getattr(benchmark._setup_cache, "__closure__", None):
        key += f" of {owner}"
    return "cache-" + hashlib.sha256(key.encode("utf-8")).hexdigest()[:16]


def load_cache(benchmark, folder):
    """Give the benchmark what its ``setup_cache`` returned. Raise NoCache if that failed."""
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
    """Return the arguments of the benchmark's functions."""
    build = getattr(benchmark, "_build_params", None)
    return tuple(build() if build else benchmark._current_params)
