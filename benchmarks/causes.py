#!/usr/bin/env python3
"""Inject known causes, and check that --explain names them, with the right share, and nothing else.

    .venv/bin/python benchmarks/causes.py [--only NAME]

A small package, native code under Python (benchmarks/injected_causes/), is built twice. For each cause, the treatment
has a copy of it in which one passage differs; the slower function and its share of the change are written beside the
passage. Then

1. ``harness.py --explain all`` compares both builds, ten cases a run, and its sentences are compared with the truth;
2. the control is compared with a copy of itself, and with a copy in which functions have other names: ten cases are
   explained as if they had regressed. Nothing may be claimed of either.

Printed are a table in Markdown, counts with exact 95 % intervals, and what was missed. The exit code is 1 if fewer than
90 % of the causes were named, or have their true share within the interval, or if anything was claimed of equal builds;
3 if a run could not be completed. It needs gcc and valgrind, and takes some ten minutes on two processors.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.bench import ROOT
from benchmarks.injected_causes.builds import module_of, write_builds, write_spec
from benchmarks.injected_causes.cause import Cause, read_causes
from benchmarks.injected_causes.clocked import measure_share
from benchmarks.injected_causes.judge import COLUMNS, ReportedCause, compare, misses_aim, summary
from benchmarks.markdown import table
from opduel.causes import find_causes
from opduel.commands.entry import DONE, REGRESSED, run_command
from opduel.driver.builds import BuildCache, resolve_build
from opduel.frameworks import get_framework, worker_environment
from opduel.harness.machine.cpus import plan_cpus, this_thread_on
from opduel.harness.measurement_plan import MeasurementResult
from opduel.harness.processes.pair_pool import Bench
from opduel.harness.profiles import Profiling
from opduel.harness.run_request import RunRequest
from opduel.harness.specs import expand_cases, load_spec
from opduel.records import Build, Comparison, RunConfiguration, RunError, UsageError
from opduel.records.measurement import SIDES, Side
from opduel.reporters import read_report

NUMPY = "numpy==2.2.6"
CASES_OF_A_RUN = 10  # and of a comparison of equal builds
PRETENDED_RATIO = 1.3  # of equal builds
LONGEST_S = 1200.0  # of a run
OPTIONS = ("--busy_host", "report", "--sentinels", "0", "--max_rounds", "12", "--threshold", "5%")
EQUAL_BUILDS = ("same", "renamed")


def main() -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="NAME", help="causes whose name contains this")
    only = parser.parse_args().only
    return run_command("causes.py", lambda: check_causes(only))


def check_causes(only: str) -> int:
    """Measure and explain, print the table and the counts, and return the exit code."""
    causes = {number: cause for number, cause in enumerate(read_causes(), 1) if only in cause.name}
    if not causes:
        raise UsageError(f"--only {only}: no cause has that in its name")
    with tempfile.TemporaryDirectory(prefix="causes-") as folder:
        experiment = Experiment(Path(folder).resolve(), causes)
        reported = experiment.explain_causes()
        equal_builds = {name: experiment.explain_equal(name) for name in EQUAL_BUILDS}
    rows = [cause.cells() for cause in reported]
    print("\n".join([*table(COLUMNS, rows), *summary(reported, equal_builds)]))
    return REGRESSED if misses_aim(reported, equal_builds) else DONE


class Experiment:
    """Two builds with causes in a folder, which is empty, and what opduel says of them."""

    def __init__(self, folder: Path, causes: Mapping[int, Cause]) -> None:
        self._folder, self._builds, self._causes = folder, folder / "builds", causes
        numpy = resolve_build(NUMPY, get_framework("python"), BuildCache())
        packages = next(Path(numpy.interpreter).parent.parent.glob("lib/python*/site-packages"))
        write_builds(self._builds, packages, causes)

    def explain_causes(self) -> list[ReportedCause]:
        """Return what harness.py says of control and treatment, cause by cause."""
        reported, numbers = [], list(self._causes)
        for start in range(0, len(numbers), CASES_OF_A_RUN):
            chosen = numbers[start : start + CASES_OF_A_RUN]
            comparisons = self._compare_builds(chosen)
            reported += [compare(self._with_truth(number), comparisons[module_of(number)]) for number in chosen]
        return reported

    def _with_truth(self, number: int) -> Cause:
        """Return the cause with its true share, measured if it isn't known by construction."""
        cause = self._causes[number]
        if not cause.clocked:
            return cause
        pythons: dict[str, Path] = {side: self._builds / side / "bin" / "python" for side in SIDES}
        environment = {**os.environ, **worker_environment()}
        share, reach = measure_share(pythons, module_of(number), cause.clocked, environment)
        return replace(cause, truths=[replace(truth, share=share, reach=reach) for truth in cause.truths])

    def _compare_builds(self, numbers: Sequence[int]) -> dict[str, Comparison]:
        """Return the causes' comparisons by the copy of the package.

        Raises:
            RunError: there is no report.
        """
        name = "-".join(map(str, numbers))
        report, spec = self._folder / name / "report.json", self._folder / f"{name}.json"
        write_spec(spec, {number: self._causes[number] for number in numbers})
        sides = [f"--{side}={self._builds / side}" for side in SIDES]
        command = [sys.executable, str(ROOT / "harness.py"), "-b", str(spec), *sides, "--explain", "all", *OPTIONS]
        command += ["--simple_local_reporter", str(report.parent)]
        process = subprocess.run(command, stdout=sys.stderr, timeout=LONGEST_S, check=False)
        if not report.exists():
            raise RunError(f"harness.py ended with {process.returncode} and without a report")
        return {comparison.case.partition("/")[0]: comparison for comparison in read_report(report).comparisons}

    def explain_equal(self, name: str) -> list[str]:
        """Return the sentences about cases of the control and an equal build, explained as if each had regressed.

        Raises:
            RunError: some cases have no sentence.
        """
        spec = self._folder / f"{name}.json"
        step = max(1, len(self._causes) // CASES_OF_A_RUN)
        write_spec(spec, dict([*self._causes.items()][::step][:CASES_OF_A_RUN]))
        framework, cases = get_framework("python"), expand_cases(load_spec(spec))
        builds: dict[Side, Build] = {
            side: resolve_build(str(self._builds / build), framework, BuildCache())
            for side, build in zip(SIDES, ("control", name), strict=True)
        }
        environment = {**worker_environment(), **framework.environment(1), **framework.preparation(cases)}
        bench = Bench(builds, framework.adaptor, environment, plan_cpus(1))
        configuration = RunConfiguration(explain="all")
        request = RunRequest(framework, builds["control"], builds["treatment"], cases, 1, configuration)
        regressed = (Comparison.without_figures(case, "regressed") for case in cases)
        pretended = [
            replace(comparison, ratio=PRETENDED_RATIO, control=1000.0, treatment=1000.0 * PRETENDED_RATIO)
            for comparison in regressed
        ]
        with this_thread_on(bench.cpus.control):
            explained = find_causes(pretended, request, MeasurementResult(), Profiling(bench, framework, 1, seed=1))
        sentences = [comparison.cause.sentence for comparison in explained if comparison.cause]
        if len(sentences) < len(cases):
            raise RunError(f"{len(cases) - len(sentences)} of {len(cases)} cases of equal builds were not explained")
        return sentences


if __name__ == "__main__":
    raise SystemExit(main())
