#!/usr/bin/env python3
"""Does it cry wolf, does it miss, what does it cost? Runs harness.py on one build against itself, plain and slowed.

    .venv/bin/python benchmarks/calibrate.py --runs 20 --minutes 120
    .venv/bin/python benchmarks/calibrate.py --table --check --svg docs/explanation/calibration.svg

A row of the plan is SHARE:THRESHOLD: that much is injected into every second case, and the run's --threshold is the
second.  The other cases are evidence on false flags.  Each run has a seed of its own, with which it draws its cases
from the spec.  All rows and loads take turns in random order, so that a slow hour hits them alike.  Each run adds a
line to --data; called again, only missing ones are made, and with --table none: the tables (Markdown, standard output)
are of what is there.  What stands behind "--" goes to harness.py.
"""

import argparse
import math
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.calibration_data import (  # noqa: E402
    Step,
    Trial,
    append,
    line_of,
    noisiest,
    read,
    single_pairs,
    verdicts_again,
)
from benchmarks.loads import LOADS, QUIET, load  # noqa: E402
from opduel.commands.entry import DONE, INCOMPLETE, run_command  # noqa: E402
from opduel.commands.option_types import positive, seed, share  # noqa: E402
from opduel.commands.options import Parser  # noqa: E402
from opduel.comparator.calibration import CONFIDENCE, Rate, Row, evaluate  # noqa: E402
from opduel.records import FLAGGED, Report, RunError, UsageError  # noqa: E402
from opduel.records.measurement import STAGES  # noqa: E402
from opduel.reporters import read_report  # noqa: E402

PLAN = ("0:2%", "0:2%", "10%:2%", "5%:2%", "2%:0.5%", "1%:0.25%", "0.5%:0.1%")
DATA = ROOT / "benchmarks" / "results" / "calibration.jsonl"
APART = (0.01, 0.02, 0.05)  # shares
FAILED_RUNS = 3  # in a row, and the calibration is given up
COLUMNS = (
    "injected | threshold | runs | comparisons | found | `unchanged`, wrongly | false flags | false flags a run | "
    "`unchanged`, rightly | withheld | rounds a case | s a case | s, the median case | timed"
)


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
        UsageError: it is of another build or spec, or of runs with other options; its runs at a threshold differ in
            their rounds; or it is unreadable.
    """
    trials = read(options.data)
    ours = (options.build, options.spec, tuple(options.further))
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


def as_if_trusted(report: Report) -> Report:
    """The report with the verdicts that it held back: what the statistics say when the host was busy."""
    told = [replace(one, verdict=one.held_back) if one.held_back else one for one in report.comparisons]
    return replace(report, comparisons=told)


def measure(step: Step, options: argparse.Namespace) -> Report | None:
    """One run of harness.py, as a user would, added to --data; None when it left no report that counts.

    Raises:
        UsageError: harness.py took it for wrong usage, with its words; or the load can't run here.
    """
    command = [sys.executable, str(ROOT / "harness.py"), "-b", options.spec, "--seed", str(seed_of(step, options.seed))]
    command += ["--control", options.build, "--treatment", options.build, "--threshold", str(step.threshold)]
    command += ["--inject", str(step.inject)] if step.inject else []
    command += ["--sample", str(options.sample)] if options.sample else []
    with tempfile.TemporaryDirectory() as folder:
        command += ["--simple_local_reporter", folder, *options.further]
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
    append(options.data, line_of(step, options.further, report))
    return report


def carry_out(steps: Sequence[Step], options: argparse.Namespace) -> bool:
    """Make the runs that are missing, as long as there is time; returns whether all are there.

    Raises:
        RunError: several in a row left nothing.
    """
    ends = time.monotonic() + 60 * options.minutes
    found = kept(options)
    missing = [step for step in steps if step not in found]
    failures = lost = 0
    for number, step in enumerate(missing, start=1):
        if time.monotonic() >= ends:
            return False
        report = measure(step, options)
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
        right = ("regressed",) if one.injected else ("unchanged", "inconclusive")
        if one.verdict not in right:
            parts.append(f"{one.case} {one.verdict}" + (f" {one.ratio:.3f}" if one.ratio else ""))
    return "; ".join(parts)


def percent(value: float) -> str:
    """A share to three digits."""
    return f"{value * 100:.3g} %"


def rate_cell(rate: Rate) -> str:
    """``39 of 40, 97.5 % (86.8 to 99.9 %)``; empty for nothing."""
    if rate.share is None:
        return ""
    low, high = rate.interval
    return f"{rate.count} of {rate.of}, {percent(rate.share)} ({low * 100:.3g} to {percent(high)})"


def markdown(rows: Sequence[Row]) -> list[str]:
    """The table's lines, and below it whatever is not in its columns."""
    lines = [f"| {COLUMNS} |", "|" + "---|" * len(COLUMNS.split(" | "))]
    for row in rows:
        mean, low, high = row.false_flags_a_run
        cells = (
            percent(row.share) if row.share else "nothing",
            percent(row.threshold),
            str(row.runs),
            str(row.found.of + row.false_flags.of),
            rate_cell(row.found),
            rate_cell(row.missed_as_unchanged),
            rate_cell(row.false_flags),
            f"{mean:.2g} ({low:.2g} to {high:.2g})",
            rate_cell(row.cleared),
            rate_cell(row.withheld),
            f"{row.rounds_a_case:.3g}",
            f"{row.seconds_a_case:.2g}",
            f"{row.median_case_s:.2g}",
            f"{row.timed_share:.0%}".replace("%", " %"),
        )
        lines.append(f"| {' | '.join(cells)} |")
    totals = {
        "failed comparisons": sum(row.failed for row in rows),
        "slowed cases called improved": sum(row.backwards for row in rows),
        "runs not complete": sum(row.unfinished for row in rows),
        "runs held back": sum(row.held_back for row in rows),
    }
    return [*lines, "", f"Intervals: exact, {CONFIDENCE:.0%}. " + ", ".join(f"{k}: {v}" for k, v in totals.items())]


def pairs_line(trials: Iterable[Trial]) -> str:
    """What the first process pair of each comparison would say alone, where nothing was slowed."""
    ratios = [abs(ratio) for trial in trials for ratio, *_ in single_pairs([trial]).values()]
    beyond = [
        f"{limit * 100:g} %: {rate_cell(Rate(sum(one > math.log1p(limit) for one in ratios), len(ratios)))}"
        for limit in APART
        if ratios
    ]
    return f"The first process pair alone, of cases that were not slowed, apart by more than {'; '.join(beyond)}"


def missed_lines(reports: Sequence[Report], shown: int = 20) -> list[str]:
    """The slowed cases that were not found, and the false flags, by name."""
    lines = []
    for report in reports:
        share = report.configuration.inject
        for one in report.comparisons:
            slowed = one.injected and share > one.threshold
            if one.verdict in FLAGGED and not (slowed and one.verdict == "regressed"):
                lines.append(f"- flagged, wrongly: {one.case} {one.verdict} ({percent((one.ratio or 1) - 1)})")
            elif slowed and one.verdict not in ("regressed", "failed"):
                lines.append(f"- {percent(share)} missed: {one.case} {one.verdict}")
    counted = Counter(lines)
    told = [f"{line}{f', {times} times' if times > 1 else ''}" for line, times in sorted(counted.items())]
    more = [f"- and {len(told) - shown} more"] if len(told) > shown else []
    return ["Missed or wrong:", "", *told[:shown], *more] if told else []


def missed_table(trials: Iterable[Trial]) -> list[str]:
    """Every slowed case that was not found, with its process pairs: how many at screening and fresh ones, the standard
    deviation of all log ratios, and the median of the fresh ones."""
    lines = []
    for trial in trials:
        step = trial.step
        for one in trial.report.comparisons:
            if step.inject > step.threshold and one.injected and one.verdict not in ("regressed", "failed"):
                ratios = [sample.log_ratio for sample in one.samples]
                fresh = [sample.log_ratio for sample in one.samples if sample.stage != STAGES[0]]
                spread = f"{100 * statistics.stdev(ratios):.2f} %" if len(ratios) > 1 else ""
                median = f"{100 * statistics.median(fresh):.2f} %" if fresh else ""
                counts = (str(len(ratios) - len(fresh)), str(len(fresh)))
                cells = (step.load, percent(step.inject), one.case, one.verdict, *counts, spread, median)
                lines.append(f"| {' | '.join(cells)} |")
    columns = "load | slowed by | case | verdict | pairs at screening | fresh pairs | standard deviation | fresh median"
    return [f"| {columns} |", "|" + "---|" * len(columns.split(" | ")), *sorted(lines)]


def parser() -> Parser:
    """The command line."""
    made = Parser(prog="calibrate.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--build", default="mxnet==1.9.1", help="on both sides (default %(default)s)")
    made.add_argument("--spec", default="all", help="name of a spec (default %(default)s)")
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
    made.add_argument("--seed", type=seed, default=1, help="of the order and of all runs (default %(default)s)")
    made.add_argument("--table", action="store_true", help="run nothing; the table is of what is there")
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


def check(trials: Sequence[Trial]) -> list[str]:
    """How many verdicts the comparator makes differently now: a line, and one for each of them."""
    differing, count = [], 0
    for trial in trials:
        for then, now in verdicts_again(trial):
            count += 1
            said = then.held_back or then.verdict
            if now.verdict != said:
                differing.append(f"- {trial.step.name}, {then.case}: {now.verdict}, not {said}")
    return [f"Verdicts made again from the samples: {count}, of which {len(differing)} differ.", "", *differing]


def calibrate(arguments: Sequence[str] | None) -> int:
    """Run what is missing, print the tables, draw."""
    options = parser().parse_args(arguments)
    rows = options.plan or [plan_row(text) for text in PLAN]
    steps = plan_steps(rows, options.loads, options.runs, options.seed)
    if options.noisiest:
        quiet = [trial for step, trial in kept(options).items() if step.load == QUIET]
        for case in noisiest(single_pairs(quiet), options.noisiest):
            print(f"--operators=[{case[0]}]{case[1:]}")  # a pattern, which no other id has as a part
        return DONE
    reads = "--missed" if options.missed else "--table" if options.table else ""
    complete = reads or carry_out(steps, options)
    trials = [trial for step, trial in kept(options).items() if reads or step in steps]
    if not trials:
        raise UsageError(f"--data {options.data}: holds no run of the plan: leave {reads or '--minutes'} out")
    if options.missed:
        print("\n".join(missed_table(trials)))
        return DONE
    hosts = Counter(f"{one.report.host['cpu_model']}, {one.report.host['logical_cpus']} CPUs" for one in trials)
    counted = [f"{name}{f' ({count} runs)' if len(hosts) > 1 else ''}" for name, count in hosts.items()]
    print(f"{options.build} against itself, {options.spec}, on {' and '.join(counted)}")
    for name in LOADS:
        of_load = [trial for trial in trials if trial.step.load == name]
        if of_load:
            made = [trial.report for trial in of_load]
            reports = [as_if_trusted(one) for one in made] if options.anyway else made
            table, alone = markdown(evaluate(reports)), pairs_line(of_load)
            print("\n".join(["", f"Load: {name}", "", *table, "", alone, "", *missed_lines(reports)]))
    if options.check:
        print("\n".join(["", *check(trials)]))
    if options.svg:
        from benchmarks.calibration_figure import draw

        draw(evaluate([trial.report for trial in trials if trial.step.load == QUIET]), options.svg)
    return DONE if complete else INCOMPLETE


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0 done, 2 wrong usage, 3 some runs left no result."""
    return run_command("calibrate.py", lambda: calibrate(arguments))


if __name__ == "__main__":
    sys.exit(main())
