"""What each tool gets, and what it answers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from opduel.harness.processes.pair_pool import Bench
from opduel.records import Case

Answer = Literal["slower", "faster", "same", "failed"]
Answers = Mapping[str, Answer]  # by case id


@dataclass(frozen=True)
class Trial:
    """One comparison of a build with itself: the treatment of the ``injected`` cases is slowed by ``share``."""

    bench: Bench
    spec: str
    cases: Sequence[Case]
    seed: int
    share: float
    injected: frozenset[str]  # case ids
    opduel_seconds: float | None = None  # that opduel took for the same comparison, if it has made it


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
