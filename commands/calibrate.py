"""run_bench.py --calibrate: one build against itself, plain and slowed, and what that says of this machine."""

import contextlib
import dataclasses
import io
import os
import random
import secrets
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from opduel.commands.builds import make_builds, usual_build
from opduel.commands.calibration_text import Outcome, outcome_lines, smallest_found
from opduel.commands.case_selection import choose_cases, sample_cases
from opduel.commands.config import StoredAnswers, default_reports
from opduel.commands.entry import DONE, INCOMPLETE, log
from opduel.commands.harness import run_harness
from opduel.commands.harness_options import HarnessOptions
from opduel.commands.recorded_options import recorded_options
from opduel.comparator.calibration import evaluate
from opduel.driver.documents import write_document
from opduel.frameworks import get_framework
from opduel.harness.machine.cpus import plan_cpus
from opduel.harness.machine.host import host_fingerprint
from opduel.harness.machine.system_check import Watch, check_system
from opduel.harness.other_runs.power_analysis import PowerForecast, forecast_power, pairs_of_cases, threshold_for
from opduel.records import SAMPLED, USUAL_ROUNDS, Report, RunError, UsageError, rounds_at
from opduel.reporters import read_report
from opduel.reporters.document import REPORT_NAME
from opduel.reporters.options import WEBHOOK_VARIABLE as WEBHOOK
from opduel.reporters.options import ReporterOptions
from opduel.reporters.stream import write_text
from opduel.support.atomic import check_folder, user_path
from opduel.support.text import printable

DEFAULT_BUDGET_S = 300.0
CASE_S = 6.0  # of a case of at most 50 rounds in one run, about, if it is slowed: how many cases a budget gets
FEWEST_CASES = 4
SHARES = (0.05, 0.02, 0.01)  # injected, when no threshold is given
MULTIPLES = (5.0, 2.5, 1.5)  # of a threshold that is given
MORE_ROUNDS = (1, 2, 4)  # forecast for this many times --max_rounds
RESULT_NAME = "calibration.json"


@dataclass
class Calibration:
    """The runs to make, and those made. ``options`` are what all have in common; ``deadline_s`` is when the budget is
    spent, by the monotonic clock."""

    options: HarnessOptions
    steps: list[tuple[float, float]]  # injected share, threshold
    folder: Path
    deadline_s: float
    rng: random.Random
    watch: Watch
    tried: set[float] = field(default_factory=set)  # injected shares that got a run
    reports: list[Report] = field(default_factory=list)
    longest_s: float = 0.0
    broken: str | None = None  # why it could not be completed

    def left_s(self) -> float:
        """Of the budget."""
        return self.deadline_s - time.monotonic()


def calibrate(options: HarnessOptions) -> int:
    """Run, tell, keep; return the exit code, or raise an OpduelError that has it."""
    calibration = _plan_calibration(options)
    began = time.monotonic()
    _run_all(calibration)
    if not calibration.reports:
        raise RunError(f"nothing was measured: {calibration.broken}")
    outcome = _outcome(calibration, options, time.monotonic() - began)
    with contextlib.suppress(OSError):
        folder = printable(str(calibration.folder))
        write_text(sys.stdout, "\n".join([*outcome_lines(outcome), f"kept in {folder}", ""]))
    write_document(calibration.folder / RESULT_NAME, {"schema_version": 1, **dataclasses.asdict(outcome)})
    if calibration.broken:
        log.error("not completed: %s", calibration.broken)
    return INCOMPLETE if calibration.broken else DONE


def _plan_calibration(options: HarnessOptions) -> Calibration:
    config = StoredAnswers()
    seed = secrets.randbits(32) if options.seed is None else options.seed
    cases = _cases(options, seed)
    threshold = options.threshold.get("time")  # all that is calibrated: instructions have next to no noise
    steps = _steps(threshold)
    budget_s = options.time_budget or DEFAULT_BUDGET_S
    rounds = [USUAL_ROUNDS if options.max_rounds else rounds_at(threshold) for _, threshold in steps]
    chosen = evenly(cases, round(max(FEWEST_CASES, budget_s / (CASE_S * sum(rounds) / USUAL_ROUNDS))))
    if len(chosen) < len(cases):
        log.info("%d of %d cases, spread over the spec: what the time budget allows", len(chosen), len(cases))
    report_folder = options.reporting.local_reporter or options.reporting.simple_local_reporter
    base = user_path(str(report_folder or config.get("local_reporter", str(default_reports()))), "--local_reporter")
    folder = base / "calibration" / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
    check_folder(folder, "local_reporter")
    watch = Watch(plan_cpus(options.threads))
    build = _build(options, config)
    fixed = dataclasses.replace(
        options,
        control=build,
        treatment=build,
        metric=("time",),
        operators=tuple(map(exactly, chosen)),
        sample=None,
    )
    return Calibration(fixed, steps, folder, time.monotonic() + budget_s, random.Random(seed), watch)


def _build(options: HarnessOptions, config: Mapping[str, str]) -> str:
    """The build that is both sides, made if need be; says where it came from when it was not on the command line."""
    requests = {build for build in (options.control, options.treatment) if build is not None}
    if len(requests) > 1:
        raise UsageError("--calibrate measures one build against itself: give --control or --treatment, not two builds")
    unsampled = dataclasses.replace(options, sample=None)
    framework = get_framework(choose_cases(unsampled, 0).framework_name)
    build = requests.pop() if requests else usual_build("treatment", config, framework)
    make_builds(options, framework, [build])
    return str(build)


def _cases(options: HarnessOptions, seed: int) -> list[str]:
    """Their ids; the runs have seeds of their own, so that none may depend on the seed. ``seed``: for ``--sample``."""
    timed = dataclasses.replace(options, metric=("time",), sample=None)
    chosen = choose_cases(timed, 0).cases
    first, second = ([case.id for case in cases] for cases in (chosen, choose_cases(timed, 1).cases))
    if first != second:
        raise UsageError(
            "--calibrate uses several seeds, and the spec's random sizes depend on the seed: set a seed in the spec"
        )
    drawn = [case.id for case in sample_cases(chosen, options, seed)]
    if len(drawn) < 2:
        raise UsageError("--calibrate slows every second case: give it two cases or more")
    return drawn


def evenly(cases: Sequence[str], count: int) -> list[str]:
    """``count`` of the cases, or all, spread over them all."""
    count = min(count, len(cases))
    return [cases[place * len(cases) // count] for place in range(count)]


def exactly(case: str) -> str:
    """A pattern for --operators that matches this id alone."""
    return f"[{case[0]}]{case[1:]}"


def _steps(threshold: float | None) -> list[tuple[float, float]]:
    """The runs of one turn: plain, then slowed."""
    if threshold is None:
        return [(0.0, threshold_for(1.0)), *((share, threshold_for(share)) for share in SHARES)]
    multiples = [float(f"{multiple * threshold:.6g}") for multiple in MULTIPLES]
    shares = [share for share in multiples if share < 1] if threshold else SHARES
    if not shares:
        raise UsageError(f"--threshold {threshold:g} leaves no slowdown to inject: give a smaller one")
    return [(0.0, threshold), *((share, threshold) for share in shares)]


def _run_all(calibration: Calibration) -> None:
    """Every step once, in random order, each with its part of the budget; then again while there is time for it."""
    first = calibration.rng.sample(calibration.steps, len(calibration.steps))
    for number, step in enumerate(first):
        if calibration.broken is None and calibration.left_s() > 0:
            _run(calibration, step, calibration.left_s() / (len(first) - number))
    while calibration.broken is None:
        for step in calibration.rng.sample(calibration.steps, len(calibration.steps)):
            if calibration.broken or calibration.left_s() < calibration.longest_s:
                return
            _run(calibration, step, calibration.left_s())


def _run(calibration: Calibration, step: tuple[float, float], budget_s: float) -> None:
    """One run through harness.py's insides. What ends it early, but for wrong usage, is noted."""
    inject, threshold = step
    folder = calibration.folder / str(len(calibration.reports) + 1)
    options = dataclasses.replace(
        calibration.options,
        inject=inject,
        threshold=dict.fromkeys(SAMPLED, threshold),
        time_budget=round(budget_s, 3),
        seed=calibration.rng.getrandbits(32),
        reporting=ReporterOptions(simple_local_reporter=str(folder)),
    )
    injection = f"{inject * 100:+.3g} %" if inject else "nothing"
    log.info("run %d: %s injected", len(calibration.reports) + 1, injection)
    began = time.monotonic()
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # no table for each run
            _harness_unheard(options)
    except RunError as error:
        calibration.broken = str(error)
        return
    report = read_report(folder / REPORT_NAME)
    calibration.watch.sample()
    calibration.longest_s = max(calibration.longest_s, time.monotonic() - began)
    calibration.reports.append(report)
    if report.run.aborted:
        calibration.broken = str(report.run.stop_reason)
    else:
        calibration.tried.add(inject)


def _harness_unheard(options: HarnessOptions) -> None:
    """A run without notifications: injected slowdowns are no alarm."""
    webhook = os.environ.pop(WEBHOOK, None)
    try:
        run_harness(options, recorded_options("harness.py", options))
    finally:
        if webhook is not None:
            os.environ[WEBHOOK] = webhook


def _outcome(calibration: Calibration, options: HarnessOptions, seconds: float) -> Outcome:
    """What the runs say. After an interruption nothing is simulated: who pressed Ctrl-C waits for the report."""
    reports = calibration.reports
    rows = evaluate(reports)
    facts = calibration.watch.facts(host_fingerprint())
    expected = [] if calibration.broken else _forecasts(calibration, options)
    return Outcome(
        build=reports[0].control.requested,
        spec=str(reports[0].run.spec),
        cases=len(reports[0].comparisons),
        runs=sum(not report.run.aborted for report in reports),
        seconds=seconds,
        rows=rows,
        not_run=[share for share, _ in calibration.steps if share not in calibration.tried],
        smallest=smallest_found(rows),
        forecasts=expected,
        facts=facts,
        advice=list(check_system(facts)),
        reports=[str(Path(str(number)) / REPORT_NAME) for number in range(1, len(reports) + 1)],
        complete=calibration.broken is None,
    )


def _forecasts(calibration: Calibration, options: HarnessOptions) -> list[PowerForecast]:
    """What the same machine would find with ``--max_rounds``, as given or usual, and with more."""
    cases = pairs_of_cases(calibration.reports)
    if len(cases) < 2:
        return []
    log.info("simulating what more time would find")
    cost = statistics.median(
        (report.run.wall_s or 0.0) / max(1, sum(comparison.rounds for comparison in report.comparisons))
        for report in calibration.reports
    )
    threshold = options.threshold.get("time")
    most = options.max_rounds or (USUAL_ROUNDS if threshold is None else rounds_at(threshold))
    return [
        forecast_power(cases, times * most, options.alpha, cost, calibration.rng, threshold) for times in MORE_ROUNDS
    ]
