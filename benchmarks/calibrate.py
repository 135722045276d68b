#!/usr/bin/env python3
"""Measure error rates, power and cost: run harness.py on one build against itself, plain and with slowdowns.

    .venv/bin/python benchmarks/calibrate.py --runs 20 --minutes 120
    .venv/bin/python benchmarks/calibrate.py --table --check

A row of the plan is SHARE:THRESHOLD: the run's --threshold, and the share by which every second case is slowed. The
other cases show false flags. Each run draws its cases from the spec with a seed of its own. Rows and loads take turns
in random order, so that a slow hour affects them alike. Each run adds a line to --data; called again, the command makes
the runs that are missing, and then prints tables in Markdown. Options behind "--" are passed to harness.py.
"""

import argparse
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.bench import ROOT
from benchmarks.calibration_data import CalibrationRun, PlannedRun, decide_again, parse_run, to_line
from benchmarks.calibration_table import load_section, overall_lines, run_lines
from benchmarks.loads import LOADS, QUIET, load
from benchmarks.raw_results import append, commit_of, read
from opduel.commands.entry import DONE, INCOMPLETE, run_command
from opduel.commands.option_types import positive, seed, share
from opduel.commands.options import Parser
from opduel.comparator.calibration import evaluate
from opduel.driver.builds import BuildCache, resolve_build
from opduel.frameworks import get_framework
from opduel.harness.specs import find_spec, load_spec
from opduel.records import Report, RunError, UsageError
from opduel.reporters import read_report

PLAN = ("0:2%", "0:2%", "10%:2%", "5%:2%", "2%:0.5%", "1%:0.25%", "0.5%:0.1%")
DATA = ROOT / "benchmarks" / "results" / "calibration.jsonl"
MOST_FAILURES = 3  # runs in a row without a result, after which the calibration ends
WRONG_USAGE = 2  # harness.py's exit code


@dataclass(frozen=True)
class Settings:
    """The options of the command line; --help describes them."""

    build: str
    installations: Path | None
    spec: str
    sample: int
    runs: int
    minutes: float
    loads: Sequence[str]
    plan: Sequence[tuple[float, float]]
    data: Path
    seed: int
    table: bool
    short: bool
    check: bool
    further: Sequence[str]

    @property
    def build_label(self) -> str:
        """What --data calls the build."""
        return f"{self.build}, installed twice" if self.installations else self.build

    @property
    def only_prints(self) -> bool:
        """Whether nothing is run."""
        return self.table or self.short


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code: 0 done, 2 wrong usage, 3 some runs left no result."""
    return run_command("calibrate.py", lambda: calibrate(Settings(**vars(_parser().parse_args(arguments)))))


def calibrate(settings: Settings) -> int:
    """Make the runs that are missing and print the tables; return the exit code."""
    planned = plan_runs(settings.plan, settings.loads, settings.runs, settings.seed)
    complete = settings.only_prints or make_missing_runs(planned, settings)
    runs = [run for run in recorded_runs(settings) if settings.only_prints or run.planned in planned]
    if not runs:
        raise UsageError(f"--data {settings.data}: holds no run of the plan: leave --table, --short and --minutes out")
    lines = [*overall_lines(runs), "", *run_lines(runs)] if settings.short else table_lines(runs, settings)
    print("\n".join(lines))
    if settings.check:
        print("\n".join(["", *check_verdicts(runs)]))
    return DONE if complete else INCOMPLETE


def seed_of(planned: PlannedRun, base: int) -> int:
    """Return the run's seed, which doesn't depend on the rest of the plan."""
    return random.Random(f"{base} {planned.name}").getrandbits(32)


def plan_runs(rows: Sequence[tuple[float, float]], loads: Sequence[str], runs: int, base: int) -> list[PlannedRun]:
    """Return every row beside every load in random order, ``runs`` times over, so that all have equally many runs
    wherever the plan is stopped. A row that is named twice has two runs each time."""
    rng = random.Random(f"order {base}")
    combinations = [(inject, threshold, load) for inject, threshold in rows for load in loads]
    counts: Counter[tuple[float, float, str]] = Counter()
    planned = []
    for _ in range(runs):
        for combination in rng.sample(combinations, len(combinations)):
            counts[combination] += 1
            inject, threshold, load = combination
            planned.append(PlannedRun(inject, threshold, counts[combination], load))
    return planned


def recorded_runs(settings: Settings) -> list[CalibrationRun]:
    """Return the runs in --data.

    Raises:
        UsageError: the file is of another build, spec or options, or unreadable.
    """
    runs = read(settings.data, parse_run)
    subject = (settings.build_label, settings.spec, tuple(settings.further))
    for run in runs:
        if run.subject != subject:
            build, spec, options = run.subject
            raise UsageError(f"--data {settings.data}: is of {' '.join([build, spec, *options])}: give another file")
    return runs


def make_missing_runs(planned: Sequence[PlannedRun], settings: Settings) -> bool:
    """Make the runs that --data lacks, as long as there is time; return whether it has all of them then.

    Raises:
        RunError: several runs in a row left no result.
    """
    deadline = time.monotonic() + 60 * settings.minutes
    recorded = {run.planned for run in recorded_runs(settings)}
    missing = [run for run in planned if run not in recorded]
    builds = builds_of_sides(settings) if missing else ("", "")
    failures_in_a_row = failures = 0
    for number, run in enumerate(missing, start=1):
        if time.monotonic() >= deadline:
            return False
        report = make_run(run, settings, builds)
        if report:
            failures_in_a_row = 0
            print(f"{number} of {len(missing)}, {run.name}: {summary(report)}", file=sys.stderr, flush=True)
        else:
            failures += 1
            failures_in_a_row += 1
        if failures_in_a_row == MOST_FAILURES:
            raise RunError(f"{MOST_FAILURES} runs in a row left no result; print the recorded ones with --table")
    return not failures


def builds_of_sides(settings: Settings) -> tuple[str, str]:
    """Return control and treatment as harness.py takes them: a release twice, or the folders of two environments with
    its wheels, which share no file.

    Raises:
        OpduelError: they can't be installed.
    """
    if not settings.installations:
        return settings.build, settings.build
    framework = get_framework(load_spec(find_spec(settings.spec)).framework)
    first = resolve_build(settings.build, framework, BuildCache())
    os.environ["UV_LINK_MODE"] = "copy"
    second = resolve_build(settings.build, framework, BuildCache(settings.installations))
    if first.directory is None or second.directory is None:
        raise UsageError(f"--installations: {settings.build} is no release: give one such as mxnet==1.9.1")
    return first.directory, second.directory


def make_run(planned: PlannedRun, settings: Settings, builds: tuple[str, str]) -> Report | None:
    """Run harness.py beside the load, and add the result to --data; return None if there is no complete report.

    Raises:
        UsageError: harness.py was called with wrong options, or the load can't run here.
    """
    command = [sys.executable, str(ROOT / "harness.py"), "-b", settings.spec]
    command += ["--seed", str(seed_of(planned, settings.seed)), "--threshold", str(planned.threshold)]
    command += ["--control", builds[0], "--treatment", builds[1]]
    command += ["--inject", str(planned.inject)] if planned.inject else []
    command += ["--sample", str(settings.sample)] if settings.sample else []
    with tempfile.TemporaryDirectory() as folder:
        command += ["--simple_local_reporter", folder, *settings.further]
        commit = commit_of()
        with load(planned.load):
            process = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        path = Path(folder, "report.json")
        report = read_report(path) if process.returncode != WRONG_USAGE and path.exists() else None
    if report is None or report.run.aborted:
        message = (process.stderr.strip().splitlines() or [f"exit code {process.returncode}"])[-1]
        if process.returncode == WRONG_USAGE:
            raise UsageError(message)
        print(f"{planned.name}: no result: {message}", file=sys.stderr)
        return None
    report = replace(report, control=replace(report.control, requested=settings.build_label))
    append(settings.data, to_line(planned, settings.further, report, commit))
    return report


def summary(report: Report) -> str:
    """Return rates and cost of a run, and its wrong or missing verdicts, in one line."""
    row, *_ = evaluate([report])
    detected, flags = row.detected, row.false_flags
    rates = f"found {detected.count} of {detected.of}, {flags.count} false flags of {flags.of}"
    parts = [f"{rates}, {row.seconds_a_case:.1f} s a case, {row.timed_share:.0%} timed"]
    for comparison in report.comparisons:
        expected = ["regressed"] if comparison.injected else ["unchanged", "not_worse", "not_better", "inconclusive"]
        if comparison.verdict not in expected:
            parts.append(f"{comparison.case} {comparison.verdict} {comparison.ratio or math.nan:.3f}")
    return "; ".join(parts)


def table_lines(runs: Sequence[CalibrationRun], settings: Settings) -> list[str]:
    """Return what the runs are of, and a section for each load."""
    hosts = Counter(f"{run.report.host.cpu_model}, {run.report.host.logical_cpus} CPUs" for run in runs)
    names = [f"{host}{f' ({count} runs)' if len(hosts) > 1 else ''}" for host, count in hosts.items()]
    control = "a second installation" if settings.installations else "itself"
    lines = [f"{settings.build} against {control}, {settings.spec}, on {' and '.join(names)}"]
    for name in LOADS:
        beside_load = [run for run in runs if run.planned.load == name]
        lines += load_section(name, beside_load) if beside_load else []
    return lines


def check_verdicts(runs: Sequence[CalibrationRun]) -> list[str]:
    """Return how many verdicts the comparator decides differently today, and a line for each of them."""
    pairs = [(run.planned.name, *pair) for run in runs for pair in decide_again(run)]
    changes = [
        f"- {name}, {recorded.case}: {again.verdict}, not {recorded.verdict}"
        for name, recorded, again in pairs
        if again.verdict != recorded.verdict
    ]
    return [f"Verdicts made again from the samples: {len(pairs)}, of which {len(changes)} differ.", "", *changes]


def _plan_row(text: str) -> tuple[float, float]:
    """Parse ``5%:2%`` into (0.05, 0.02)."""
    inject, colon, threshold = text.partition(":")
    if not colon:
        raise argparse.ArgumentTypeError(f"{text!r} is not SHARE:THRESHOLD: write 5%:2%")
    return share(inject), share(threshold)


def _parser() -> Parser:
    parser = Parser(prog="calibrate.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="mxnet==1.9.1", help="on both sides (default %(default)s)")
    parser.add_argument(
        "--installations",
        type=Path,
        nargs="?",
        const=BuildCache().directory.with_name("second-installations"),
        metavar="FOLDER",
        help="compare --build, a release, with a second installation in this build cache (default %(const)s)",
    )
    parser.add_argument("--spec", default="all", help="name of a spec (default %(default)s)")
    parser.add_argument(
        "--sample", type=int, default=40, help="cases of each run, drawn at random; 0: all (default %(default)s)"
    )
    parser.add_argument("--runs", type=positive, default=20, help="of each row and load (default %(default)s)")
    parser.add_argument("--minutes", type=float, default=math.inf, help="no run begins later (default: no limit)")
    parser.add_argument("--loads", nargs="+", choices=LOADS, default=[QUIET], help="beside the runs (default quiet)")
    parser.add_argument(
        "--plan",
        type=_plan_row,
        nargs="+",
        default=[_plan_row(row) for row in PLAN],
        metavar="SHARE:THRESHOLD",
        help=f"default {' '.join(PLAN)}".replace("%", "%%"),
    )
    parser.add_argument("--data", type=Path, default=DATA, metavar="FILE", help=f"default {DATA.relative_to(ROOT)}")
    parser.add_argument("--seed", type=seed, default=1, help="of the order and of all runs (default %(default)s)")
    parser.add_argument("--table", action="store_true", help="run nothing; print the tables of all recorded runs")
    parser.add_argument("--short", action="store_true", help="run nothing; print rates over all recorded runs")
    parser.add_argument("--check", action="store_true", help="decide again from the samples, and compare the verdicts")
    parser.add_argument("further", nargs="*", metavar="-- OPTION", help="options of harness.py")
    return parser


if __name__ == "__main__":
    sys.exit(main())
