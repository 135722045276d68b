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
3 if a run could not be completed. It needs gcc and valgrind, and takes some 15 minutes on two processors.
"""

import argparse
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.bench import run_harness
from benchmarks.injected_causes.builds import module_of, write_builds, write_spec
from benchmarks.injected_causes.cause import Cause, read_causes
from benchmarks.injected_causes.judge import COLUMNS, ReportedCause, compare, judge
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

NUMPY = "numpy==2.2.6"
CASES_OF_A_RUN = 10  # and of a comparison of equal builds
PRETENDED_RATIO = 1.3  # of equal builds
OPTIONS = ("--explain", "all", "--busy_host", "report", "--sentinels", "0", "--max_rounds", "12", "--threshold", "5%")
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
    with tempfile.TemporaryDirectory(prefix="causes-") as name:
        folder = Path(name).resolve()
        numpy = resolve_build(NUMPY, get_framework("python"), BuildCache())
        packages = next(Path(numpy.interpreter).parent.parent.glob("lib/python*/site-packages"))
        write_builds(folder, packages, causes)
        numbers = list(causes)
        reported: list[ReportedCause] = []
        for start in range(0, len(numbers), CASES_OF_A_RUN):
            of_run = {number: causes[number] for number in numbers[start : start + CASES_OF_A_RUN]}
            reported += explain_causes(folder, of_run)
        sample = {number: causes[number] for number in numbers[:CASES_OF_A_RUN]}
        is_reached, counts = judge(reported, {build: explain_equal(folder, build, sample) for build in EQUAL_BUILDS})
    print("\n".join([*table(COLUMNS, [cause.cells() for cause in reported]), *counts]))
    return DONE if is_reached else REGRESSED


def explain_causes(folder: Path, causes: Mapping[int, Cause]) -> list[ReportedCause]:
    """Return what harness.py says of the folder's control and treatment, cause by cause.

    Raises:
        RunError: there is no report.
    """
    spec = folder / "spec.json"
    write_spec(spec, causes)
    run = run_harness("-b", str(spec), *(f"--{side}={folder / side}" for side in SIDES), *OPTIONS)
    if run.report is None:
        raise RunError(f"harness.py left no report: {run.message}")
    comparisons = {comparison.case.partition("/")[0]: comparison for comparison in run.report.comparisons}
    return [compare(cause, comparisons[module_of(number)]) for number, cause in causes.items()]


def explain_equal(folder: Path, name: str, causes: Mapping[int, Cause]) -> list[str]:
    """Return the sentences about the causes' cases of the control and an equal build, explained as if each had
    regressed.

    Raises:
        RunError: some cases have no sentence.
    """
    spec = folder / "spec.json"
    write_spec(spec, causes)
    framework, cases = get_framework("python"), expand_cases(load_spec(spec))
    builds: dict[Side, Build] = {
        side: resolve_build(str(folder / build), framework, BuildCache())
        for side, build in zip(SIDES, ("control", name), strict=True)
    }
    environment = {**worker_environment(), **framework.environment(1), **framework.preparation(cases)}
    bench = Bench(builds, framework.adaptor, environment, plan_cpus(1))
    request = RunRequest(framework, builds["control"], builds["treatment"], cases, 1, RunConfiguration(explain="all"))
    slower = 1000.0 * PRETENDED_RATIO
    pretended = [
        replace(Comparison.without_figures(case, "regressed"), ratio=PRETENDED_RATIO, control=1000.0, treatment=slower)
        for case in cases
    ]
    with this_thread_on(bench.cpus.control):
        explained = find_causes(pretended, request, MeasurementResult(), Profiling(bench, framework, 1, seed=1))
    sentences = [comparison.cause.sentence for comparison in explained if comparison.cause]
    if len(sentences) < len(cases):
        raise RunError(f"{len(cases) - len(sentences)} of {len(cases)} cases of equal builds were not explained")
    return sentences


if __name__ == "__main__":
    raise SystemExit(main())
