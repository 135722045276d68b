"""Checks of what a framework computes: its calls, inputs, outputs, memory and directions, and all of it in a fork."""

import dataclasses
import math
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from opduel.harness.conformance.subject import Outcome, Subject
from opduel.harness.machine.cpus import plan_cpus
from opduel.harness.numerics.outputs import MOST_BYTES, Array, difference
from opduel.harness.processes.forking import with_checked_forks
from opduel.harness.processes.pair_pool import Bench
from opduel.harness.processes.restarting_worker import RestartingWorker
from opduel.records import VALUE, Case, Failure, UsageError
from opduel.records.case import DIRECTIONS

BLOCK = {"discard": 1, "calls": 3, "inner": 1}
NAMES = ("first", "second")
FEW_BYTES = 64
MEMORY_CALLS = 2
SEVERAL = 2  # threads


def check_cases(subject: Subject, outcome: Outcome) -> None:
    """Every case prepares and its calls take time, or it reports its value; on either side, in a process as a run's."""
    with subject.workers() as workers:
        for case, (side, worker) in product(subject.cases, workers.items()):
            if case.metric == VALUE:
                outcome.answered(subject.ask(worker, case, VALUE), side, case, VALUE)
                continue
            requests = [*subject.messages(case, "prepare"), {"op": "block", **BLOCK}]
            answer = worker.ask(requests, case.timeout_s, fork=subject.can_fork(case))
            if outcome.answered(answer, side, case, "measured"):
                times = answer[-1]["ns"]
                if len(times) != BLOCK["calls"] or not all(value > 0 for value in times):
                    outcome.problem(f"{case.id} on the {side}: three calls took {times} ns")


def check_inputs(subject: Subject, outcome: Outcome) -> None:
    """The values of a case's inputs are the same on both sides and in every process, and others with another seed."""
    if "digest" not in subject.has:
        outcome.note("the adaptor has no function digest(case, seed): that both sides get the same values is unchecked")
        return
    seeded = False
    with subject.workers() as workers:
        for case in subject.cases:
            digests: dict[str, str] = {}
            for name, worker in [*workers.items(), ("control again", workers["control"])]:
                answer = subject.ask(worker, case, "digest")
                if outcome.answered(answer, name, case, "digest"):
                    digests[name] = str(answer[0]["digest"])
            if len(set(digests.values())) > 1:
                digest_words = ", ".join(f"{name} {digest[:12] or 'empty'}" for name, digest in digests.items())
                outcome.problem(f"{case.id}: the inputs' digests differ: {digest_words}: use the seed alone")
            other = subject.ask(workers["control"], case, "digest", seed=subject.seed + 1)
            seeded |= not isinstance(other, Failure) and str(other[0]["digest"]) != digests.get("control")
    if not seeded:
        outcome.problem("the inputs' digest is the same with another seed, for every case: make values of the seed")


def check_outputs(subject: Subject, outcome: Outcome) -> None:
    """Equal builds compute equal outputs, in files as described, within the limit; other inputs give others."""
    if "results" not in subject.has:
        outcome.note("the adaptor has no function results(case, seed, folder, limit): the metric error isn't available")
        return
    seeded = "digest" not in subject.has
    with subject.workers() as workers, tempfile.TemporaryDirectory(prefix="opduel-conformance-") as folder:
        worker = workers["control"]
        for number, case in enumerate(subject.cases):
            place = Path(folder) / str(number)
            first = _results(subject, worker, case, place / "first", outcome)
            second = _results(subject, worker, case, place / "second", outcome)
            _results(subject, worker, case, place / "few", outcome, FEW_BYTES)
            if first is None or second is None:
                continue
            if not first:
                outcome.problem(f"{case.id}: has no outputs: return those of the call, or raise where there are none")
            if difference_words := difference(first, second, case.tolerance, NAMES).words:
                outcome.problem(f"{case.id}: two processes of one build differ: {difference_words}")
            if not seeded:
                other = _results(subject, worker, case, place / "other", outcome, seed=subject.seed + 1)
                seeded = other is not None and _contents(first) != _contents(other)
    if not seeded:
        outcome.problem("no case's outputs change with its inputs: return what the call computes of them")


def check_memory(subject: Subject, outcome: Outcome) -> None:
    """Where the adaptor measures memory: bytes by device."""
    if "memory" not in subject.has:
        outcome.note("the adaptor has no function memory(case, seed, calls): the metric memory isn't available")
        return
    with subject.workers() as workers:
        answer = subject.ask(workers["control"], case := subject.cases[0], "memory", calls=MEMORY_CALLS)
    if outcome.answered(answer, "control", case, "memory"):
        bytes_by_device = answer[0]["bytes"]
        sizes = bytes_by_device.values() if isinstance(bytes_by_device, dict) else [None]
        if not all(isinstance(size, int | float) and size >= 0 for size in sizes):
            outcome.problem(f"{case.id}: memory() returned {bytes_by_device}: return a dict of devices and bytes")


def check_directions(subject: Subject, outcome: Outcome) -> None:
    """Each direction runs or is refused, and computes something else than forward does."""
    case = subject.cases[0]
    contents: dict[str, dict[str, bytes]] = {}
    with subject.workers() as workers, tempfile.TemporaryDirectory(prefix="opduel-conformance-") as folder:
        for direction in DIRECTIONS:
            directed_case = dataclasses.replace(case, direction=direction, id="conformance_direction/forward")
            answer = subject.ask(workers["control"], directed_case, "prepare")
            if not isinstance(answer, Failure):
                if "results" in subject.has:
                    arrays = _results(subject, workers["control"], directed_case, Path(folder) / direction, outcome)
                    contents[direction] = {array.name: Path(array.file).read_bytes() for array in arrays or ()}
            elif answer.kind != "error" or direction == case.direction:
                outcome.problem(f"{case.operator}, {direction}: {answer.kind}: {answer.reason}: raise an exception")
            else:
                outcome.note(f"{case.operator} has no direction {direction}: {answer.reason}")
    if "forward" not in contents:
        return
    forward = contents.pop("forward")
    for name in contents:
        if contents[name].items() <= forward.items():
            words = "computes no more than forward: refuse a direction that isn't there"
            outcome.problem(f"{case.operator}: {name} {words}")
    if "both" in contents and not forward.keys() <= contents["both"].keys():
        outcome.problem(f"{case.operator}: both lacks outputs that forward has")


def check_fork(subject: Subject, outcome: Outcome) -> None:
    """Where the framework says that it can be forked: a fork gives what the process that imported it gives.

    With several threads, too, where these builds can be forked then.
    """
    if not any(map(subject.can_fork, subject.cases)):
        outcome.note("the framework can't be forked: every case gets a process pair of its own")
    _check_forked(subject, outcome)
    try:
        bench = Bench(subject.builds, subject.framework.adaptor, subject.environment(SEVERAL), plan_cpus(SEVERAL))
    except UsageError:
        outcome.note(f"the host has fewer than {SEVERAL} processors: forks with several threads are unchecked")
        return
    framework = with_checked_forks(subject.framework, bench, subject.cases, SEVERAL)
    several = dataclasses.replace(subject, framework=framework, threads=SEVERAL)
    if not any(map(several.can_fork, several.cases)):
        why = f": {framework.unforked}" if framework.unforked else ""
        outcome.note(f"with {SEVERAL} threads every case gets a process pair of its own{why}")
    _check_forked(several, outcome)


def _check_forked(subject: Subject, outcome: Outcome) -> None:
    forked = [case for case in subject.cases if subject.can_fork(case)]
    operations = ["prepare", *(["digest"] if "digest" in subject.has else [])]
    with subject.workers() as workers, tempfile.TemporaryDirectory(prefix="opduel-conformance-") as folder:
        for number, case in enumerate(forked):
            answers: dict[bool, Any] = {}
            arrays: dict[bool, Any] = {}
            for fork in (True, False):
                answers[fork] = subject.ask(workers["control"], case, *operations, fork=fork)
                if not outcome.answered(answers[fork], "control", case, "in a fork" if fork else "without a fork"):
                    break
                if "results" in subject.has:
                    place = Path(folder) / f"{number}{fork}"
                    arrays[fork] = _results(subject, workers["control"], case, place, outcome, fork=fork)
            else:
                if answers[True][1:] != answers[False][1:]:
                    outcome.problem(f"{case.id}: other inputs in a fork than without: make values of the seed alone")
                if all(arrays.get(fork) is not None for fork in (True, False)):
                    words = difference(arrays[False], arrays[True], case.tolerance, ("process", "fork")).words
                    if words:
                        where = f"a fork of {subject.threads} threads" if subject.threads > 1 else "a fork"
                        outcome.problem(f"{case.id}: {where} computes something else: {words}: correct can_fork")


def _contents(arrays: list[Array]) -> list[bytes]:
    return [Path(array.file).read_bytes() for array in arrays]


def _results(
    subject: Subject,
    worker: RestartingWorker,
    case: Case,
    folder: Path,
    outcome: Outcome,
    limit: int = MOST_BYTES,
    fork: bool | None = None,
    seed: int | None = None,
) -> list[Array] | None:
    """Return what a fresh process computes, each file checked against its description; None if that failed."""
    folder.mkdir(parents=True)
    seed = subject.seed if seed is None else seed
    answer = subject.ask(worker, case, "results", fork=fork, seed=seed, folder=str(folder), limit=limit)
    if not outcome.answered(answer, worker.side, case, "results"):
        return None
    try:
        arrays = [Array(**{**fields, "file": str(folder / fields["file"])}) for fields in answer[0]["arrays"]]
    except (TypeError, KeyError) as error:
        outcome.problem(f"{case.id}: results() returned {answer[0]['arrays']!r:.200}: give all fields ({error})")
        return None
    for array in arrays:
        if why := _wrong(array, limit):
            outcome.problem(f"{case.id}: {array.name}: {why}")
            return None
    if len({array.name for array in arrays}) < len(arrays):
        outcome.problem(f"{case.id}: two outputs have one name: {', '.join(sorted(array.name for array in arrays))}")
        return None
    return arrays


def _wrong(array: Array, limit: int) -> str:
    try:
        size = np.dtype(array.dtype).itemsize
    except TypeError:
        return f"{array.dtype!r} is not a dtype: use NumPy's notation, such as <f8"
    full_count, file = math.prod(array.shape), Path(array.file)
    expected = min(full_count, max(1, limit // size))
    if array.count != expected:
        return f"holds {array.count} of {full_count} elements, not {expected}, with a limit of {limit} bytes"
    written = file.stat().st_size if file.is_file() else None
    if written != expected * size:
        return f"the file has {written or 0} bytes, not {expected} elements of {size}"
    return ""
