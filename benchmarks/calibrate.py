#!/usr/bin/env python3
"""Does it cry wolf, does it miss, what does it cost? Runs harness.py on one build against itself, plain and slowed.

    .venv/bin/python benchmarks/calibrate.py --runs 20 --minutes 120
    .venv/bin/python benchmarks/calibrate.py --table --check --svg docs/explanation/calibration.svg

A row of the plan is SHARE:THRESHOLD: that much is injected into every second case, and the run's --threshold is the
second.  The other cases are evidence on false flags.  Each run has a seed of its own, with which it draws its cases
from the spec.  All rows and loads take turns in random order, so that a slow hour hits them alike.  Each run adds a
line to --data; called again, only missing ones are made, and with --table none: the tables (Markdown, standard output)
are of what is there.  What stands behind "--" goes to harness.py.

--installations: against a second installation of the same wheels, in an environment at another path.
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
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.calibration_data import Step, Trial, line_of, noisiest, read, single_pairs, verdicts_again
from benchmarks.calibration_table import (
    markdown,
    missed_lines,
    missed_table,
    neighbours_lines,
    overall_lines,
    pairs_line,
    short_table,
)
from benchmarks.loads import LOADS, QUIET, load
from benchmarks.raw_results import ROOT, append, commit_of
from opduel.commands.entry import DONE, INCOMPLETE, run_command
from opduel.commands.option_types import positive, seed, share
from opduel.commands.options import Parser
from opduel.comparator.calibration import evaluate
from opduel.driver.builds import BuildCache, resolve_build
from opduel.frameworks import get_framework
from opduel.harness.specs import find_spec, load_spec
from opduel.records import FLAGGED, Comparison, Report, RunError, UsageError
from opduel.reporters import read_report

PLAN = ("0:2%", "0:2%", "10%:2%", "5%:2%", "2%:0.5%", "1%:0.25%", "0.5%:0.1%")
DATA = ROOT / "benchmarks" / "results" / "calibration.jsonl"
FAILED_RUNS = 3  # in a row, and the calibration is given up


def seed_of(step: Step, base: int) -> int:
    """Its own, whatever else is in the plan."""
    return random.Random(f"{base} {step.name}").getrandbits(32)


def plan_steps(rows: Sequence[tuple[float, float]], loads: Sequence[str], runs: int, base: int) -> list[Step]:
    """Every row under every load once, in random order, then again: wherever it is aborted, the rows are even. A row
    that is named twice has two runs each time."""
    rng = random.Random(f"order {base}")
    once = [(inject, threshold, load) for inject, threshold in rows for load in loads]
    made: Counter[tuple[float, float, str]] = Counter()
    steps = []
    for _ in range(runs):
        for row in rng.sample(once, len(once)):
            made[row] += 1
            inject, threshold, load = row
            steps.append(Step(inject, threshold, made[row], load))
    return steps


def plan_row(text: str) -> tuple[float, float]:
    """``5%:2%`` -> (0.05, 0.02)."""
    inject, colon, threshold = text.partition(":")
    if not colon:
        raise argparse.ArgumentTypeError(f"{text!r} is not SHARE:THRESHOLD: write 5%:2%")
    return share(inject), share(threshold)


def kept(options: argparse.Namespace) -> dict[Step, Trial]:
    """What --data has, by step.

    Raises:
        UsageError: it is of another build, spec or suite, or of runs with other options; its runs at a threshold
            differ in their rounds; or it is unreadable.
    """
    trials = read(options.data)
    suites = [trial.subject for trial in trials if trial.report.run.suite]  # what it is called is known from a run
    subject = options.spec if options.suite is None else next(iter(suites), "a suite")
    ours = (name_of_build(options), subject, tuple(options.further))
    most: dict[float, int | None] = {}
    for trial in trials:
        if trial.of != ours:
            *others, further = trial.of
            raise UsageError(f"--data {options.data}: is of {' '.join([*others, *further])}: give another file")
        rounds = most.setdefault(trial.step.threshold, trial.report.configuration.max_rounds)
        if rounds != trial.report.configuration.max_rounds:
            both = f"{rounds} and {trial.report.configuration.max_rounds}"
            words = f"has runs with --max_rounds {both} at the threshold {trial.step.threshold:g}"
            raise UsageError(f"--data {options.data}: {words}: keep them in two files")
    return {trial.step: trial for trial in trials}


def name_of_build(options: argparse.Namespace) -> str:
    """What the runs are of, as --data has it."""
    return f"{options.build}, installed twice" if options.installations else options.build


def sides_of(options: argparse.Namespace) -> tuple[str, str]:
    """The builds of both sides as harness.py takes them: a release, or the folders of two environments with its wheels,
    in which no file is the same one.

    Raises:
        OpduelError: they can't be installed.
    """
    if not options.installations:
        return options.build, options.build
    framework = get_framework(load_spec(find_spec(options.spec)).framework)
    first = resolve_build(options.build, framework, BuildCache())
    os.environ["UV_LINK_MODE"] = "copy"
    second = resolve_build(options.build, framework, BuildCache(options.installations))
    if first.directory is None or second.directory is None:
        raise UsageError(f"--installations: {options.build} is no release: give one such as mxnet==1.9.1")
    return first.directory, second.directory


def as_if_trusted(report: Report) -> Report:
    """The report with the verdicts that it held back: what the statistics say when the host was busy."""
    told = [replace(one, verdict=one.held_back) if one.held_back else one for one in report.comparisons]
    return replace(report, comparisons=told)


def measure(step: Step, options: argparse.Namespace, sides: tuple[str, str]) -> Report | None:
    """One run of harness.py, as a user would, added to --data; None when it left no report that counts. ``sides``: the
    builds of control and treatment.

    Raises:
        UsageError: harness.py took it for wrong usage, with its words; or the load can't run here.
    """
    command = [sys.executable, str(ROOT / "harness.py"), "--seed", str(seed_of(step, options.seed))]
    command += ["-b", options.spec] if options.suite is None else ["--suite", options.suite]
    command += ["--control", sides[0], "--treatment", sides[1], "--threshold", str(step.threshold)]
    command += ["--inject", str(step.inject)] if step.inject else []
    command += ["--sample", str(options.sample)] if options.sample else []
    with tempfile.TemporaryDirectory() as folder:
        command += ["--simple_local_reporter", folder, *options.further]
        commit = commit_of()
        with load(step.load):
            done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        path = Path(folder, "report.json")
        report = read_report(path) if done.returncode != 2 and path.exists() else None
    if report is None or report.run.aborted:
        words = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        if done.returncode == 2:
            raise UsageError(words)
        print(f"{step.name}: no result: {words}", file=sys.stderr)
        return None
    report = replace(report, control=replace(report.control, requested=name_of_build(options)))
    append(options.data, line_of(step, options.further, report, commit))
    return report


def carry_out(steps: Sequence[Step], options: argparse.Namespace) -> bool:
    """Make the runs that are missing, as long as there is time; returns whether all are there.

    Raises:
        RunError: several in a row left nothing.
    """
    ends = time.monotonic() + 60 * options.minutes
    found = kept(options)
    missing = [step for step in steps if step not in found]
    sides = sides_of(options) if missing else ("", "")
    failures = lost = 0
    for number, step in enumerate(missing, start=1):
        if time.monotonic() >= ends:
            return False
        report = measure(step, options, sides)
        failures = 0 if report else failures + 1
        lost += report is None
        if failures == FAILED_RUNS:
            raise RunError(f"{FAILED_RUNS} runs in a row left no result; what is there: --table")
        if report:
            print(f"{number} of {len(missing)}, {step.name}: {told(report)}", file=sys.stderr, flush=True)
    return not lost


def told(report: Report) -> str:
    """A run in one line: its rows, then whatever was not as it should be."""
    parts = []
    for row in evaluate([report]):
        found = f"found {row.found.count} of {row.found.of}, " if row.found.of else ""
        flags = f"{row.false_flags.count} false flags of {row.false_flags.of}"
        parts.append(f"{found}{flags}, {row.seconds_a_case:.1f} s a case, {row.timed_share:.0%} timed")
    for one in report.comparisons:
        right = one.verdict == "regressed" if one.injected else one.verdict not in (*FLAGGED, "failed")
        if not right:
            parts.append(f"{one.case} {one.verdict}" + (f" {one.ratio:.3f}" if one.ratio else ""))
    return "; ".join(parts)


def parser() -> Parser:
    """The command line."""
    made = Parser(prog="calibrate.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--build", default="mxnet==1.9.1", help="on both sides (default %(default)s)")
    made.add_argument(
        "--installations",
        type=Path,
        nargs="?",
        const=BuildCache().directory.with_name("second-installations"),
        metavar="FOLDER",
        help="build the treatment into this build cache (default %(const)s), where --build is a release",
    )
    what = made.add_mutually_exclusive_group()
    what.add_argument("--spec", default="all", help="name of a spec (default %(default)s)")
    what.add_argument("--suite", help="an asv suite in place of a spec, as harness.py takes it")
    made.add_argument(
        "--sample", type=int, default=40, help="cases of each run, drawn at random; 0: all (default %(default)s)"
    )
    made.add_argument("--runs", type=positive, default=20, help="of each row and load (default %(default)s)")
    made.add_argument("--minutes", type=float, default=math.inf, help="no run begins later (default: no limit)")
    made.add_argument("--loads", nargs="+", choices=LOADS, default=[QUIET], help="beside the runs (default quiet)")
    made.add_argument(
        "--plan",
        type=plan_row,
        nargs="+",
        metavar="SHARE:THRESHOLD",
        help=f"default {' '.join(PLAN)}".replace("%", "%%"),
    )
    made.add_argument("--data", type=Path, default=DATA, metavar="FILE", help=f"default {DATA.relative_to(ROOT)}")
    made.add_argument(
        "--without",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="leave out the runs whose draw of cases is in one of these files, too; run nothing",
    )
    made.add_argument("--seed", type=seed, default=1, help="of the order and of all runs (default %(default)s)")
    made.add_argument("--table", action="store_true", help="run nothing; the table is of all that is there")
    made.add_argument("--short", action="store_true", help="run nothing; only what all that is there comes to")
    made.add_argument("--check", action="store_true", help="make all verdicts again from the samples, and compare them")
    made.add_argument("--anyway", action="store_true", help="count verdicts that were held back as what they would be")
    made.add_argument(
        "--noisiest",
        type=positive,
        metavar="N",
        help="run nothing; print, as options of peers.py, the cases whose single process pairs on the quiet machine "
        "differ most where nothing was slowed",
    )
    made.add_argument(
        "--missed", action="store_true", help="run nothing; print every slowed case that was missed, and its noise"
    )
    made.add_argument("--svg", type=Path, metavar="FILE", help="draw the rates (needs matplotlib)")
    made.add_argument("further", nargs="*", metavar="-- OPTION", help="options of harness.py")
    return made


def differ(then: Comparison, now: Comparison) -> bool:
    """Whether the two say, or hold back, different verdicts."""
    return (then.verdict, then.held_back) != (now.verdict, now.held_back)


def in_words(one: Comparison) -> str:
    """``regressed``, or ``inconclusive (regressed held back)``."""
    return f"{one.verdict} ({one.held_back} held back)" if one.held_back else one.verdict


def check(trials: Sequence[Trial]) -> list[str]:
    """How many verdicts the comparator makes differently now: a line, and one for each of them."""
    differing, count = [], 0
    for trial in trials:
        for then, now in verdicts_again(trial):
            count += 1
            if differ(then, now):
                differing.append(f"- {trial.step.name}, {then.case}: {in_words(now)}, not {in_words(then)}")
    return [f"Verdicts made again from the samples: {count}, of which {len(differing)} differ.", "", *differing]


def draw_of(trial: Trial) -> tuple[str, object]:
    """Runs for which it is the same have the same cases, and the same slowed half."""
    return trial.subject, trial.report.run.get("seed")


def wanted(options: argparse.Namespace, steps: Sequence[Step] | None) -> list[Trial]:
    """The runs that count: of these steps, or all, but for those of --without; verdicts as --anyway says.

    Raises:
        UsageError: as ``kept``; or a file of --without is not there, or can't be read.
    """
    elsewhere = {draw_of(trial) for path in options.without for trial in read(path, "--without")}
    return [
        replace(trial, report=as_if_trusted(trial.report)) if options.anyway else trial
        for step, trial in kept(options).items()
        if (steps is None or step in steps) and draw_of(trial) not in elsewhere
    ]


def calibrate(arguments: Sequence[str] | None) -> int:
    """Run what is missing, print the tables, draw."""
    options = parser().parse_args(arguments)
    missing = next((path for path in options.without if not path.is_file()), None)
    if missing:
        raise UsageError(f"--without {missing}: there is no such file: name one that is there")
    if options.installations and options.suite:
        raise UsageError("--installations: is for a spec: leave --suite out")
    rows = options.plan or [plan_row(text) for text in PLAN]
    steps = plan_steps(rows, options.loads, options.runs, options.seed)
    if options.noisiest:
        quiet = [trial for trial in wanted(options, None) if trial.step.load == QUIET]
        for case in noisiest(single_pairs(quiet), options.noisiest):
            print(f"--operators=[{case[0]}]{case[1:]}")  # a pattern, which no other id has as a part
        return DONE
    reads = next((f"--{name}" for name in ("missed", "without", "short", "table") if getattr(options, name)), "")
    complete = reads or carry_out(steps, options)
    trials = wanted(options, None if reads else steps)
    if not trials:
        raise UsageError(f"--data {options.data}: holds no run of the plan: leave {reads or '--minutes'} out")
    if options.missed:
        print("\n".join(missed_table(trials)))
        return DONE
    print("\n".join(short_lines(trials) if options.short else table_lines(trials, options)))
    if options.check:
        print("\n".join(["", *check(trials)]))
    if options.svg:
        from benchmarks.calibration_figure import draw

        draw(evaluate([trial.report for trial in trials if trial.step.load == QUIET]), options.svg)
    return DONE if complete else INCOMPLETE


def short_lines(trials: Sequence[Trial]) -> list[str]:
    """What they come to."""
    return [*short_table(trials), "", *overall_lines(trials)]


def table_lines(trials: Sequence[Trial], options: argparse.Namespace) -> list[str]:
    """What they are of, and for each load its table and what was missed."""
    hosts = Counter(f"{one.report.host['cpu_model']}, {one.report.host['logical_cpus']} CPUs" for one in trials)
    counted = [f"{name}{f' ({count} runs)' if len(hosts) > 1 else ''}" for name, count in hosts.items()]
    other = "a second installation" if options.installations else "itself"
    lines = [f"{options.build} against {other}, {trials[0].subject}, on {' and '.join(counted)}"]
    for name in LOADS:
        of_load = [trial for trial in trials if trial.step.load == name]
        if of_load:
            reports = [trial.report for trial in of_load]
            below = [pairs_line(of_load), "", *neighbours_lines(reports), *missed_lines(reports)]
            lines += ["", f"Load: {name}", "", *markdown(evaluate(reports)), "", *below]
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0 done, 2 wrong usage, 3 some runs left no result."""
    return run_command("calibrate.py", lambda: calibrate(arguments))


if __name__ == "__main__":
    sys.exit(main())
