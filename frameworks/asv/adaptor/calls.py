"""Set up the benchmark of a case, and turn it into the function that the worker calls.

Runs inside the build: standard library and asv_runner, which runs ``setup`` and ``teardown``.
"""

import contextlib
import io
import math
import os
import shutil
import sys
import tempfile
import timeit
import zlib

from .benchmarks import arguments, cache_name, choose_parameters, find_benchmark, kind_of, load_cache, seed_generators

SKIPPED = "skipped"
BY_PARAMETERS = "its skip_params name these parameters"


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
        """Before a timed region of a benchmark with a ``number``, run ``teardown`` and ``setup`` unless it is fresh."""
        if not self.is_fresh:
            self.benchmark.do_teardown()
            self.set_up()
        self.is_fresh = False

    def close(self):
        """Run ``teardown``, and remove a temporary folder."""
        try:
            self.benchmark.do_teardown()
        finally:
            os.chdir(os.path.dirname(self.folder))
            if self.temporary:
                shutil.rmtree(self.folder, ignore_errors=True)


def set_up_benchmark(case, seed, root, work):
    """Return the case's benchmark, set up in a temporary folder, or in that of its ``setup_cache``.

    The global generators of random numbers are seeded before its module is imported, and before each ``setup``.
    """
    case_seed = zlib.crc32("{} {}".format(seed, case["id"]).encode("utf-8"))
    seed_generators(case_seed)
    benchmark = find_benchmark(root, case["operator"])
    choose_parameters(benchmark, case["inputs"])
    cache_folder = cache_name(benchmark)
    folder = os.path.join(work, cache_folder) if cache_folder else tempfile.mkdtemp(dir=work)
    if cache_folder:
        load_cache(benchmark, folder)
    os.chdir(folder)
    ready = ReadyBenchmark(benchmark, folder, cache_folder is None, case_seed)
    ready.set_up()
    return ready


def make_call(ready):
    """Return a function that runs the benchmark once.

    Its attributes: ``close``; ``number`` and ``before`` if ``setup`` has to be run before so many calls; ``sample`` if
    the benchmark isn't timed by the worker's clock.
    """
    benchmark, func, args = ready.benchmark, ready.benchmark.func, arguments(ready.benchmark)

    def call():
        func(*args)

    call.close = ready.close
    kind = kind_of(benchmark)
    if kind == "timeraw":
        call = raw_call(benchmark, args, ready)
    elif kind == "time":
        number = int(benchmark.number)
        if number > 0:
            call.number, call.before = number, ready.set_up_again
        if benchmark.timer is not timeit.default_timer:
            call.sample = own_clock(benchmark.timer, call)
    return call


def raw_call(benchmark, args, ready):
    """Return a function by which asv_runner runs and times code once in a fresh interpreter."""
    benchmark.repeat, benchmark.rounds, benchmark.warmup_time = 1, 1, 0
    benchmark.number = max(1, int(benchmark.number))

    def call():
        return 1e9 * benchmark.run(*args)["samples"][0]

    call.sample, call.close = call, ready.close
    return call


def own_clock(timer, call):
    """Return a function that measures the ns of a call by the benchmark's own ``timer``."""
    number, before = getattr(call, "number", 1), getattr(call, "before", None)

    def sample():
        if before:
            before()
        start = timer()
        for _ in range(number):
            call()
        return 1e9 * (timer() - start) / number

    return sample


def value_of(ready):
    """Return the number that the benchmark returns. Raise Skipped for nan, TypeError if it isn't a number."""
    try:
        value = ready.benchmark.do_run()
        if isinstance(value, (str, bytes)):
            raise TypeError(f"{ready.benchmark.name} returned a {type(value).__name__}, not a number")
        number = float(value)
    finally:
        ready.close()
    if math.isnan(number):
        raise Skipped("it returned nan")
    return number
