#!/usr/bin/env python3
"""Measure error rates, power and cost: run harness.py on one build against itself, plain and with slowdowns.

    .venv/bin/python benchmarks/calibrate.py --runs 20
    .venv/bin/python benchmarks/calibrate.py --table --check

A row of the plan is SHARE:THRESHOLD: the run's --threshold, and the share by which every second case is slowed. The
other cases show false flags. Each run draws its cases from all of MXNet's with a seed of its own. Rows and loads take
turns in random order, so that a slow hour affects them alike. Each run adds a line to --data; called again, the command
makes the runs that are missing, and then prints tables in Markdown. Options behind "--" are passed to harness.py.
"""

import argparse
import os
import random
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.bench import MXNET, ROOT, run_harness
from benchmarks.calibration_data import CalibrationRun, PlannedRun, decide_again, parse_run, to_line
from benchmarks.calibration_table import load_section, overall_lines, run_lines
from benchmarks.loads import LOADS, QUIET, load
from benchmarks.raw_results import append, commit_of, read
from opduel.commands.entry import DONE, INCOMPLETE, USAGE, run_command
from opduel.commands.option_types import positive, seed, share
from opduel.commands.options import Parser
from opduel.driver.builds import BuildCache, resolve_build
from opduel.frameworks import get_framework
from opduel.records import UsageError

PLAN = ("0:2%", "0:2%", "10%:2%", "5%:2%", "2%:0.5%", "1%:0.25%", "0.5%:0.1%")
SPEC = "all"
DATA = ROOT / "benchmarks" / "results" / "calibration.jsonl"


@dataclass(frozen=True)
class Settings:
    """The options of the command line; --help describes them."""

    installations: bool
    sample: int
    runs: int
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
        return f"{MXNET}, installed twice" if self.installations else MXNET


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit code: 0 done, 2 wrong usage, 3 some runs left no result."""
    return run_command("calibrate.py", lambda: calibrate(Settings(**vars(_parser().parse_args(arguments)))))


def calibrate(settings: Settings) -> int:
    """Make the runs that are missing and print the tables; return the exit code."""
    planned = plan_runs(settings.plan, settings.loads, settings.runs, settings.seed)
    only_prints = settings.table or settings.short
    is_complete = only_prints or make_missing_runs(planned, settings)
    runs = [run for run in recorded_runs(settings) if only_prints or run.planned in planned]
    if not runs:
        raise UsageError(f"--data {settings.data}: holds no run of the plan: leave --table and --short out")
    lines = [*overall_lines(runs), "", *run_lines(runs)] if settings.short else table_lines(runs, settings)
    print("\n".join([*lines, "", *check_verdicts(runs)] if settings.check else lines))
    return DONE if is_complete else INCOMPLETE


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
        UsageError: the file is of another build or options, or unreadable.
    """
    runs = read(settings.data, parse_run)
    for run in runs:
        if run.subject != (settings.build_label, SPEC, tuple(settings.further)):
            raise UsageError(f"--data {settings.data}: is of {run.subject}: give another file")
    return runs


def make_missing_runs(planned: Sequence[PlannedRun], settings: Settings) -> bool:
    """Make the runs that --data lacks; return whether it has all of them then."""
    recorded = {run.planned for run in recorded_runs(settings)}
    missing = [run for run in planned if run not in recorded]
    builds = builds_of_sides(settings) if missing else ("", "")
    return sum(not make_run(run, settings, builds) for run in missing) == 0


def builds_of_sides(settings: Settings) -> tuple[str, str]:
    """Return control and treatment as harness.py takes them: a release twice, or the folders of two environments with
    its wheels, which share no file.

    Raises:
        OpduelError: they can't be installed.
    """
    if not settings.installations:
        return MXNET, MXNET
    framework, cache = get_framework("mxnet"), BuildCache()
    first = resolve_build(MXNET, framework, cache)
    os.environ["UV_LINK_MODE"] = "copy"
    second = resolve_build(MXNET, framework, BuildCache(cache.directory.with_name("second-installations")))
    return str(first.directory), str(second.directory)


def make_run(planned: PlannedRun, settings: Settings, builds: tuple[str, str]) -> bool:
    """Run harness.py beside the load, and add the result to --data; return whether there is a complete report.

    Raises:
        UsageError: harness.py was called with wrong options, or the load can't run here.
    """
    control, treatment = builds
    options = ["-b", SPEC, "--control", control, "--treatment", treatment, "--sample", str(settings.sample)]
    options += ["--seed", str(seed_of(planned, settings.seed)), "--threshold", str(planned.threshold)]
    options += ["--inject", str(planned.inject)] if planned.inject else []
    commit = commit_of()
    with load(planned.load):
        run = run_harness(*options, *settings.further)
    if run.exit_code == USAGE:
        raise UsageError(run.message)
    if run.report is None or run.report.run.aborted:
        print(f"{planned.name}: no result: {run.message}", file=sys.stderr)
        return False
    report = replace(run.report, control=replace(run.report.control, requested=settings.build_label))
    append(settings.data, to_line(planned, settings.further, report, commit))
    verdicts = Counter(comparison.verdict for comparison in report.comparisons)
    print(f"{planned.name}: {', '.join(f'{count} {verdict}' for verdict, count in verdicts.items())}", file=sys.stderr)
    return True


def table_lines(runs: Sequence[CalibrationRun], settings: Settings) -> list[str]:
    """Return what the runs are of, and a section for each load."""
    hosts = dict.fromkeys(f"{run.report.host.cpu_model}, {run.report.host.logical_cpus} CPUs" for run in runs)
    control = "a second installation" if settings.installations else "itself"
    lines = [f"{MXNET} against {control}, {SPEC}, on {' and '.join(hosts)}"]
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
    add = parser.add_argument
    add("--installations", action="store_true", help="compare with a second installation of the same wheels")
    add("--sample", type=positive, default=40, help="cases of each run, drawn at random (default %(default)s)")
    add("--runs", type=positive, default=20, help="of each row and load (default %(default)s)")
    add("--loads", nargs="+", choices=LOADS, default=[QUIET], help="beside the runs (default quiet)")
    rows = [_plan_row(row) for row in PLAN]
    of_plan = f"default {' '.join(PLAN)}".replace("%", "%%")
    add("--plan", type=_plan_row, nargs="+", default=rows, metavar="SHARE:THRESHOLD", help=of_plan)
    add("--data", type=Path, default=DATA, metavar="FILE", help=f"default {DATA.relative_to(ROOT)}")
    add("--seed", type=seed, default=1, help="of the order and of all runs (default %(default)s)")
    add("--table", action="store_true", help="run nothing; print the tables of all recorded runs")
    add("--short", action="store_true", help="run nothing; print rates over all recorded runs")
    add("--check", action="store_true", help="decide again from the samples, and compare the verdicts")
    add("further", nargs="*", metavar="-- OPTION", help="options of harness.py")
    return parser


if __name__ == "__main__":
    sys.exit(main())
