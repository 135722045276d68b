"""What every tool is given, and what it answers."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol

from opduel.harness.case_request import CaseRequest
from opduel.harness.cpus import CpuPlan
from opduel.harness.process import WORKER
from opduel.records import Build, Case
from opduel.records.measurement import Side

Answer = Literal["slower", "faster", "same", "failed"]
Answers = Mapping[str, Answer]  # by case id


@dataclass(frozen=True)
class Bench:
    """What stays the same for every tool and session: one build on both sides, with asv and pyperf in it."""

    build: Build
    release: str  # the build as harness.py is asked for it: "mxnet==1.9.1"
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
    """One session's comparison: the treatment side of ``injected`` (case ids) is slowed by ``share``. ``seconds``: what
    opduel took for it, if that is known."""

    bench: Bench
    seed: int
    share: float
    injected: frozenset[str]
    folder: Path  # empty, for what the tool writes
    seconds: float | None = None

    @cached_property
    def requests(self) -> dict[str, CaseRequest]:
        """By case id, as our own harness makes them: both sides calibrate the injected work, one does it."""
        return {
            case.id: CaseRequest(case, self.seed, self.share if case.id in self.injected else 0.0)
            for case in self.bench.cases
        }

    def prepare(self, case_id: str, side: Side) -> dict[str, Any]:
        """The worker's "prepare" request."""
        return self.requests[case_id].message(side)

    def write_job(self) -> Path:
        """The file that ``inside.py`` reads in another tool's processes; its path."""
        job = {
            "worker": str(WORKER),
            "adaptor": str(self.bench.adaptor),
            "requests": {
                side: {case.id: self.prepare(case.id, side) for case in self.bench.cases}
                for side in ("control", "treatment")
            },
        }
        path = self.folder.absolute() / "job.json"
        path.write_text(json.dumps(job), encoding="utf-8")
        return path


class Tool(Protocol):
    """A tool's whole procedure."""

    @property
    def name(self) -> str:
        """Short, as --tools takes it."""

    @property
    def settings(self) -> str:
        """What was chosen of it, in words."""

    @property
    def origin(self) -> str:
        """Whether it is the real package or was written from its documentation."""

    def set_up(self, bench: Bench) -> None:
        """Make what is needed once; not part of the time that it is charged with.

        Raises:
            RunError: it could not be made.
        """

    def measure(self, trial: Trial) -> Mapping[str, Answers]:
        """Measure every case; for each rule that decides on the same data, what it says of each case.

        Raises:
            RunError: the tool could not be run.
        """


def direction(ratio: float) -> Answer:
    """What a flag says, from treatment / control."""
    return "slower" if ratio > 1 else "faster"
