"""Do both builds compute the same? Outputs and gradients of every case, on the same inputs, once.

Nothing here is statistical.  A case is computed by the control, again by the control in a second process, and by the
treatment.  Where the control agrees with itself but not with the treatment, all three compute it again, in fresh
processes: only what differs twice is a finding.  Outputs that were kept (``Reference``) may stand in for the control.
"""

import math
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from opduel.comparator.allclose import Closeness, compare
from opduel.harness.blocks import CaseRequest, time_left
from opduel.harness.pair_pool import Bench
from opduel.harness.restarting_worker import RestartingWorker
from opduel.records import Case, Comparison, Failure, RunError, Tolerance
from opduel.records.measurement import SIDES, Side

MOST_BYTES = 1 << 28  # of one array: of a larger one as many from its beginning are compared
FOR_GOOD = ("error", "missing")  # kinds of failure that a second try would not change
MOST_TRIES = 2  # of a case whose process was lost: once may be someone else's doing
NOT_COMPARED, NOT_AGAIN = "not compared", "not compared again"  # for lack of what follows behind a colon
OUT_OF_TIME = "the time budget was spent"
OTHER_INPUTS = "its inputs differ from those of the golden outputs: write the golden outputs again"


@dataclass(frozen=True)
class Array:
    """One output, gradient or changed argument, as a worker wrote it: ``shape`` and ``dtype`` (numpy's name) of the
    whole, the ``file`` with its elements in C order, and how many of them are there (``count``)."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    storage: str
    file: str
    count: int


@dataclass(frozen=True)
class Difference:
    """The first array that differs between two processes, in words, and the largest figure of any."""

    words: str  # empty: none differs
    figure: float
    partial: str = ""  # what was not compared, in words


Results = Sequence[Array] | Failure


@dataclass(frozen=True)
class Answer:
    """What one process computed of a case, and the digest of its inputs' values, if that was asked for and is known."""

    results: Results
    inputs: str = ""


class Reference(Protocol):
    """What the control computed, kept from another time: `opduel.harness.golden.Golden` has it."""

    def results(self, case: Case, folder: Path) -> Results:
        """The arrays, with files in ``folder``, which is made."""

    def itself(self, case: Case) -> Difference:
        """How the control differed from itself in a second process."""

    def inputs(self, case: Case) -> str:
        """The digest of the inputs' values; empty where it isn't known."""


class OutputCheck:
    """Compares cases of the metric "error".

    ``deadline`` is of the monotonic clock; ``can_fork`` says of a case whether it behaves in a fork; ``on_case`` is
    told after each case how many are left. What ended it before its time is in ``stopped``, or was the deadline
    (``out_of_time``). With a ``reference`` no control is started.
    """

    def __init__(
        self,
        bench: Bench,
        seed: int,
        can_fork: Callable[[Case], bool],
        deadline: float = math.inf,
        on_case: Callable[[int], None] = lambda _: None,
        reference: Reference | None = None,
    ) -> None:
        self._bench, self._seed, self._can_fork = bench, seed, can_fork
        self._deadline, self._on_case, self._reference = deadline, on_case, reference
        self.stopped: BaseException | None = None
        self.out_of_time = False

    def compare(self, cases: Sequence[Case]) -> list[Comparison]:
        """A comparison for each case, in order, whatever ends it early; those not come to are ``inconclusive``."""
        found = {case.id: _open(case, NOT_COMPARED) for case in cases}
        suspects: dict[str, Comparison] = {}
        try:
            for case, seen in self._look_at(cases):
                if seen.verdict == "regressed":
                    suspects[case.id] = seen
                    seen = _unconfirmed(seen, NOT_AGAIN)
                found[case.id] = seen
            for case, seen in self._look_at([case for case in cases if case.id in suspects]):
                found[case.id] = _confirmed(suspects[case.id], seen)
        except (KeyboardInterrupt, RunError) as error:
            self.stopped = error
        except Exception as error:  # a fault of ours, or of the machine, must not cost what was compared
            self.stopped = RuntimeError(f"{type(error).__name__}: {' '.join(str(error).split())}")
        why = str(self.stopped or "interrupted") if self.stopped is not None else OUT_OF_TIME
        return [_with_reason(found[case.id], why) for case in cases]

    def _look_at(self, cases: Sequence[Case]) -> Iterator[tuple[Case, Comparison]]:
        """One look at each case, in fresh workers, until the time is up."""
        if not cases:
            return
        with self._triple() as triple:
            for number, case in enumerate(cases):
                seen = triple.look(case) if time.monotonic() < self._deadline else None
                if seen is None:
                    self.out_of_time = True
                    return
                yield case, seen
                self._on_case(len(cases) - number - 1)

    @contextmanager
    def _triple(self) -> Iterator["_Triple"]:
        bench = self._bench
        sides: dict[str, Side] = {"control": "control", "twin": "control", "treatment": "treatment"}
        if self._reference is not None:
            sides = {"treatment": "treatment"}
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="opduel-outputs-")))
            workers = {
                name: stack.enter_context(
                    RestartingWorker(side, bench.builds[side], bench.adaptor, bench.environment, bench.cpus.start)
                )
                for name, side in sides.items()
            }
            yield _Triple(workers, folder, self._seed, self._can_fork, self._deadline, self._reference)


class _Triple:
    """Three workers, or one and the reference, and the folder that they write to."""

    def __init__(
        self,
        workers: Mapping[str, RestartingWorker],
        folder: Path,
        seed: int,
        can_fork: Callable[[Case], bool],
        deadline: float,
        reference: Reference | None = None,
    ) -> None:
        self._solos, self._folder, self._seed = workers, folder, seed
        self._can_fork, self._deadline, self._reference = can_fork, deadline, reference

    def look(self, case: Case) -> Comparison | None:
        """What one look at a case says; ``regressed`` is a suspicion. None: the time was up before it was over."""
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            answers = self._answers(case, Path(folder))
            failures = {name: one.results for name, one in answers.items() if isinstance(one.results, Failure)}
            if failures and time.monotonic() >= self._deadline:
                return None
            if failures:
                return _failed(case, failures)
            arrays = {name: one.results for name, one in answers.items() if not isinstance(one.results, Failure)}
            if self._reference is None:
                itself = difference(arrays["control"], arrays["twin"], case.tolerance, ("first", "second"))
            elif answers["control"].inputs not in ("", answers["treatment"].inputs):
                return _open(case, OTHER_INPUTS)
            else:
                itself = self._reference.itself(case)
            other = difference(arrays["control"], arrays["treatment"], case.tolerance, SIDES)
        seen = replace(_open(case, ""), control=itself.figure, treatment=other.figure, rounds=1)
        if itself.words:
            note = f"the control differs from itself in a second process: {itself.words}"
            return replace(seen, note=note)
        if other.words:
            return replace(seen, verdict="regressed", note=_joined(other.words, other.partial))
        return replace(seen, verdict="unchanged", note=other.partial)

    def _answers(self, case: Case, folder: Path) -> dict[str, Answer]:
        """What each worker computes, and what the reference has."""
        found = {}
        if self._reference is not None:
            kept = self._reference.results(case, folder / "control")
            found["control"] = Answer(kept, self._reference.inputs(case))
        for name, worker in self._solos.items():
            digest, fork = self._reference is not None, self._can_fork(case)
            found[name] = ask_results(worker, case, self._seed, folder / name, fork, self._deadline, digest)
        return found


def ask_results(
    worker: RestartingWorker, case: Case, seed: int, folder: Path, fork: bool, deadline: float, digest: bool = False
) -> Answer:
    """What a worker computes, in files of ``folder``, which is made; asked again where it was lost, once.

    ``digest``: ask for that of the inputs' values, too.
    """
    folder.mkdir()
    about = {"case": CaseRequest(case, seed).description(), "seed": seed}
    requests = [{"op": "results", **about, "folder": str(folder), "limit": MOST_BYTES}]
    if digest:
        requests.append({"op": "digest", **about})
    tries = 1
    while True:
        if time.monotonic() >= deadline:  # before a worker is started
            return Answer(Failure(worker.side, "timeout", OUT_OF_TIME))
        answer = worker.ask(requests, time_left(case, deadline), fork=fork)
        if not isinstance(answer, Failure):
            arrays = [_array(one, folder) for one in answer[0]["arrays"]]
            return Answer(arrays, str(answer[1]["digest"]) if digest else "")
        if answer.kind in FOR_GOOD or tries == MOST_TRIES:
            return Answer(answer)
        tries += 1


def _array(told: Mapping[str, Any], folder: Path) -> Array:
    return Array(
        name=told["name"],
        dtype=told["dtype"],
        shape=tuple(told["shape"]),
        storage=told["storage"],
        file=str(folder / told["file"]),
        count=int(told["count"]),
    )


def difference(
    left: Sequence[Array], right: Sequence[Array], tolerance: Tolerance, names: tuple[str, str]
) -> Difference:
    """How ``right`` differs from ``left``; ``names`` are what the two are called."""
    known = {one.name: one for one in right}
    words, figure, partial = "", 0.0, ""
    if missing := [one.name for one in left if one.name not in known]:
        words, figure = f"{missing[0]} exists only on the {names[0]}", math.inf
    elif extra := sorted({one.name for one in right} - {one.name for one in left}):
        words, figure = f"{extra[0]} exists only on the {names[1]}", math.inf
    for one in left:
        if one.name not in known:
            continue
        other = known[one.name]
        unlike = _unlike(one, other)
        if unlike:
            words, figure = words or f"{one.name}: {unlike}", math.inf
            continue
        close = compare(elements(one), elements(other), tolerance)
        figure = max(figure, close.figure)
        words = words or ("" if close.close else f"{one.name}: {_told(close, one)}")
        if one.count < math.prod(one.shape):
            partial = f"of {one.name} only the first {one.count} elements were compared"
    return Difference(words, figure, partial)


def _unlike(left: Array, right: Array) -> str:
    """What the arrays' kinds differ in, in words."""
    for what, a, b in (
        ("shape", left.shape, right.shape),
        ("dtype", left.dtype, right.dtype),
        ("storage", left.storage, right.storage),
    ):
        if a != b:
            return f"{what} {a} against {b}"
    return ""


def elements(array: Array) -> "np.ndarray[Any, np.dtype[Any]]":
    """The elements on disk, of the array's own shape if all are there."""
    if array.count == 0:
        return np.empty(0, dtype=array.dtype)
    elements = np.memmap(array.file, dtype=array.dtype, mode="r", shape=(array.count,))
    return elements.reshape(array.shape) if array.count == math.prod(array.shape) else elements


def _told(close: Closeness, array: Array) -> str:
    """``at (0, 3) 1.5 against 1.25; 12 of 64 elements differ ...``."""
    left, right = close.values or (math.nan, math.nan)
    place = f"at {close.first}" if close.first else "value"
    largest = "" if math.isinf(close.figure) else f", by up to {close.figure:.3g} times that"
    return (
        f"{place} {left!r} against {right!r}; {close.different} of {array.count} differ by more than "
        f"{close.absolute:.2g} + {close.relative:.2g} |control|{largest}"
    )


def _failed(case: Case, failures: Mapping[str, Failure]) -> Comparison:
    """The failure of one side, or of both."""
    sides = {failure.side for failure in failures.values()}
    failure = next(iter(failures.values()))
    return replace(
        _open(case, ""), verdict="failed", failure=replace(failure, side="both") if len(sides) > 1 else failure
    )


def _confirmed(first: Comparison, second: Comparison) -> Comparison:
    """What two looks in fresh processes say together."""
    if second.verdict == "regressed":
        return replace(second, rounds=2)
    found = {"unchanged": "agreed when computed again", "failed": "failed when computed again"}
    return replace(_unconfirmed(first, found.get(second.verdict, second.note)), rounds=2)


def _unconfirmed(first: Comparison, why: str) -> Comparison:
    return replace(first, verdict="inconclusive", note=f"differed at first ({first.note}), {why}")


def _with_reason(one: Comparison, why: str) -> Comparison:
    """Of a case that was not come to, why."""
    left = one.verdict == "inconclusive" and one.note.endswith((NOT_COMPARED, NOT_AGAIN))
    return replace(one, note=f"{one.note}: {why}") if left else one


def _joined(*texts: str) -> str:
    return "; ".join(filter(None, texts))


def _open(case: Case, note: str) -> Comparison:
    """An inconclusive comparison without figures."""
    return Comparison.without_figures(case, "inconclusive", note=note)
