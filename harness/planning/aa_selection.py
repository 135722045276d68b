"""A/A checks: cases that a run also measures on two processes of the same build, where no difference can be."""

import random
from collections import Counter
from collections.abc import Sequence

from opduel.harness.processes.case_request import CaseRequest
from opduel.records import DEFAULT_METRIC, Case, Stage

EVERY = 10  # one A/A check for so many cases
MOST = 4  # more would add no evidence: they share the machine and the moment


def usual_count(cases: int) -> int:
    """Return how many A/A checks a run of so many cases has by default: one in ten, 1 to 4."""
    return max(1, min(MOST, cases // EVERY))


def draw_aa_cases(cases: Sequence[Case], count: int, seed: int) -> tuple[Case, ...]:
    """Return ``count`` of the cases (all, if there are fewer), drawn from the seed: a fixed set, so that each gets
    samples. Only cases measured by time are drawn: counts of instructions don't mind what the host does."""
    timed = [case for case in cases if case.metric == DEFAULT_METRIC]
    return tuple(random.Random(f"sentinels {seed}").sample(timed, min(count, len(timed))))


class AASchedule:
    """Distributes A/A checks over the rounds of cases measured by time; ``timed_cases`` counts these.

    A round has as large a share of the A/A checks as it has of the cases at screening, at least one; of the rounds of
    suspects alone every second has one. So their cost stays a share of the run's, however long it becomes.
    """

    def __init__(self, aa_cases: Sequence[Case], timed_cases: int) -> None:
        self._aa_cases = list(aa_cases)
        self._timed_cases = timed_cases
        self._measured: Counter[str] = Counter()
        self._confirmation_rounds = 0
        self._due_alone = 0.0

    def drop(self, case_id: str) -> None:
        """Leave out a case that can't be measured, from now on."""
        self._aa_cases = [case for case in self._aa_cases if case.id != case_id]

    def due_within(self, requests: Sequence[CaseRequest]) -> list[Case]:
        """Return the A/A checks that a round of these, each measured in a fork, takes along."""
        if not any(request.case.metric == DEFAULT_METRIC for request in requests):
            return []
        screened = sum(request.stage == "screening" for request in requests)
        if not screened:
            self._confirmation_rounds += 1
            return self._least_measured(self._confirmation_rounds % 2)
        return self._least_measured(max(1, round(len(self._aa_cases) * screened / self._timed_cases)))

    def due_alone(self, stage: Stage) -> list[Case]:
        """Return the A/A check that is due a round of its own after a timed case had one; mostly none is."""
        self._due_alone += self._share_alone(stage)
        due = int(self._due_alone)
        self._due_alone -= due
        return self._least_measured(due)

    def replay(self, stages: Sequence[Stage], aa_ids: Sequence[str], fork: bool) -> None:
        """Take note of an earlier process's round of timed cases, or of A/A checks: their stages and ids."""
        self._measured.update(aa_ids)
        if fork:
            self._confirmation_rounds += "screening" not in stages
        elif stages:
            self._due_alone += self._share_alone(stages[0])
        else:
            self._due_alone -= len(aa_ids)

    def _share_alone(self, stage: Stage) -> float:
        return min(1.0, len(self._aa_cases) / self._timed_cases) * (1 if stage == "screening" else 0.5)

    def _least_measured(self, count: int) -> list[Case]:
        chosen = sorted(self._aa_cases, key=lambda case: self._measured[case.id])[:count]
        self._measured.update(case.id for case in chosen)
        return chosen
