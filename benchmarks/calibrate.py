#!/usr/bin/env python3
"""Does it cry wolf, does it miss, what does it cost? Runs harness.py on one build against itself, plain and slowed.

    .venv/bin/python benchmarks/calibrate.py --runs 10 --folder reports/calibration \\
        --svg docs/explanation/calibration.svg

A row of the plan is SHARE:THRESHOLD: that much is injected into every second case, and the run's --threshold is the
second.  The other cases are evidence on false flags.  All rows take turns in random order, so that a slow hour hits
them alike.  Each run leaves a report in --folder; called again, only missing ones are run, and with --table none: the
table (Markdown, standard output) is of what is there.  What stands behind "--" goes to harness.py.
"""

import argparse
import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from opduel.commands.entry import DONE, INCOMPLETE, run_command  # noqa: E402
from opduel.commands.option_types import positive, seed, share  # noqa: E402
from opduel.commands.options import Parser  # noqa: E402
from opduel.comparator.calibration import CONFIDENCE, Rate, Row, evaluate, leanings  # noqa: E402
from opduel.records import Report, RunError, UsageError  # noqa: E402
from opduel.reporters import read_report  # noqa: E402

PLAN = ("0:2%", "10%:2%", "5%:2%", "2%:0.5%", "1%:0.5%", "1%:0.25%", "0.5%:0.25%")
FAILED_RUNS = 3  # in a row, and the calibration is given up
COLUMNS = (
    "injected | threshold | runs | comparisons | found | `unchanged`, wrongly | false flags | false flags a run | "
    "`unchanged`, rightly | s a case | timed"
)


@dataclass(frozen=True)
class Step:
    """One run to make: ``inject`` and ``threshold`` are shares; ``number`` counts the runs of a row from 1."""

    inject: float
    threshold: float
    number: int

    @property
    def name(self) -> str:
        """Of its folder."""
        return f"{self.inject * 100:g}%-at-{self.threshold * 100:g}%-{self.number}"

    def seed(self, base: int) -> int:
        """Its own, whatever else is in the plan."""
        return random.Random(f"{base} {self.name}").getrandbits(32)


def plan_steps(rows: Sequence[tuple[float, float]], runs: int, base: int) -> list[Step]:
    """Every row once, in random order, then every row again: wherever it is aborted, the rows are even."""
    rng = random.Random(f"order {base}")
    return [
        Step(inject, threshold, number)
        for number in range(1, runs + 1)
        for inject, threshold in rng.sample(rows, len(rows))
    ]


def plan_row(text: str) -> tuple[float, float]:
    """``5%:2%`` -> (0.05, 0.02)."""
    inject, colon, threshold = text.partition(":")
    if not colon:
        raise argparse.ArgumentTypeError(f"{text!r} is not SHARE:THRESHOLD: write 5%:2%")
    return share(inject), share(threshold)


def kept(step: Step, options: argparse.Namespace) -> Report | None:
    """The step's report, if there is a finished one.

    Raises:
        UsageError: it is of another build or spec, or unreadable.
    """
    path = options.folder / step.name / "report.json"
    if not path.exists():
        return None
    report = read_report(path)
    if {report.control.requested, report.treatment.requested} != {options.build} or report.run.spec != options.spec:
        raise UsageError(f"--folder {options.folder}: {step.name} is of another build or spec: give another folder")
    if report.run.aborted:
        return None
    return as_if_trusted(report) if options.anyway else report


def as_if_trusted(report: Report) -> Report:
    """The report with the verdicts that it held back: what the statistics say when the host was busy."""
    told = [replace(one, verdict=one.held_back) if one.held_back else one for one in report.comparisons]
    return replace(report, comparisons=told)


def measure(step: Step, options: argparse.Namespace) -> Report | None:
    """One run of harness.py, as a user would; None when it left no report that counts.

    Raises:
        UsageError: harness.py took it for wrong usage; with its words.
    """
    command = [sys.executable, str(ROOT / "harness.py"), "-b", options.spec, "--seed", str(step.seed(options.seed))]
    command += ["--control", options.build, "--treatment", options.build, "--threshold", str(step.threshold)]
    command += ["--inject", str(step.inject)] if step.inject else []
    command += ["--simple_local_reporter", str(options.folder / step.name), *options.further]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    report = kept(step, options) if done.returncode != 2 else None
    if report is None:
        words = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        if done.returncode == 2:
            raise UsageError(words)
        print(f"{step.name}: no result: {words}", file=sys.stderr)
    return report


def carry_out(steps: Sequence[Step], options: argparse.Namespace) -> bool:
    """Make the runs that are missing; returns whether all are there.

    Raises:
        RunError: several in a row left nothing.
    """
    missing = [step for step in steps if kept(step, options) is None]
    failures = lost = 0
    for number, step in enumerate(missing, start=1):
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
            f"{row.seconds_a_case:.2g}",
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


def leaning_lines(reports: Sequence[Report], shown: int = 5) -> list[str]:
    """The cases whose estimates, with nothing injected, lie most to one side of 1."""
    found = leanings(reports)
    lines = [f"Estimates above 1 with nothing injected, the {shown} most one-sided of {len(found)} cases:", ""]
    return lines + [f"- {one.case}: {one.above.count} of {one.above.of}, p {one.p_value:.2g}" for one in found[:shown]]


def parser() -> Parser:
    """The command line."""
    made = Parser(prog="calibrate.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--build", default="mxnet==1.9.1", help="on both sides (default %(default)s)")
    made.add_argument("--spec", default="calibration", help="name of a spec (default %(default)s)")
    made.add_argument("--runs", type=positive, default=10, help="of each row (default %(default)s)")
    made.add_argument(
        "--plan",
        type=plan_row,
        nargs="+",
        metavar="SHARE:THRESHOLD",
        help=f"default {' '.join(PLAN)}".replace("%", "%%"),
    )
    made.add_argument("--folder", type=Path, default=Path("reports/calibration"), help="default %(default)s")
    made.add_argument("--seed", type=seed, default=1, help="of the order and of all runs (default %(default)s)")
    made.add_argument("--table", action="store_true", help="run nothing; the table is of what is there")
    made.add_argument("--anyway", action="store_true", help="count verdicts that were held back as what they would be")
    made.add_argument("--svg", type=Path, metavar="FILE", help="draw the rates (needs matplotlib)")
    made.add_argument("further", nargs="*", metavar="-- OPTION", help="options of harness.py")
    return made


def calibrate(arguments: Sequence[str] | None) -> int:
    """Run what is missing, print the table, draw."""
    options = parser().parse_args(arguments)
    rows = options.plan or [plan_row(text) for text in PLAN]
    steps = plan_steps(rows, options.runs, options.seed)
    complete = options.table or carry_out(steps, options)
    reports = [report for step in steps if (report := kept(step, options))]
    if not reports:
        raise UsageError(f"--folder {options.folder}: holds no run of the plan: leave --table out")
    evaluated = evaluate(reports)
    host = reports[0].host
    print(f"{options.build} against itself, {options.spec}, on {host['cpu_model']}, {host['logical_cpus']} CPUs\n")
    print("\n".join([*markdown(evaluated), "", *leaning_lines(reports)]))
    if options.svg:
        from benchmarks.calibration_figure import draw

        draw(evaluated, options.svg)
    return DONE if complete else INCOMPLETE


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0 done, 2 wrong usage, 3 some runs left no result."""
    return run_command("calibrate.py", lambda: calibrate(arguments))


if __name__ == "__main__":
    sys.exit(main())
