"""Ask a build, in its own interpreter, for the benchmarks of a suite; and combine those of two builds."""

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

from opduel.driver.builds.process import run
from opduel.driver.catalogue.registry import read_answer
from opduel.frameworks import Framework, worker_environment
from opduel.records import Build, UsageError
from opduel.records.measurement import SIDES, Side

TIMEOUT_S = 900.0  # for all modules; each has its own, shorter one

Kind = Literal["time", "timeraw", "track", "mem", "peakmem", "test"]


_PATH = re.compile(r" \(/[^()]*\)")  # of a build's file, as Python names it for an import that fails


@dataclass(frozen=True)
class Benchmark:
    """A benchmark as a build describes it, without running it.

    ``names`` and ``values`` are those of its parameters; ``skipped`` has the numbers of the sets of values that it
    skips. ``setup_cache`` is the folder of its cache, which other benchmarks may share; times are in seconds.
    """

    name: str
    kind: Kind
    module: str
    names: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    skipped: frozenset[int] = frozenset()
    timeout: float | None = None
    setup_cache: str | None = None
    setup_cache_timeout: float | None = None
    unit: str = "seconds"
    version: str = ""
    pretty_name: str | None = None
    lower_is_better: bool = True

    @property
    def count(self) -> int:
        """How many sets of parameters it has, those that it skips included."""
        return math.prod(map(len, self.values))

    def parameters(self) -> Iterator[dict[str, str]]:
        """Return each set of parameters that it doesn't skip, name -> text."""
        for number, values in enumerate(itertools.product(*self.values)):
            if number not in self.skipped:
                yield dict(zip(self.names, values, strict=True))

    def case_name(self, parameters: Mapping[str, str]) -> str:
        """Return its name with these parameters: asv's, ``bench_core.Core.time_array(10, 'x')``, or pytest's,
        ``tests/test_core.py::test_array[10-x]``."""
        if not self.names:
            return self.name
        values = ", ".join(parameters.values())
        return f"{self.name}[{values}]" if self.kind == "test" else f"{self.name}({values})"


@dataclass(frozen=True)
class Discovered:
    """The benchmarks that one build finds in a suite, and a line for each module or benchmark that can't be used.
    ``preloaded``: packages that workers may import before they fork the processes of cases."""

    benchmarks: tuple[Benchmark, ...]
    problems: tuple[str, ...]
    preloaded: tuple[str, ...] = ()


def discover(
    build: Build,
    framework: Framework,
    folder: Path,
    work: Path,
    env: Mapping[str, str] | None = None,
    tests: Sequence[str] = (),
) -> Discovered:
    """Return the benchmarks that ``build`` finds in ``folder``, of tests for pytest in the files ``tests`` there;
    modules are imported with ``work`` as working folder, and with the user's variables ``env``.

    Raises:
        UsageError: the suite's package can't be imported, or the build lacks what finds benchmarks.
        RunError: the build's answer is missing or not understood.
    """
    if framework.scripts.suite is None:
        raise UsageError(f"--suite: {framework.name} measures no suites: name another framework")
    command: list[str | Path] = [build.interpreter, framework.scripts.suite, "discover", folder, *tests]
    outcome = run(
        command, timeout=TIMEOUT_S, whole_environment=suite_environment(build, framework, env), directory=work
    )
    missing = re.findall(r"ModuleNotFoundError: No module named '(asv_runner|pytest)", outcome.output_tail)
    if missing:
        needed = " ".join(framework.builds.also_required)
        raise UsageError(f"{build.requested}: has no package {missing[-1]}, which finds benchmarks: install {needed}")
    answer = read_answer(build, outcome, "can't list the suite's benchmarks", dict)
    if "error" in answer:
        error = answer["error"].replace(f"{folder}/", "")
        module = missing_module(error)
        fix = f"if the suite needs the package {module}, add --suite_packages {module}" if module else "correct it"
        raise UsageError(f"--suite: can't be imported by {build.requested}: {error}: {fix}")
    return read_answer(build, outcome, "can't list the suite's benchmarks", _read)


def missing_module(problem: str) -> str | None:
    """Return the package that a suite's problem says is missing; None for a module that a package lacks."""
    missing = re.search(r"No module named '(\w+)'", problem)
    return missing[1] if missing else None


def suite_environment(build: Build, framework: Framework, env: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables for a suite before it is measured: a worker's, with one thread and the user's ``env``."""
    return {**worker_environment(), **framework.environment(1), **(env or {}), **build.environment}


_BENCHMARKS = TypeAdapter(tuple[Benchmark, ...])


def _read(answer: Mapping[str, Any]) -> Discovered:
    modules = answer["modules"]
    benchmarks = _BENCHMARKS.validate_python([entry for module in modules for entry in module["benchmarks"]])
    problems = tuple(str(line) for module in modules for line in module["problems"])
    return Discovered(benchmarks, problems, tuple(map(str, answer.get("preloaded", ()))))


@dataclass(frozen=True)
class SuiteCase:
    """A benchmark with one set of parameters; ``sides`` are those whose build has it."""

    benchmark: Benchmark
    parameters: Mapping[str, str]
    sides: tuple[Side, ...]

    @property
    def name(self) -> str:
        """As asv or pytest calls it."""
        return self.benchmark.case_name(self.parameters)


def preloaded_by_all(discovered: Mapping[Side, Discovered]) -> list[str]:
    """Return the packages that the workers of each side may import before they fork the processes of cases."""
    return sorted(set.intersection(*(set(benchmarks.preloaded) for benchmarks in discovered.values())))


def all_cases(discovered: Mapping[Side, Discovered]) -> list[SuiteCase]:
    """Return the cases of all sides, in the order of the first side; it also describes a benchmark that both have."""
    cases: dict[str, SuiteCase] = {}
    for side in SIDES:
        for benchmark in discovered[side].benchmarks if side in discovered else ():
            for parameters in benchmark.parameters():
                name = benchmark.case_name(parameters)
                before = cases.get(name)
                if before is None:
                    cases[name] = SuiteCase(benchmark, parameters, (side,))
                elif side not in before.sides:
                    cases[name] = SuiteCase(before.benchmark, before.parameters, (*before.sides, side))
    return list(cases.values())


def problems_of(discovered: Mapping[Side, Discovered]) -> list[str]:
    """Return the suite's problems, each line once, without the build's path, with the side unless all sides have it."""
    sides: dict[str, list[str]] = {}
    for side, suite in discovered.items():
        for line in dict.fromkeys(_PATH.sub("", problem) for problem in suite.problems):
            sides.setdefault(line, []).append(side)
    return [line if len(on) == len(discovered) else f"{', '.join(on)}: {line}" for line, on in sides.items()]


def skipped_by_parameters(discovered: Mapping[Side, Discovered], names: Iterable[str]) -> int:
    """Return how many sets of parameters the benchmarks of these names skip themselves, on the side with the most."""
    chosen_names = set(names)
    by_side: Sequence[int] = [
        sum(len(benchmark.skipped) for benchmark in side.benchmarks if benchmark.name in chosen_names)
        for side in discovered.values()
    ]
    return max(by_side, default=0)
