"""The adaptor of tests that time a call: pytest runs the test up to there, and the call is measured while it waits.

It needs pytest; environment variables say where the suite is.
"""

import gc
import os
import platform
import shutil
import tempfile
import zlib

from opduel_common.forks import import_here
from opduel_common.peaks import peak_of_objects
from opduel_common.scripts import seed_generators

from .collection import TimedTests, as_exception, split_item

SUITE, WORK, TEMPORARY = "OPDUEL_SUITE", "OPDUEL_SUITE_WORK", "PYTEST_DEBUG_TEMPROOT"
COLLECTED = {}  # file -> its tests
CALLS = []  # the call that the case's test has timed


class MissingTest(Exception):
    """With this build the suite has no such test or parameters."""

    kind = "missing"


def versions():
    """Return the version that the controller gets once the worker has started."""
    return {"framework": platform.python_version()}


def modules_of(case):
    """Return the file of the case's test, which its process collects, and no other of the suite."""
    return [case["operator"].partition("::")[0]]


def import_modules(names):
    """Collect the tests of these files for several cases, and return whether this process can then be forked."""
    return import_here(collect_files, names)


def collect_files(names):
    """Collect the tests of files. Raise what a conftest.py raises."""
    if SUITE not in os.environ:
        raise ValueError("no suite: name one with --suite")
    for name in names:
        if name not in COLLECTED:
            try:
                COLLECTED[name] = TimedTests.of(os.environ[SUITE], [name])
            except BaseException as error:
                raise as_exception(error) from None


def find_test(case):
    """Return the collected tests of the case's file, and its own. Raise MissingTest, or why the file has none."""
    [name] = modules_of(case)
    collect_files([name])
    tests = COLLECTED[name]
    for item in tests.items:
        base, parameters = split_item(item)
        if base == case["operator"] and parameters == case["inputs"].get("id"):
            return tests, item
    if tests.problems:
        raise RuntimeError(next(iter(tests.problems.values())))
    raise MissingTest("the suite has no test {} with this build".format(case["id"]))


def run_test(case, seed, use):
    """Run the case's test, and ``use`` the call that it has timed while it waits; then end the test.

    The global generators of random numbers are seeded first. Raise MissingTest, Skipped, and whatever the test raises.
    """
    tests, item = find_test(case)
    os.chdir(os.environ[SUITE])
    os.environ[TEMPORARY] = tempfile.mkdtemp(dir=os.environ[WORK])
    case_seed = zlib.crc32("{} {}".format(seed, case["id"]).encode("utf-8"))
    gc.enable()  # as in pytest-benchmark; what whole tests leave would else fill the memory
    try:
        tests.run(item, use, lambda: seed_generators(case_seed))
    finally:
        shutil.rmtree(os.environ[TEMPORARY], ignore_errors=True)


def surround(case, seed, serve):
    """Run the case's test, and ``serve`` while it waits for the call that it has timed. Raise as ``run_test``."""

    def stop_at(call):
        CALLS[:] = [call]
        serve()

    run_test(case, seed, stop_at)


def make_call(case, seed):
    """Return the call for which the case's test waits; its attributes say how to time it (worker/main.py)."""
    if not CALLS:
        raise ValueError("{}: the test doesn't wait for a call".format(case["id"]))
    return CALLS[0]


def memory(case, seed, calls):
    """Return ``{"cpu": bytes}``: the peak of Python objects and NumPy arrays in a call, the median of so many calls."""
    peaks = {}

    def measure(call):
        peaks.update(peak_of_objects(call, calls, getattr(call, "before", lambda: None)))

    run_test(case, seed, measure)
    return peaks
