"""Checks of what a framework is before it computes: its adaptor's source, how it starts, and its environment."""

import ast
import re
from typing import Any

from opduel.frameworks import require_functions
from opduel.harness.conformance.subject import Outcome, Subject
from opduel.harness.machine.cpus import plan_cpus
from opduel.harness.processes.process import Worker
from opduel.harness.processes.worker_errors import WorkerLostError
from opduel.records import UsageError
from opduel.records.measurement import Side

OLDEST = (3, 6)  # the oldest Python that a build may have


def check_adaptor(subject: Subject, outcome: Outcome) -> None:
    """The adaptor's functions, and that its source is Python 3.6. What it imports is seen when it starts."""
    adaptor = subject.framework.adaptor
    if not adaptor.exists():
        outcome.problem(f"{adaptor}: there is no such adaptor: correct {_class_of(subject)}.adaptor")
        return
    try:
        require_functions(adaptor, {})
    except UsageError as error:
        outcome.problem(str(error))
    for path in sorted(adaptor.rglob("*.py")) if adaptor.is_dir() else [adaptor]:
        try:
            ast.parse(path.read_bytes(), str(path), feature_version=OLDEST)
        except SyntaxError as error:
            outcome.problem(
                f"{path}, line {error.lineno}: is not valid Python 3.6 ({error.msg}): write it in older syntax"
            )


def check_start(subject: Subject, outcome: Outcome) -> None:
    """Both builds start, and say the same versions each time, among them the build's own."""
    for side, build in subject.builds.items():
        first, second = _started(subject, side, outcome), _started(subject, side, outcome)
        if first is None or second is None:
            continue
        if first != second:
            outcome.problem(f"{side}: versions() returned {first}, then {second}: return the same every time")
        if not first or not all(isinstance(value, str) for value in first.values()):
            outcome.problem(f"{side}: versions() returned {first}: return a dict of names and versions, as texts")
        elif subject.framework.builds.import_name and not {*re.split(r",? ", build.version)} & {*first.values()}:
            outcome.problem(f"{side}: versions() returned {first}, but the build is {build.version}: add it")


def check_environment(subject: Subject, outcome: Outcome) -> None:
    """The framework states its threads in variables, the same every time, and the import leaves all variables alone."""
    framework, where = subject.framework, f"{_class_of(subject)}.environment"
    for threads in (1, 3):
        variables = framework.environment(threads)
        if variables != framework.environment(threads):
            outcome.problem(f"{where}({threads}) differs from one call to the next: return the same variables")
        if not all(isinstance(text, str) for pair in variables.items() for text in pair):
            outcome.problem(f"{where}({threads}) is {variables}: return names and values as texts")
    if framework.environment(1) == framework.environment(3):
        outcome.note(f"{where} is the same for one thread and three: --threads makes no difference")
    faulty = subject.with_faults()
    for side in subject.builds:
        answer = _started(faulty, side, outcome)
        if answer is None:
            continue
        expected, actual = faulty.environment(), answer["environment"]
        for name in sorted(expected):
            if actual.get(name) != expected[name]:
                outcome.problem(
                    f"{side}: {name} is {expected[name]!r} for a worker, and {actual.get(name)!r} after the import: "
                    "leave the variable alone, or change it in the framework's environment"
                )


def _started(subject: Subject, side: Side, outcome: Outcome) -> dict[str, Any] | None:
    """Return what a fresh worker says once the framework is imported; None, and a problem, if it doesn't start."""
    try:
        build, adaptor = subject.builds[side], subject.framework.adaptor
        with Worker(side, build, adaptor, subject.environment(), plan_cpus(1).start) as worker:
            return worker.wait_ready()
    except WorkerLostError as error:
        outcome.problem(f"the {side} doesn't start: {error.failure.kind}: {error.failure.reason}")
        return None


def _class_of(subject: Subject) -> str:
    return type(subject.framework).__name__
