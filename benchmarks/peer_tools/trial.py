"""What each tool gets, and what it answers."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol

from opduel.harness.machine.cpus import CpuPlan
from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.processes.process import WORKER
from opduel.records import Build, Case
from opduel.records.measurement import SIDES, Side

Answer = Literal["slower", "faster", "same", "failed"]
Answers = Mapping[str, Answer]  # by case id


@dataclass(frozen=True)
class Bench:
    """What all tools and sessions have in common: one build on both sides, with asv and pyperf in it."""

    build: Build
    release: str  # as harness.py takes it: "mxnet==1.9.1"
    requirements: Mapping[str, str]  # the release and the packages it needs, name -> version
    adaptor: Path
    environment: Mapping[str, str]
    cpus: CpuPlan
    spec: str
    operators: Sequence[str]
    cases: Sequence[Case]
    cache: Path  # for what a tool makes once


@dataclass(frozen=True)
class Trial:
    """One comparison: the treatment of the ``injected`` cases is slowed by ``share``."""

    bench: Bench
    seed: int
    share: float
    injected: frozenset[str]  # case ids
    folder: Path  # empty, for the tool's files
    opduel_seconds: float | None = None  # that opduel took for the same comparison, if it has made it

    @cached_property
    def requests(self) -> dict[str, CaseRequest]:
        """By case id, as opduel's harness makes them: both sides calibrate the injected work, one does it."""
        return {
            case.id: CaseRequest(case, self.seed, self.share if case.id in self.injected else 0.0)
            for case in self.bench.cases
        }

    def prepare(self, case_id: str, side: Side) -> dict[str, Any]:
        """Return the worker's "prepare" request."""
        return self.requests[case_id].message(side)

    def write_job(self) -> Path:
        """Write the file that ``inside.py`` reads in another tool's processes, and return its path."""
        job = {
            "worker": str(WORKER),
            "adaptor": str(self.bench.adaptor),
            "requests": {side: {case.id: self.prepare(case.id, side) for case in self.bench.cases} for side in SIDES},
        }
        path = self.folder.absolute() / "job.json"
        path.write_text(json.dumps(job), encoding="utf-8")
        return path


class Tool(Protocol):
    """A tool's whole procedure."""

    @property
    def name(self) -> str:
        """A short name, as --tools takes it."""

    @property
    def settings(self) -> str:
        """The settings in words."""

    def set_up(self, bench: Bench) -> None:
        """Prepare what is needed once; this time isn't counted.

        Raises:
            RunError: it failed.
        """

    def measure(self, trial: Trial) -> Mapping[str, Answers]:
        """Measure every case, and return the answers of each rule that decides on the data.

        Raises:
            RunError: the tool could not be run.
        """


def direction(ratio: float) -> Answer:
    """Return the answer for a significant ratio of treatment to control."""
    return "slower" if ratio > 1 else "faster"
