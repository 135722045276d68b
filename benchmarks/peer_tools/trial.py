"""What each tool gets, and what it answers."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

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

    def prepare(self, case: Case, side: Side) -> dict[str, Any]:
        """Return the worker's "prepare" request, as opduel's harness makes it: both sides calibrate the injected work,
        one does it."""
        share = self.share if case.id in self.injected else 0.0
        return CaseRequest(case, self.seed, share).message(side)

    def write_job(self) -> Path:
        """Write the file that ``inside.py`` reads in another tool's processes, and return its path."""
        job = {
            "worker": str(WORKER),
            "adaptor": str(self.bench.adaptor),
            "requests": {side: {case.id: self.prepare(case, side) for case in self.bench.cases} for side in SIDES},
        }
        path = self.folder.absolute() / "job.json"
        path.write_text(json.dumps(job), encoding="utf-8")
        return path


@dataclass(frozen=True)
class Tool:
    """A tool's whole procedure: a name, as --tools takes it, the settings in words, and what measures every case and
    returns the answers of each rule that decides on the data (RunError: the tool could not be run)."""

    name: str
    settings: str
    measure: Callable[[Trial], Mapping[str, Answers]]


def direction(ratio: float) -> Answer:
    """Return the answer for a significant ratio of treatment to control."""
    return "slower" if ratio > 1 else "faster"
