"""opduel itself: harness.py with its default settings, but that a busy host makes it hold nothing back."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peer_tools.programs import run_program
from benchmarks.peer_tools.trial import Answer, Answers, Bench, Trial
from opduel.records import RunError
from opduel.reporters import read_report

HARNESS = Path(__file__).resolve().parents[2] / "harness.py"
TIMEOUT_S = 6 * 3600.0
ANSWERS: Mapping[str, Answer] = {
    "regressed": "slower",
    "improved": "faster",
    "unchanged": "same",
    "inconclusive": "same",
    "failed": "failed",
}


@dataclass(frozen=True)
class Ours:
    """No other tool holds back what it has found on a busy host: beside them, ours doesn't either."""

    threshold: float  # a share
    name: str = "opduel"
    origin: str = "the real program"

    @property
    def settings(self) -> str:
        """Its options."""
        return f"harness.py --threshold {100 * self.threshold:g}% --busy_host report"

    def set_up(self, bench: Bench) -> None:
        """Nothing: the build is in the cache."""

    def measure(self, trial: Trial) -> Mapping[str, Answers]:
        """Its verdicts."""
        bench = trial.bench
        command = [sys.executable, str(HARNESS), "-b", bench.spec, "--seed", str(trial.seed)]
        command += ["--control", bench.release, "--treatment", bench.release, "--inject", str(trial.share)]
        command += [word for pattern in bench.operators for word in ("--operators", pattern)]
        command += ["--threshold", f"{100 * self.threshold:g}%"]
        command += ["--simple_local_reporter", str(trial.folder.absolute()), "--busy_host", "report"]
        run_program(command, dict(os.environ), trial.folder, TIMEOUT_S, good=(0, 1))
        report = read_report(trial.folder / "report.json")
        injected = {one.case for one in report.comparisons if one.injected}
        if injected != trial.injected or {one.case for one in report.comparisons} != {one.id for one in bench.cases}:
            raise RunError("harness.py measured or slowed other cases than the session says: fix peers.py")
        return {"opduel": {one.case: ANSWERS[one.verdict] for one in report.comparisons}}
