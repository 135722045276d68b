"""opduel itself: harness.py, which reports what it found on a busy host, too, as no other tool holds anything back."""

from collections.abc import Mapping

from benchmarks.bench import MXNET, run_harness
from benchmarks.peer_tools.trial import Answer, Answers, Tool, Trial
from opduel.records import RunError, Verdict

ANSWERS: Mapping[Verdict, Answer] = {"regressed": "slower", "improved": "faster", "failed": "failed"}  # else: same


def opduel(threshold: float) -> Tool:
    """Return harness.py at a threshold (a share)."""
    settings = ("--threshold", f"{100 * threshold:g}%", "--busy_host", "report")

    def measure(trial: Trial) -> Mapping[str, Answers]:
        options = ["-b", trial.spec, "--control", MXNET, "--treatment", MXNET]
        options += ["--seed", str(trial.seed), "--inject", str(trial.share)]
        for case in trial.cases:  # brackets make an id a pattern, which matches no id that has it as a part
            options += ["--operators", f"[{case.id[0]}]{case.id[1:]}"]
        run = run_harness(*options, *settings)
        if run.report is None or run.exit_code not in (0, 1):
            raise RunError(f"harness.py: {run.message}")
        comparisons = run.report.comparisons
        injected = {comparison.case for comparison in comparisons if comparison.injected}
        if injected != trial.injected or {comparison.case for comparison in comparisons} != {c.id for c in trial.cases}:
            raise RunError("harness.py measured or slowed other cases than the session says: fix peers.py")
        return {"opduel": {comparison.case: ANSWERS.get(comparison.verdict, "same") for comparison in comparisons}}

    return Tool("opduel", " ".join(["harness.py", *settings]), measure)
