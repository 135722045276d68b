"""A stand-in for harness.py below benchmarks/calibrate.py, and reports whose verdicts are chosen."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import calibrate
from benchmarks.bench import HarnessRun
from opduel.records import Build, Case, Comparison, PairSample, Report, Stage, Verdict
from opduel.records.host_record import HostRecord
from opduel.records.run_record import RunRecord

BUILD = Build("mxnet", "mxnet==1.9.1", "release", "/python", "1.9.1", "3.11.7", "aa")
RUN = {"spec": "all", "max_rounds": 30, "complete": True, "aborted": False, "wall_s": 20.0, "timed_s": 10.0}
HOST = {"cpu_model": "a CPU", "logical_cpus": 2}


def samples(case_id: str, ratios: Sequence[float], stage: Stage = "screening") -> tuple[PairSample, ...]:
    """Return samples with these log ratios."""
    return tuple(
        PairSample(case_id, stage, number, 100.0, 100 * math.exp(ratio), ratio, 1, 1)
        for number, ratio in enumerate(ratios)
    )


def report(inject: float, threshold: float, **run: Any) -> Report:
    """Return a report of two cases: ``c0``, slowed and found, in a plain run a false flag; ``c1``, unchanged."""
    verdicts: list[tuple[Verdict, bool]] = [("regressed", bool(inject)), ("unchanged", False)]
    comparisons = []
    for number, (verdict, injected) in enumerate(verdicts):
        case = Case(f"c{number}", "op", "forward", {}, "float32", "cpu", threshold, 60.0)
        comparison = Comparison.without_figures(
            case, verdict, samples=samples(case.id, [0.0] * 5), failure=None, injected=injected
        )
        comparisons.append(replace(comparison, ratio=1.01, rounds=5))
    return Report(
        RunRecord.of({**RUN, "inject": inject or None, **run}), BUILD, BUILD, HostRecord.of(HOST), tuple(comparisons)
    )


def with_samples(original: Report, by_case: dict[str, tuple[PairSample, ...]], **changes: Any) -> Report:
    """Return the report with other samples, and its comparisons with these changes."""
    comparisons = tuple(
        replace(comparison, samples=by_case[comparison.case], **changes) for comparison in original.comparisons
    )
    return replace(original, comparisons=comparisons)


class FakeHarness:
    """Stands in for ``run_harness``: records the options, and ends with the report that ``answer`` returns, if any."""

    def __init__(self) -> None:
        self.runs: list[dict[str, str]] = []  # name -> value of each option
        self.answer: Callable[[float, float], Report | None] = report
        self.exit_code = 0

    def __call__(self, *options: str) -> HarnessRun:
        run = dict(zip(options[::2], options[1::2], strict=True))
        self.runs.append(run)
        answer = self.answer(float(run.get("--inject", "0")), float(run["--threshold"]))
        return HarnessRun(self.exit_code, "harness.py: error: no memory", answer)


def call(folder: Path, *arguments: str) -> int:
    """Call calibrate.py with two runs of a plain row and of one slowed by 5 %."""
    return calibrate.main(["--data", str(folder / "data.jsonl"), "--plan", "0:2%", "5%:2%", "--runs", "2", *arguments])
