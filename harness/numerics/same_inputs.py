"""Do both sides make the same inputs of a case? Asked once before measuring, where the sides have two frameworks."""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from opduel.harness.processes.case_request import CaseRequest, time_left
from opduel.harness.processes.pair_pool import Bench
from opduel.records import Case, Comparison, Failure
from opduel.records.measurement import SIDES

DIFFER = (
    "the inputs' values differ between the two sides: give tensors as positional args, in one order and of one dtype"
)
# of the time that is left, at most: a quarter at least is left for comparing outputs (OUTPUT_CHECK_SHARE)
INPUT_CHECK_SHARE = 0.25


def with_other_inputs(
    cases: Sequence[Case], bench: Bench, seed: int, can_fork: Callable[[Case], bool], budget_s: float | None = None
) -> list[Comparison]:
    """Return a failed comparison for each case whose inputs have other values on the treatment than on the control.

    What either side can't say (its adaptor has no digest, or refuses the case) is none of these: measuring tells. After
    ``budget_s`` seconds no further case is looked at. Raises RunError: a build can't be started."""
    deadline = math.inf if budget_s is None else time.monotonic() + budget_s
    differing: dict[str, bool] = {}
    with ExitStack() as stack:
        workers = [stack.enter_context(bench.worker(side, bench.environment, bench.cpus.start)) for side in SIDES]
        for case in cases:
            if case.time_id in differing or time.monotonic() >= deadline:
                continue
            request = CaseRequest(case, seed)
            question = {"op": "digest", "case": request.description(), "seed": seed}
            answers = [worker.ask([question], time_left(case, deadline), fork=can_fork(case)) for worker in workers]
            digests = {"" if isinstance(answer, Failure) else str(answer[0]["digest"]) for answer in answers}
            differing[case.time_id] = len(digests) > 1 and "" not in digests
    return [
        Comparison.without_figures(case, "failed", failure=Failure("both", "error", DIFFER))
        for case in cases
        if differing.get(case.time_id)
    ]
