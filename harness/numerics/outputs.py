"""A case's outputs, gradients and changed arguments: computed by a worker, and compared between two processes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from opduel.comparator.allclose import Closeness, compare
from opduel.harness.planning.budget import NO_TIME_LEFT
from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.processes.restarting_worker import RestartingWorker
from opduel.records import Case, Failure, Tolerance

MOST_BYTES = 1 << 28  # of one array: of a larger one as many from its beginning are compared
FOR_GOOD = ("error", "missing")  # kinds of failure that a second try would not change
COMPARED = ("shape", "dtype", "precision", "storage")  # what two arrays have to have in common
MOST_TRIES = 2  # of a case whose process was lost: a single loss may have had another cause


@dataclass(frozen=True)
class ArrayInfo:
    """What is known of an array without its elements: its name, ``shape`` and ``dtype`` (numpy's name). ``count``: how
    many elements, in C order, were stored. ``precision``: the dtype whose tolerance counts, if that isn't its own."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    storage: str
    count: int
    precision: str = field(default="", kw_only=True)


ARRAY_FIELDS = tuple(field.name for field in fields(ArrayInfo))


@dataclass(frozen=True)
class Array(ArrayInfo):
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
    for and is known."""

    results: Sequence[Array] | Failure
    inputs: str = ""


def ask_results(
    worker: RestartingWorker, case: Case, seed: int, folder: Path, fork: bool, deadline: float, digest: bool = False
) -> Answer:
    """Ask a worker for what it computes, in files of ``folder``, which is made; asked again where it was lost, once.

    ``digest``: ask for that of the inputs' values, too.
    """
    folder.mkdir()
    about = {"case": CaseRequest(case, seed).description(), "seed": seed}
    requests = [{"op": "results", **about, "folder": str(folder), "limit": MOST_BYTES}]
    if digest:
        requests.append({"op": "digest", **about})
    for _ in range(MOST_TRIES):
        answer = worker.ask_until(deadline, case, requests, fork=fork)
        if answer is None:
            return Answer(Failure(worker.side, "timeout", NO_TIME_LEFT))
        if not isinstance(answer, Failure):
            arrays = [
                Array(**{**array, "shape": tuple(array["shape"]), "file": str(folder / array["file"])})
                for array in answer[0]["arrays"]
            ]
            return Answer(arrays, str(answer[1]["digest"]) if digest else "")
        failure = answer
        if failure.kind in FOR_GOOD:
            break
    return Answer(failure)


def difference(
    first: Sequence[Array], second: Sequence[Array], tolerance: Tolerance, names: tuple[str, str]
) -> Difference:
    """Return how ``second`` differs from ``first``; ``names``: what messages call the two."""
    first_by_name, second_by_name = ({array.name: array for array in arrays} for arrays in (first, second))
    words, figure, partial = "", 0.0, ""
    if missing := [name for name in first_by_name if name not in second_by_name]:
        words, figure = f"{missing[0]} exists only on the {names[0]}", math.inf
    elif extra := sorted(set(second_by_name) - set(first_by_name)):
        words, figure = f"{extra[0]} exists only on the {names[1]}", math.inf
    for name, array in first_by_name.items():
        if name not in second_by_name:
            continue
        other = second_by_name[name]
        if unlike := [part for part in COMPARED if getattr(array, part) != getattr(other, part)]:
            kinds = " against ".join(_describe_part(unlike[0], getattr(side, unlike[0])) for side in (array, other))
            words, figure = words or f"{name}: {unlike[0]} {kinds}", math.inf
            continue
        close = compare(elements(array), elements(other), tolerance, array.precision)
        figure = max(figure, close.figure)
        words = words or ("" if close.close else f"{name}: {_describe_closeness(close, array)}")
        if array.count < math.prod(array.shape):
            partial = f"of {name} only the first {array.count} elements were compared"
    return Difference(words, figure, partial)


def elements(array: Array) -> "np.ndarray[Any, np.dtype[Any]]":
    """Return the elements on disk, of the array's own shape if all are there."""
    if array.count == 0:
        return np.empty(0, dtype=array.dtype)
    elements = np.memmap(array.file, dtype=array.dtype, mode="r", shape=(array.count,))
    return elements.reshape(array.shape) if array.count == math.prod(array.shape) else elements


def _describe_part(part: str, value: Any) -> str:
    """Return a shape as it is, and a dtype by its name: ``int64`` for ``<i8``."""
    return np.dtype(value).name if part == "dtype" else str(value)


def _describe_closeness(close: Closeness, array: Array) -> str:
    """Return ``at (0, 3) 1.5 against 1.25; 12 of 64 elements differ ...``."""
    first, second = close.values or (math.nan, math.nan)
    place = f"at {close.first}" if close.first else "value"
    largest = "" if math.isinf(close.figure) else f", by up to {close.figure:.3g} times that"
    return (
        f"{place} {first!r} against {second!r}; {close.different} of {array.count} differ by more than "
        f"{close.absolute:.2g} + {close.relative:.2g} |control|{largest}"
    )
