"""opduel itself: harness.py with its default settings, or so that a busy host makes it hold nothing back."""

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
    "not_worse": "same",
    "not_better": "same",
    "inconclusive": "same",
    "failed": "failed",
}


@dataclass(frozen=True)
class Ours:
    """No other tool holds back what it has found on a busy host: beside them, ours doesn't either, unless
    ``by_default`` says so. What it holds back then counts as no report."""

    threshold: float  # a share
    by_default: bool = False
    origin: str = "the real program"

    @property
    def name(self) -> str:
        """``opduel``, or ``opduel-default``."""
        return "opduel-default" if self.by_default else "opduel"

    @property
    def settings(self) -> str:
        """Its options."""
        return " ".join(["harness.py", *self._options])

    @property
    def _options(self) -> list[str]:
        report = [] if self.by_default else ["--busy_host", "report"]
        return ["--threshold", f"{100 * self.threshold:g}%", *report]

    def set_up(self, bench: Bench) -> None:
        """Nothing: the build is in the cache."""

    def measure(self, trial: Trial) -> Mapping[str, Answers]:
        """Its verdicts."""
        bench = trial.bench
        command = [sys.executable, str(HARNESS), "-b", bench.spec, "--seed", str(trial.seed)]
        command += ["--control", bench.release, "--treatment", bench.release, "--inject", str(trial.share)]
        command += [word for pattern in bench.operators for word in ("--operators", pattern)]
        command += ["--simple_local_reporter", str(trial.folder.absolute()), *self._options]
        good = (0, 1, 3) if self.by_default else (0, 1)  # 3: verdicts were held back
        run_program(command, dict(os.environ), trial.folder, TIMEOUT_S, good)
        report = read_report(trial.folder / "report.json")
        injected = {one.case for one in report.comparisons if one.injected}
        if injected != trial.injected or {one.case for one in report.comparisons} != {one.id for one in bench.cases}:
            raise RunError("harness.py measured or slowed other cases than the session says: fix peers.py")
        rule = "opduel, as it is by default" if self.by_default else "opduel"
        return {rule: {one.case: ANSWERS[one.verdict] for one in report.comparisons}}
