"""opduel itself: harness.py, which reports what it found on a busy host, too, as no other tool holds anything back."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peer_tools.programs import run_program
from benchmarks.peer_tools.trial import Answer, Answers, Bench, Trial
from opduel.records import RunError, Verdict
from opduel.reporters import read_report

HARNESS = Path(__file__).resolve().parents[2] / "harness.py"
TIMEOUT_S = 6 * 3600.0
ANSWERS: Mapping[Verdict, Answer] = {
    "regressed": "slower",
    "improved": "faster",
    "unchanged": "same",
    "not_worse": "same",
    "not_better": "same",
    "inconclusive": "same",
    "failed": "failed",
}


@dataclass(frozen=True)
class Opduel:
    """harness.py at a threshold (a share)."""

    threshold: float
    name: str = "opduel"

    @property
    def settings(self) -> str:
        """The command's options."""
        return " ".join(["harness.py", *self._options])

    @property
    def _options(self) -> list[str]:
        return ["--threshold", f"{100 * self.threshold:g}%", "--busy_host", "report"]

    def set_up(self, bench: Bench) -> None:
        """Do nothing: the build is in the cache."""

    def measure(self, trial: Trial) -> Mapping[str, Answers]:
        """Return its verdicts as answers.

        Raises:
            RunError: it failed, or measured or slowed other cases than the session says.
        """
        bench = trial.bench
        command = [sys.executable, str(HARNESS), "-b", bench.spec, "--seed", str(trial.seed)]
        command += ["--control", bench.release, "--treatment", bench.release, "--inject", str(trial.share)]
        command += [word for pattern in bench.operators for word in ("--operators", pattern)]
        command += ["--simple_local_reporter", str(trial.folder.absolute()), *self._options]
        run_program(command, dict(os.environ), trial.folder, TIMEOUT_S, good=(0, 1))
        comparisons = read_report(trial.folder / "report.json").comparisons
        injected = {comparison.case for comparison in comparisons if comparison.injected}
        measured = {comparison.case for comparison in comparisons}
        if injected != trial.injected or measured != {case.id for case in bench.cases}:
            raise RunError("harness.py measured or slowed other cases than the session says: fix peers.py")
        return {"opduel": {comparison.case: ANSWERS[comparison.verdict] for comparison in comparisons}}
