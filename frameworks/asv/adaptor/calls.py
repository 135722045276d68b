"""From a case to a benchmark that is set up, and from that to what the worker calls.

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

from .benchmarks import arguments, cache_name, choose, find, kind_of, load_cache, seed_generators

SKIPPED = "skipped"
BY_PARAMETERS = "its skip_params name these parameters"


class Skipped(Exception):
    """The benchmark doesn't want to be run with this build or with these parameters."""

    kind = SKIPPED


class Ready:
    """A benchmark with its parameters, its cache and its working folder, set up."""

    def __init__(self, benchmark, folder, temporary, seed):
        self.benchmark = benchmark
        self.seed = seed
        self.folder = folder
        self.temporary = temporary
        self.is_fresh = False  # set up, and not called since

    def set_up(self):
        """Each time with the generators of random numbers seeded alike, so that both sides draw the same, however often
        either has been called. Raises Skipped; whatever ``setup`` raises."""
        seed_generators(self.seed)
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            skipped = self.benchmark.do_setup()
        sys.stdout.write(said.getvalue())
        if skipped:
            lines = [line for line in said.getvalue().splitlines() if line.startswith("asv: skipped:")]
            raise Skipped(lines[-1][len("asv: skipped:") :].strip() if lines else BY_PARAMETERS)
        self.is_fresh = True

    def set_up_again(self):
        """Before each timed region of a benchmark that states its ``number``; at first ``setup`` has just been run."""
        if not self.is_fresh:
            self.benchmark.do_teardown()
            self.set_up()
        self.is_fresh = False

    def close(self):
        """``teardown``, and the end of the folder."""
        try:
            self.benchmark.do_teardown()
        finally:
            os.chdir(os.path.dirname(self.folder))
            if self.temporary:
                shutil.rmtree(self.folder, ignore_errors=True)


def ready(case, seed, root, work):
    """The case's benchmark, set up in a working folder of its own, or that of its ``setup_cache``.

    The global generators of random numbers are seeded before its module is imported, and before each ``setup``.
    """
    drawn = zlib.crc32("{} {}".format(seed, case["id"]).encode("utf-8"))
    seed_generators(drawn)
    benchmark = find(root, case["operator"])
    choose(benchmark, case["inputs"])
    cached = cache_name(benchmark)
    folder = os.path.join(work, cached) if cached else tempfile.mkdtemp(dir=work)
    if cached:
        load_cache(benchmark, folder)
    os.chdir(folder)
    made = Ready(benchmark, folder, cached is None, drawn)
    made.set_up()
    return made


def make_call(made):
    """A function that runs the benchmark once. Its attributes: ``close``; ``number`` and ``before`` where ``setup`` has
    to be run before so many calls; ``sample`` where the benchmark is timed otherwise than by the worker's clock."""
    benchmark, func, args = made.benchmark, made.benchmark.func, arguments(made.benchmark)

    def call():
        func(*args)

    call.close = made.close
    kind = kind_of(benchmark)
    if kind == "timeraw":
        call = raw_call(benchmark, args, made)
    elif kind == "time":
        number = int(benchmark.number)
        if number > 0:
            call.number, call.before = number, made.set_up_again
        if benchmark.timer is not timeit.default_timer:
            call.sample = own_clock(benchmark.timer, call)
    return call


def raw_call(benchmark, args, made):
    """One run of a code in a fresh interpreter, timed there, by asv_runner."""
    benchmark.repeat, benchmark.rounds, benchmark.warmup_time = 1, 1, 0
    benchmark.number = max(1, int(benchmark.number))

    def sample():
        return 1e9 * benchmark.run(*args)["samples"][0]

    def call():
        sample()

    call.sample, call.close = sample, made.close
    return call


def own_clock(timer, call):
    """Nanoseconds a call by the benchmark's own ``timer``."""
    number, before = getattr(call, "number", 1), getattr(call, "before", None)

    def sample():
        if before:
            before()
        start = timer()
        for _ in range(number):
            call()
        return 1e9 * (timer() - start) / number

    return sample


def value_of(made):
    """The number that the benchmark returns. Raises Skipped for nan; TypeError for what is no number."""
    try:
        found = made.benchmark.do_run()
        if isinstance(found, (str, bytes)):
            raise TypeError("{} returned a {}, not a number".format(made.benchmark.name, type(found).__name__))
        number = float(found)
    finally:
        made.close()
    if math.isnan(number):
        raise Skipped("it returned nan")
    return number
