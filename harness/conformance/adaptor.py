"""Checks of what a framework is before it computes: its adaptor's source, how it starts, and its environment."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil

from opduel.frameworks import require_functions
from opduel.harness.conformance.subject import Outcome, Subject
from opduel.harness.machine.cpus import plan_cpus
from opduel.harness.processes.channel import complete
from opduel.harness.processes.process import Worker
from opduel.harness.processes.worker_errors import AskError, WorkerLostError
from opduel.records import Build, UsageError
from opduel.records.measurement import Side

OLDEST = (3, 6)  # the oldest Python that a build may have
# Modules of the standard library that this one lacks.
NEWER = {"dataclasses", "contextvars", "importlib.resources", "importlib.metadata", "zoneinfo", "graphlib", "tomllib"}
COMMON = "opduel_common"  # what adaptors share: the worker makes it importable
IMPORTABLE = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"


def check_adaptor(subject: Subject, outcome: Outcome) -> None:
    """The adaptor's functions, and that its source runs inside a build: Python 3.6 syntax, and imports of the standard
    library, of the adaptor itself, and of what both builds have."""
    adaptor = subject.framework.adaptor
    if not adaptor.exists():
        outcome.problem(f"{adaptor}: there is no such adaptor: correct {_class_of(subject)}.adaptor")
        return
    try:
        require_functions(adaptor, {})
    except UsageError as error:
        outcome.problem(str(error))
    imported: dict[str, Path] = {}
    for path in sorted(adaptor.rglob("*.py")) if adaptor.is_dir() else [adaptor]:
        try:
            tree = ast.parse(path.read_bytes(), str(path), feature_version=OLDEST)
        except SyntaxError as error:
            outcome.problem(
                f"{path}, line {error.lineno}: is not valid Python 3.6 ({error.msg}): write it in older syntax"
            )
            continue
        for name in _imports(tree):
            imported.setdefault(name, path)
    for name, path in imported.items():
        _check_import(subject, name, path, outcome)


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
        _check_one_thread(subject, where, outcome)
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


def _check_one_thread(subject: Subject, where: str, outcome: Outcome) -> None:
    case, build = subject.cases[0], subject.control
    (message,) = subject.messages(case, "prepare")
    try:
        with Worker("control", build, subject.framework.adaptor, subject.environment(), plan_cpus(1).start) as worker:
            worker.wait_ready()
            process = complete(worker.beginning(fork=False))
            process.ask(message, case.timeout_s)
            count = psutil.Process(process.pid).num_threads()
    except AskError as error:
        outcome.problem(f"{case.id}: {error.failure.kind}: {error.failure.reason}")
        return
    if count > 1:
        outcome.problem(
            f"{where} is the same for one thread and three, but a case's process has {count} threads: set what the "
            "framework reads its threads from"
        )
    else:
        outcome.note("the framework runs in one thread: --threads makes no difference")


def _check_import(subject: Subject, name: str, path: Path, outcome: Outcome) -> None:
    top, own = name.partition(".")[0], type(subject.framework).__module__.partition(".")[0]
    if name in NEWER:
        outcome.problem(f"{path}: imports {name}, which Python 3.6 lacks: avoid it")
    elif top in sys.stdlib_module_names or top in (COMMON, "opduel_adaptor"):  # the name of the adaptor itself
        return
    elif top in ("opduel", own):
        outcome.problem(f"{path}: imports {name}, which is not in a build: use relative imports, or what builds have")
    else:
        for side, build in subject.builds.items():
            if not _has(build, subject.environment(), top):
                outcome.problem(f"{path}: imports {top}, which the {side} ({build.requested}) lacks: avoid it")


def _has(build: Build, environment: Mapping[str, str], module: str) -> bool:
    command = [build.interpreter, "-c", IMPORTABLE, module]
    finished = subprocess.run(command, env={**environment, **build.environment}, capture_output=True, check=False)
    return finished.returncode == 0


def _imports(tree: ast.AST, guarded: bool = False) -> Iterator[str]:
    """Yield the modules that a source imports by absolute names, not in a ``try`` that catches ImportError."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import) and not guarded:
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and not guarded:
            yield str(node.module)
        elif isinstance(node, ast.Try):
            types = " ".join(ast.unparse(handler.type) for handler in node.handlers if handler.type)
            is_caught = re.search(r"\b(ImportError|ModuleNotFoundError|Exception)\b", types) is not None
            yield from _imports(ast.Module(body=node.body, type_ignores=[]), guarded or is_caught)
            for other in (*node.handlers, *node.orelse, *node.finalbody):
                yield from _imports(other, guarded)
        else:
            yield from _imports(node, guarded)


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
