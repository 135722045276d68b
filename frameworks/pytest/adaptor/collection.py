"""Collect a suite's tests with pytest, as its own command does, and run one of them up to the call that it has timed.

Runs inside the build: standard library, pytest, and of pytest-benchmark what it adds to pytest besides its fixture.
"""

import functools
import importlib.util
import inspect
import os
import re
import sys
import types

import pytest
from _pytest.config import _prepareconfig
from _pytest.main import Session

from opduel_common.scripts import one_line, text_of_parameter

from .fixture import BenchmarkFixture
from .inside import extend_packages

try:
    from pytest_benchmark import plugin as of_pytest_benchmark
except ImportError:
    of_pytest_benchmark = None

FIXTURES, MARKS = ("benchmark", "codspeed_benchmark"), ("benchmark", "codspeed_benchmark")
LONGEST_ID = 100  # characters of a test's parameters
# Plugins whose fixtures ours replace, that end a test that waits, or that do something in every call or draw seeds.
WITHOUT = ("benchmark", "codspeed", "timeout", "faulthandler", "warnings", "randomly")
UNNEEDED = ("pytest_cov", "xdist")
# Settings: without these plugins, strict ones would refuse what others of the project's are for them.
OVERRIDDEN = ("filterwarnings=", "required_plugins=", "strict=false", "strict_config=false")
OPTIONS = (
    "--capture=no",
    *(word for setting in OVERRIDDEN for word in ("-o", setting)),
    *(word for name in WITHOUT for word in ("-p", "no:" + name)),
)
# Options of addopts that choose tests, stop early, run elsewhere, look on, or are strict.
NOT_FOLLOWED = re.compile(
    r"-[nkmxW].*|--(numprocesses|dist|tx|maxprocesses|exitfirst|maxfail|deselect|lf|last-failed|ff|failed-first|sw"
    r"|stepwise|nf|new-first|cov.*|no-cov.*|doctest.*|strict|strict-config|pdb|trace|co|collect-only|benchmark-.*"
    r"|codspeed.*|timeout.*|junit.*|html|durations.*|pythonwarnings)(=.*)?"
)


class Measured(BaseException):
    """Ends a test whose call has been measured."""


class Skipped(Exception):
    """The test, or its module, doesn't run with this build, or has nothing timed."""

    kind = "skipped"


class PytestError(Exception):
    """What went wrong, in pytest's own words."""

    says_all = True


class TimedTests:
    """A plugin of pytest, and the tests that it has collected: ``items``, those that are timed, and ``problems``, why
    files or folders have none."""

    def __init__(self):
        self.session = None
        self.items, self.problems, self.notes = [], {}, []
        self._use = self._seed = None  # what is done with the call that a test has timed, and comes before a setup
        self._is_measured = self._is_calling = False
        self._reports, self._error = [], None

    @classmethod
    def of(cls, root, paths):
        """Collect the tests in these files of the suite's folder ``root``. Raise pytest's errors, and those of a
        conftest.py."""
        os.chdir(root)
        if not is_there("pytest_codspeed"):
            stand_in_for("pytest_codspeed").BenchmarkFixture = BenchmarkFixture  # which tests import to annotate
        tests, config, absent = cls(), None, []
        for folder, error in extend_packages(root).items():
            inside = [path for path in paths if path.startswith(folder + "/")]
            tests.problems.update({path: text_of_error(error) for path in inside})
            paths = [path for path in paths if path not in inside]
        if not paths:
            return tests
        problems = tests.problems
        while config is None:
            try:
                config = _prepareconfig(["--rootdir=" + root, "--confcutdir=" + root, *OPTIONS, *paths], [tests])
            except pytest.UsageError as error:  # of -p in addopts
                match = re.match(r'Error importing plugin "([^"]+)": No module named', str(error))
                if match is None or match.group(1) in absent:
                    raise
                absent.append(match.group(1))
                stand_in_for(absent[-1])
                tests = cls()
                tests.problems.update(problems)
        tests.notes += ["addopts: -p {}: is not installed".format(name) for name in absent if name not in UNNEEDED]
        config._do_configure()
        tests.session = Session.from_config(config)
        config.hook.pytest_sessionstart(session=tests.session)
        config.hook.pytest_collection(session=tests.session)
        tests.items = [item for item in tests.session.items if uses_fixture(item) or is_marked(item)]
        return tests

    def run(self, item, use, seed):
        """Run a test, and ``use`` the call that it has timed; then end the test, and tear its fixtures down.

        Raise Skipped, and whatever the test or ``use`` raises.
        """
        self._use, self._seed, self._reports, self._error = use, seed, [], None
        self._is_measured = self._is_calling = False
        seed()
        try:
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        except BaseException as error:
            raise as_exception(error) from None
        if self._is_measured:
            return
        for report, error in self._reports:
            if report.skipped:
                why = getattr(report, "wasxfail", None)
                raise Skipped(str(error) or "no reason" if why is None else "expected to fail" + (why and ": " + why))
            if report.failed and error is not None:
                raise as_exception(error)
        if self._error is not None:  # the test has caught it
            raise self._error
        raise Skipped("it has no call timed: it doesn't use benchmark")

    def time(self, call):
        """Hand over the call of the test that runs, and end the test."""
        if not self._is_measured:
            try:
                self._use(call)
            except Exception as error:
                self._error = error
                raise
            self._is_measured = True
        raise Measured

    @pytest.fixture
    def benchmark(self, request):
        """Time a call, as pytest-benchmark does."""
        return BenchmarkFixture(request.node, self.time, self._seed)

    @pytest.fixture
    def codspeed_benchmark(self, benchmark):
        """Time a call, as pytest-codspeed does."""
        return benchmark

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem):
        """Time the whole function of a test that is marked and doesn't use the fixture."""
        if self._use is None or self._is_calling or uses_fixture(pyfuncitem) or not is_marked(pyfuncitem):
            return
        function = pyfuncitem.obj
        if inspect.iscoroutinefunction(function):  # other plugins know how it is run
            self._is_calling = True
            self.time(functools.partial(pyfuncitem.ihook.pytest_pyfunc_call, pyfuncitem=pyfuncitem))
        names = pyfuncitem._fixtureinfo.argnames
        self.time(functools.partial(function, **{name: pyfuncitem.funcargs[name] for name in names}))

    def pytest_addoption(self, parser):
        """Add the options of pytest-benchmark, which a conftest.py may read."""
        if of_pytest_benchmark:
            of_pytest_benchmark.pytest_addoption(parser)

    def pytest_addhooks(self, pluginmanager):
        """Add the hooks of pytest-benchmark, which a conftest.py may have."""
        if of_pytest_benchmark:
            of_pytest_benchmark.pytest_addhooks(pluginmanager)

    def pytest_configure(self, config):
        """Make the marks known."""
        for name in MARKS:
            config.addinivalue_line("markers", name + ": a test that is timed")

    @pytest.hookimpl(hookwrapper=True)
    def pytest_load_initial_conftests(self, early_config, parser, args):
        """Leave out options that no plugin has, and those that would choose or watch tests."""
        early_config.known_args_namespace.cov_source = None  # pytest-cov would trace all calls from here on
        yield
        unknown = parser.parse_known_and_unknown_args(list(args))[1]
        args[:], left_out = followed(args, unknown)
        if left_out:
            self.notes.append("addopts: {}: no plugin here has it".format(" ".join(left_out)))

    def pytest_collectreport(self, report):
        """Note what can't be collected, or skips itself."""
        if not report.passed:
            self.problems[report.nodeid or "."] = reason_of(report)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, call):
        """Note how each step of the test ended."""
        outcome = yield
        self._reports.append((outcome.get_result(), call.excinfo and call.excinfo.value))


def uses_fixture(item):
    """Return whether a test uses the fixture, itself or through another one."""
    return any(name in getattr(item, "fixturenames", ()) for name in FIXTURES)


def is_marked(item):
    """Return whether a test is marked as one that is timed."""
    return any(item.get_closest_marker(name) for name in MARKS)


def split_item(item):
    """Return the id of a test without its parameters, and these as one text, None without any."""
    callspec = getattr(item, "callspec", None)
    suffix = "[{}]".format(callspec.id) if callspec else ""
    if not suffix or not item.nodeid.endswith(suffix):
        return item.nodeid, None
    return item.nodeid[: -len(suffix)], text_of_parameter(callspec.id, LONGEST_ID)


def followed(words, unknown):
    """Return the words of a command line that are followed, and those of options that no plugin has."""
    followed_words, left_out, is_value = [], [], False
    for word in words:
        if not word.startswith("-"):
            if not is_value:
                followed_words.append(word)
            continue
        is_left_out = bool(NOT_FOLLOWED.fullmatch(word))
        is_value = (is_left_out or word in unknown) and "=" not in word
        if is_left_out:
            continue
        (left_out if word in unknown else followed_words).append(word)
    return followed_words, left_out


def reason_of(report):
    """Return one line of a report on what wasn't collected."""
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2])
    lines = [line.strip() for line in str(report.longrepr).splitlines() if line.strip()]
    errors = [line[1:].strip() for line in lines if line.startswith("E ")]
    error_lines = [line for line in errors if re.match(r"[\w.]+(Error|Exception|Warning|Failed|Exit)\b", line)]
    return (error_lines[-1:] or errors[:1] or lines[-1:] or ["it can't be collected"])[0]


def as_exception(error):
    """Return an error that a worker can report: pytest has some that are no Exception, or say little by themselves."""
    name = getattr(error, "argname", None)
    if name is not None:
        return PytestError("fixture '{}' not found".format(name))
    if isinstance(error, Exception) and not type(error).__module__.startswith("_pytest."):
        return error
    return PytestError(str(error) or one_line(error))


def text_of_error(error):
    """Return an error as one line."""
    error = as_exception(error)
    return " ".join(str(error).split()) if isinstance(error, PytestError) else one_line(error)


def is_there(name):
    """Return whether a module, or the package that it is in, is there."""
    return name in sys.modules or importlib.util.find_spec(name) is not None


def stand_in_for(name):
    """Return an empty module of this name, which can be imported, in packages that there are or in empty ones."""
    parts = name.split(".")
    for place in (".".join(parts[: number + 1]) for number in range(len(parts))):
        if place == name or not is_there(place):
            sys.modules[place] = types.ModuleType(place)
    return sys.modules[name]
