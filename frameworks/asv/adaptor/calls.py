"""Set up the benchmark of a case, and turn it into the function that the worker calls.

Runs inside the build: standard library and asv_runner, which runs ``setup`` and ``teardown``.
"""

import contextlib
import functools
import gc
import io
import math
import os
import shutil
import sys
import tempfile
import timeit
import types
import zlib
from collections import deque

from .benchmarks import arguments, cache_name, choose_parameters, find_benchmark, kind_of, load_cache, seed_generators

SKIPPED = "skipped"
BY_PARAMETERS = "its skip_params name these parameters"
LAZY = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)  # what executes nothing until it is run
MOST_GARBAGE = 10000  # objects that may be garbage: workers collect none (worker/main.py), and each setup leaves some


class Skipped(Exception):
    """The benchmark refuses to run with this build or with these parameters."""

    kind = SKIPPED


class ReadyBenchmark:
    """A benchmark with its parameters, its cache and its working folder, after ``setup``."""

    def __init__(self, benchmark, folder, temporary, seed):
        self.benchmark = benchmark
        self.seed = seed
        self.folder = folder
        self.temporary = temporary
        self.is_fresh = False  # not called since setup
        for hooks in (benchmark._setups, benchmark._teardowns):
            hooks[:] = [refusing(hook, f"{benchmark.name}: {getattr(hook, '__name__', 'setup')}") for hook in hooks]

    def set_up(self):
        """Run ``setup`` after seeding the generators, so that both sides draw the same however often they are called.

        Raise Skipped, and whatever ``setup`` raises.
        """
        seed_generators(self.seed)
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            skipped = self.benchmark.do_setup()
        sys.stdout.write(output.getvalue())
        if skipped:
            lines = [line for line in output.getvalue().splitlines() if line.startswith("asv: skipped:")]
            raise Skipped(lines[-1][len("asv: skipped:") :].strip() if lines else BY_PARAMETERS)
        self.is_fresh = True

    def set_up_again(self):
        """Before a timed region, run ``teardown`` and ``setup`` unless it is fresh."""
        if not self.is_fresh:
            self.benchmark.do_teardown()
            if gc.get_count()[0] > MOST_GARBAGE:
                gc.collect()
            self.set_up()
        self.is_fresh = False

    def close(self):
        """Run ``teardown``, and leave the folder."""
        try:
            self.benchmark.do_teardown()
        finally:
            self.leave()

    def leave(self):
        """Leave the folder, and remove a temporary one."""
        os.chdir(os.path.dirname(self.folder))
        if self.temporary:
            shutil.rmtree(self.folder, ignore_errors=True)


def refusing(function, name):
    """Return a function that calls ``function`` and raises ValueError if that has executed nothing so far."""

    @functools.wraps(function)
    def checked(*args):
        value = function(*args)
        if type(value) in LAZY:
            refuse(value, name)
        return value

    return checked


def refuse(lazy, name):
    """Raise ValueError for a coroutine or a generator."""
    kind = type(lazy).__name__.replace("_", " ")
    if hasattr(lazy, "close"):
        lazy.close()  # or else a warning is printed
    how = "runs it with asyncio.run" if kind == "coroutine" else "iterates over it"
    raise ValueError(f"{name} returns a {kind}, and executes nothing: write a plain function that {how}")


def set_up_benchmark(case, seed, root, work):
    """Return the case's benchmark, set up in a temporary folder, or in that of its ``setup_cache``.

    The global generators of random numbers are seeded before each ``setup``.
    """
    case_seed = zlib.crc32("{} {}".format(seed, case["id"]).encode("utf-8"))
    benchmark = find_benchmark(root, case["operator"])
    choose_parameters(benchmark, case["inputs"])
    cache_folder = cache_name(benchmark)
    folder = os.path.join(work, cache_folder) if cache_folder else tempfile.mkdtemp(dir=work)
    if cache_folder:
        load_cache(benchmark, folder)
    os.chdir(folder)
    ready = ReadyBenchmark(benchmark, folder, cache_folder is None, case_seed)
    try:
        ready.set_up()
    except Skipped:
        ready.close()
        raise
    except BaseException:
        ready.leave()
        raise
    return ready


def make_call(ready):
    """Return a function that runs the benchmark once, a generator to its end. Raise ValueError for a coroutine.

    Its attributes are those of worker/main.py: as asv_runner does, ``setup`` is run before each timed call, and without
    a ``setup`` ``teardown`` after each timed region, of ``number`` calls if it states that.
    """
    benchmark, func, args = ready.benchmark, ready.benchmark.func, arguments(ready.benchmark)
    kind = kind_of(benchmark)
    if kind == "timeraw":
        return raw_call(benchmark, args, ready)

    def call():
        value = func(*args)
        if value is not None and type(value) in LAZY:
            run_to_its_end(value, benchmark.name)

    call.close = ready.close
    number = int(benchmark.number) if kind == "time" else 0
    if benchmark._setups or benchmark._teardowns:
        call.before = ready.set_up_again
    if benchmark._setups or kind != "time" or number > 0:
        call.number = 1 if benchmark._setups else max(1, number)
    if kind == "time" and benchmark.timer is not timeit.default_timer:
        call.sample = own_clock(benchmark.timer, call, number if benchmark._setups else 1)
    return call


def run_to_its_end(lazy, name):
    """Run a generator to its end. Raise ValueError for what only an event loop could run."""
    if type(lazy) is not types.GeneratorType:
        refuse(lazy, name)
    deque(lazy, maxlen=0)


def raw_call(benchmark, args, ready):
    """Return a function by which asv_runner runs and times code once in a fresh interpreter."""
    benchmark.repeat, benchmark.rounds, benchmark.warmup_time = 1, 1, 0
    benchmark.number = max(1, int(benchmark.number))

    def call():
        return 1e9 * benchmark.run(*args)["samples"][0]

    call.sample, call.close = call, ready.close
    return call


def own_clock(timer, call, regions):
    """Return a function that measures the ns of a call by the benchmark's own ``timer``, over so many regions."""
    number, before = getattr(call, "number", 1), getattr(call, "before", None)

    def sample():
        total = 0.0
        for _ in range(max(1, regions)):
            if before:
                before()
            start = timer()
            for _ in range(number):
                call()
            total += timer() - start
        return 1e9 * total / (number * max(1, regions))

    return sample


def value_of(ready):
    """Return the number that the benchmark returns. Raise Skipped for nan, TypeError if it isn't a number."""
    benchmark = ready.benchmark
    benchmark.func = refusing(benchmark.func, benchmark.name)
    try:
        value = benchmark.do_run()
        if isinstance(value, (str, bytes)):
            raise TypeError(f"{benchmark.name} returned a {type(value).__name__}, not a number")
        number = float(value)
    finally:
        ready.close()
    if math.isnan(number):
        raise Skipped("it returned nan")
    return number
