"""What a worker needs to know of a case to prepare it, and how long it may take."""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeVar

from opduel.records import DEFAULT_METRIC, Case, Stage
from opduel.records.measurement import Side

T = TypeVar("T")
DESCRIBED = ("operator", "direction", "inputs", "dtype", "context", "mode")  # what an adaptor needs to know of a case


@dataclass(frozen=True)
class CaseRequest:
    """What the worker needs to prepare a case: the same for both sides, but for which one an injection slows."""

    case: Case
    seed: int
    inject: float = 0.0  # share by which the treatment side is slowed
    stage: Stage = "screening"

    def description(self) -> dict[str, Any]:
        """Return what the adaptor needs to know of the case; its inputs are drawn from the id, alike for every
        metric."""
        files = {name: file.path for name, file in self.case.files.items()}
        return {"id": self.case.time_id, **{name: getattr(self.case, name) for name in DESCRIBED}, "files": files}

    def message(self, side: Side) -> dict[str, Any]:
        """Return the worker's "prepare" request. Both sides calibrate the injected work, so that both have made the
        same calls; only the treatment is slowed by it."""
        timed = self.case.metric == DEFAULT_METRIC
        sets = {"sets": self.case.input_sets} if timed and self.case.input_sets > 1 else {}
        about = {"case": self.description(), "seed": self.seed, "inject": self.inject, "slow": side == "treatment"}
        return {"op": "prepare", **about, **sets}


def shuffled(items: Sequence[T], case_of: Callable[[T], Case], rng: random.Random) -> list[T]:
    """Return them in random order, but those of one module after another, as the operators' names tell: a worker may
    have to import it for them."""
    in_random_order = rng.sample(items, len(items))
    ranks: dict[str, int] = {}

    def place(item: T) -> list[int]:
        modules = case_of(item).operator.split(".")[:-1]
        return [ranks.setdefault(name, len(ranks)) for name in accumulate(modules, "{}.{}".format)]

    return sorted(in_random_order, key=place)


def one_of_each_first(cases: Sequence[Case]) -> list[Case]:
    """Return the cases, one of each benchmark before the others."""
    first_cases = {benchmark_of(case): case for case in reversed(cases)}
    return [*reversed(first_cases.values()), *(case for case in cases if case is not first_cases[benchmark_of(case)])]


def benchmark_of(case: Case) -> tuple[str, str]:
    """Return what cases share that differ in their parameters: the operator; of a line of Python also its text."""
    return case.operator, str(case.inputs.get("statement", ""))


def time_left(case: Case, deadline: float, slowdown: float = 1) -> float:
    """Return the seconds that one request may take: ``slowdown`` times the case's timeout, or less when the run ends
    before."""
    return max(0.001, min(slowdown * case.timeout_s, deadline - time.monotonic()))
