"""opduel itself: harness.py, which reports what it found on a busy host, too, as no other tool holds anything back."""

import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from benchmarks.peer_tools.programs import run_program
from benchmarks.peer_tools.trial import Answer, Answers, Tool, Trial
from opduel.records import RunError, Verdict
from opduel.reporters import read_report

HARNESS = Path(__file__).resolve().parents[2] / "harness.py"
ANSWERS: Mapping[Verdict, Answer] = {"regressed": "slower", "improved": "faster", "failed": "failed"}  # else: same


def opduel(threshold: float) -> Tool:
    """Return harness.py at a threshold (a share)."""
    options = ["--threshold", f"{100 * threshold:g}%", "--busy_host", "report"]
    return Tool("opduel", " ".join(["harness.py", *options]), partial(_measure, options))


def _measure(options: Sequence[str], trial: Trial) -> Mapping[str, Answers]:
    """Return harness.py's verdicts as answers.

    Raises:
        RunError: it failed, or measured or slowed other cases than the session says.
    """
    bench = trial.bench
    command = [sys.executable, str(HARNESS), "-b", bench.spec, "--seed", str(trial.seed)]
    command += ["--control", bench.release, "--treatment", bench.release, "--inject", str(trial.share)]
    command += [word for pattern in bench.operators for word in ("--operators", pattern)]
    command += ["--simple_local_reporter", str(trial.folder.absolute()), *options]
    run_program(command, dict(os.environ), trial.folder, good=(0, 1))
    comparisons = read_report(trial.folder / "report.json").comparisons
    injected = {comparison.case for comparison in comparisons if comparison.injected}
    measured = {comparison.case for comparison in comparisons}
    if injected != trial.injected or measured != {case.id for case in bench.cases}:
        raise RunError("harness.py measured or slowed other cases than the session says: fix peers.py")
    return {"opduel": {comparison.case: ANSWERS.get(comparison.verdict, "same") for comparison in comparisons}}
