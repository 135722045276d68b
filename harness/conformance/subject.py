"""What a conformance test is about, what it found, and how it asks the workers of both sides."""

import contextlib
import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeGuard

from opduel.frameworks import Framework, adaptor_names, run_environment
from opduel.harness.machine.cpus import plan_cpus
from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.processes.restarting_worker import RestartingWorker
from opduel.records import Build, Case, Failure, UsageError
from opduel.records.measurement import Side

WRAPPER = Path(__file__).resolve().parent.parent / "worker" / "conformance_adaptor.py"
VARIABLE = "OPDUEL_CONFORMANCE"  # what the wrapper does, in a build's own environment
NO_SUCH = "opduel_no_such"  # in a name that no framework has
HANG_S = 4.0  # given to a case that never answers
Answers = list[dict[str, Any]]


@dataclass(frozen=True)
class Subject:
    """A framework to check, with two builds and the cases of a spec; all of these have to run on both builds.

    ``resources``: what has to live as long as the builds are used: a suite's copies.
    """

    framework: Framework
    control: Build
    treatment: Build
    cases: Sequence[Case]
    seed: int = 1
    threads: int = 1
    resources: Any = None

    def __post_init__(self) -> None:
        if not self.cases:
            raise UsageError("the conformance test needs a case that runs on both builds: give a spec that has one")

    @property
    def builds(self) -> dict[Side, Build]:
        """Both builds, by side."""
        return {"control": self.control, "treatment": self.treatment}

    @property
    def refused_case(self) -> Case:
        """A case with an argument that there isn't."""
        return renamed(self.cases[0], "refused", inputs={NO_SUCH: {"value": "argument"}})

    @property
    def missing_case(self) -> Case:
        """A case of an operator that there isn't."""
        first, inputs = self.cases[0], {}
        for name, value in self.cases[0].inputs.items():  # of what either side calls, each names its operator
            names_operator = isinstance(value, Mapping) and "operator" in value
            inputs[name] = {**value, "operator": f"{value['operator']}_{NO_SUCH}"} if names_operator else value
        return renamed(first, "missing", operator=f"{first.operator}_{NO_SUCH}", inputs=inputs)

    @cached_property
    def has(self) -> frozenset[str]:
        """The names of the optional functions that the adaptor has."""
        return adaptor_names(self.framework.adaptor)

    def environment(self, threads: int | None = None) -> dict[str, str]:
        """Return what a run's workers get, on both sides alike; ``threads``: other than the subject's."""
        count = self.threads if threads is None else threads
        return run_environment(self.framework, count, {}, list(self.builds.values()))

    def can_fork(self, case: Case) -> bool:
        """Return whether a case runs in a fork."""
        return self.framework.can_fork(self.threads, case.context)

    @contextlib.contextmanager
    def workers(self) -> Iterator[dict[Side, RestartingWorker]]:
        """Yield workers of both builds, the control's first."""
        cpus, environment = plan_cpus(self.threads).start, self.environment()
        with contextlib.ExitStack() as stack:
            yield {
                side: stack.enter_context(RestartingWorker(side, build, self.framework.adaptor, environment, cpus))
                for side, build in self.builds.items()
            }

    def messages(self, case: Case, *operations: str, seed: int | None = None, **more: Any) -> list[dict[str, Any]]:
        """Return the worker's requests for ``prepare``, or for operations that need no preparing. ``more``: further
        fields of each but ``prepare`` and ``digest``."""
        request = CaseRequest(case, self.seed if seed is None else seed)
        about = {"case": request.description(), "seed": request.seed}
        requests = []
        for name in operations:
            fields = {} if name == "digest" else more
            requests.append(request.message("control") if name == "prepare" else {"op": name, **about, **fields})
        return requests

    def ask(
        self, worker: RestartingWorker, case: Case, *operations: str, fork: bool | None = None, **more: Any
    ) -> Answers | Failure:
        """Return the answers to ``messages(case, *operations, **more)``, in a fresh process."""
        messages = self.messages(case, *operations, **more)
        return worker.ask(messages, case.timeout_s, fork=self.can_fork(case) if fork is None else fork)

    def with_faults(self, **faults: Mapping[str, str]) -> "Subject":
        """Return the same on builds whose adaptor has faults; ``faults``: by side, case id -> what happens there."""
        inner = self.framework
        wrapped = type(f"Faulty{type(inner).__name__}", (type(inner),), {"adaptor": WRAPPER})
        framework: Framework = object.__new__(wrapped)
        framework.__dict__.update(inner.__dict__)

        def build(side: Side) -> Build:
            settings = json.dumps({"adaptor": str(inner.adaptor), "faults": dict(faults.get(side, {}))})
            original = self.builds[side]
            return dataclasses.replace(original, environment={**original.environment, VARIABLE: settings})

        return dataclasses.replace(self, framework=framework, control=build("control"), treatment=build("treatment"))


def renamed(case: Case, name: str, **changes: Any) -> Case:
    """Return a case like this one, with an id that says it is one of these checks'."""
    return dataclasses.replace(case, id=f"conformance_{name}/{case.direction}", **changes)


@dataclass
class Outcome:
    """What one check found. ``problems``: a line for each; without any it passed. ``notes``: what does not apply to
    the framework, and so wasn't checked."""

    check: str
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def problem(self, text: str) -> None:
        """Add a problem, once."""
        self.problems += [] if text in self.problems else [text]

    def note(self, text: str) -> None:
        """Add a note, once."""
        self.notes += [] if text in self.notes else [text]

    def answered(self, answer: Answers | Failure, side: str, case: Case, doing: str) -> TypeGuard[Answers]:
        """Return whether there is an answer; a failure is a problem."""
        if isinstance(answer, Failure):
            self.problem(f"{case.id} on the {side}, {doing}: {answer.kind}: {answer.reason}")
        return not isinstance(answer, Failure)
