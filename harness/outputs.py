"""A case's outputs, gradients and changed arguments: computed by a worker, and compared between two processes."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from opduel.comparator.allclose import Closeness, compare
from opduel.harness.budget import NO_TIME_LEFT
from opduel.harness.case_request import CaseRequest, time_left
from opduel.harness.restarting_worker import RestartingWorker
from opduel.records import Case, Failure, Tolerance

MOST_BYTES = 1 << 28  # of one array: of a larger one as many from its beginning are compared
FOR_GOOD = ("error", "missing")  # kinds of failure that a second try would not change
DESCRIBED = ("shape", "dtype", "precision", "storage")  # what two arrays have to have in common
MOST_TRIES = 2  # of a case whose process was lost: a single loss may have had another cause


@dataclass(frozen=True)
class Kept:
    """An array's name, and its ``shape`` and ``dtype`` (numpy's name) as a whole. ``count``: how many of its elements,
    in C order, were kept. ``precision``: the dtype by whose tolerance it is compared, if that isn't its own."""

    name: str
    dtype: str
    shape: Sequence[int]
    storage: str
    count: int
    precision: str = field(default="", kw_only=True)


@dataclass(frozen=True)
class Array(Kept):
    """One output, gradient or changed argument; ``file`` has its elements."""

    file: str


@dataclass(frozen=True)
class Difference:
    """The first array that differs between two processes, in words, and the largest figure of any."""

    words: str  # empty: none differs
    figure: float
    partial: str = ""  # what was not compared, in words


@dataclass(frozen=True)
class Answer:
    """What one process computed of a case, or why it didn't, and the digest of its inputs' values, if that was asked
    for and is known. ``itself``: how the build differed from itself in a second process, if that is known."""

    results: Sequence[Array] | Failure
    inputs: str = ""
    itself: Difference | None = None


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
    for _ in range(MOST_TRIES):
        if time.monotonic() >= deadline:  # before a worker is started
            return Answer(Failure(worker.side, "timeout", NO_TIME_LEFT))
        answer = worker.ask(requests, time_left(case, deadline), fork=fork)
        if not isinstance(answer, Failure):
            arrays = [
                Array(**{**one, "shape": tuple(one["shape"]), "file": str(folder / one["file"])})
                for one in answer[0]["arrays"]
            ]
            return Answer(arrays, str(answer[1]["digest"]) if digest else "")
        failure = answer
        if failure.kind in FOR_GOOD:
            break
    return Answer(failure)


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
        if unlike := [
            what for what in ("shape", "dtype", "precision", "storage") if getattr(one, what) != getattr(other, what)
        ]:
            kinds = " against ".join(str(getattr(array, unlike[0])) for array in (one, other))
            words, figure = words or f"{one.name}: {unlike[0]} {kinds}", math.inf
            continue
        close = compare(elements(one), elements(other), tolerance, one.precision)
        figure = max(figure, close.figure)
        words = words or ("" if close.close else f"{one.name}: {_told(close, one)}")
        if one.count < math.prod(one.shape):
            partial = f"of {one.name} only the first {one.count} elements were compared"
    return Difference(words, figure, partial)


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
