"""A stand-in for harness.py below benchmarks/calibrate.py, and reports of runs whose verdicts are known."""

import dataclasses
import math
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import calibrate
from opduel.comparator.looks import FIRST_LOOK
from opduel.records import Build, Comparison, PairSample, Report, Stage, Verdict
from opduel.reporters import write_report

BUILD = Build("mxnet", "mxnet==1.9.1", "release", "/python", "1.9.1", "3.11.7", "aa")
NOTHING: dict[str, Any] = dict.fromkeys(("ci", "p_value", "q_value", "mde", "control", "treatment", "decided_on"))
RUN = {"spec": "calibration", "max_rounds": 30, "complete": True, "aborted": False, "wall_s": 20.0, "timed_s": 10.0}
HOST = {"cpu_model": "a CPU", "logical_cpus": 2}


def report(inject: float, threshold: float, **run: Any) -> Report:
    """Two cases, one of them slowed and found; a plain run has a false flag."""
    verdicts: list[tuple[Verdict, bool]] = [("regressed", bool(inject)), ("unchanged", False)]
    comparisons = [
        Comparison(f"c{i}", "op", "forward", "time", "ns", verdict, 1.01, threshold=threshold, rounds=5, failure=None,
                   injected=injected, samples=[PairSample(f"c{i}", "screening", n, 1, 1, 0, 1, 1) for n in range(5)],
                   **NOTHING)
        for i, (verdict, injected) in enumerate(verdicts)
    ]  # fmt: skip
    return Report({**RUN, "inject": inject or None, **run}, BUILD, BUILD, HOST, tuple(comparisons))


def stage_of(number: int) -> Stage:
    """The first look makes a case that has changed a suspect."""
    return "screening" if number < FIRST_LOOK else "confirmation"


def noisy_and_disturbed(inject: float, threshold: float) -> Report:
    """A change of 10 % in samples that the t test needs no more of, and that are too few for the signed-rank test."""
    made = report(inject, threshold, validity={"valid": False, "reasons": ["busy"]})
    noise = (0.001, -0.002, 0.0015, -0.0005, 0.0, 0.001, -0.001, 0.0005)
    cases = [
        dataclasses.replace(
            one,
            verdict="inconclusive",
            held_back="regressed",
            samples=[
                PairSample(one.case, stage_of(n), n, 100.0, 100 * math.exp(0.3 + more), 0.3 + more, 1, 1)
                for n, more in enumerate(noise)
            ],
        )
        for one in made.comparisons
    ]
    return dataclasses.replace(made, comparisons=tuple(cases))


class Harness:
    """Stands in for the process: notes its command, writes the report that ``answer`` makes of it, if any."""

    def __init__(self) -> None:
        self.commands: list[list[str]] = []
        self.answer: Callable[[float, float], Report | None] = report
        self.code, self.words = 0, ""

    def __call__(self, command: list[str], **_: Any) -> "subprocess.CompletedProcess[str]":
        self.commands.append(command)
        made = self.answer(float(self.option("--inject", "0")), float(self.option("--threshold")))
        if made:
            path = Path(self.option("--simple_local_reporter")) / "report.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            write_report(path, made)
        return subprocess.CompletedProcess(command, self.code, "", self.words)

    def option(self, name: str, default: str | None = None) -> str:
        command = self.commands[-1]
        return command[command.index(name) + 1] if name in command or default is None else default


def call(folder: Path, *arguments: str) -> int:
    ours = ["--data", str(folder / "data.jsonl"), "--plan", "0:2%", "5%:2%", "--spec", "calibration"]
    return calibrate.main([*ours, "--sample", "0", "--runs", "2", *arguments])
