"""Asks both sides about cases in fresh process pairs, after all measuring.

The sides are asked one after the other, in random order, on the processors that measure, so that what they say of time
can be compared.
"""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opduel.harness.machine.cpus import WIPING_VARIABLE
from opduel.harness.planning.budget import NO_TIME_LEFT
from opduel.harness.processes.case_request import CaseRequest, time_left
from opduel.harness.processes.process import START_TIMEOUT_S, Worker
from opduel.harness.processes.worker_errors import CaseRefusedError, on_both_sides
from opduel.harness.profiles import Profiling, calls_within
from opduel.harness.rounds.blocks import Processes
from opduel.harness.rounds.counter_round import run_counter_round, sample_of
from opduel.harness.rounds.pair import Round, RoundResult
from opduel.records import Case, Failure, PairSample
from opduel.records.cause import Observation, Part
from opduel.records.measurement import SIDES, Side

PAIRS = 5
MOST_FAILURES = 2  # of one case: it isn't tried in further pairs


@dataclass(frozen=True)
class Question:
    """What both sides are asked of each case: a request of the worker's, and about how long its calls take together,
    or how many there are at most. None: it takes no calls, and is asked in one pair only."""

    op: str
    work_ns: float | None = None
    most: int = 1


class UnansweredError(Exception):
    """There is no answer to a question; the text says why, in one line."""


@dataclass
class Answers:
    """What both sides answered about a case: by question, an entry for each process pair in which both did.

    ``problems``: why a question was not asked again, in one line; ``failures``: why the case could not be asked at
    all, an entry for each such pair.
    """

    of: dict[str, list[Mapping[Side, Mapping[str, Any]]]] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def about(self, op: str) -> list[Mapping[Side, Mapping[str, Any]]]:
        """Return the answers to a question. Raises UnansweredError: there are none."""
        if op not in self.of:
            raise UnansweredError(self.problems.get(op, [*self.failures, NO_TIME_LEFT][0]))
        return self.of[op]

    def observations(
        self, op: str, parts_of: Callable[[Mapping[str, Any]], Mapping[str, Part]], nothing: str
    ) -> list[Observation]:
        """Return the observation of each process pair, of the parts of each answer. Raises UnansweredError: there is
        none, or, in the words of ``nothing``, no answer has a part."""
        observations: list[Observation] = [{side: parts_of(pair[side]) for side in SIDES} for pair in self.about(op)]
        if not any(parts for pair in observations for parts in pair.values()):
            raise UnansweredError(nothing)
        return observations


def ask_in_pairs(
    profiling: Profiling, cases: Sequence[Case], questions: Sequence[Question], pairs: int = PAIRS
) -> dict[str, Answers]:
    """Return for each case id the answers of both sides in ``pairs`` fresh process pairs, fewer after the deadline.

    Each pair is asked about every case that can be forked; others get a pair for themselves.  A case that fails twice
    is not asked again, nor is a question that was refused or that a process died of.  Never raises for what a worker
    does.
    """
    interview = _Interview(profiling, questions)
    for number in range(pairs):
        for group in interview.open_groups(cases):
            if time.monotonic() < profiling.deadline:
                interview.ask_group(group, number)
    return {case.id: interview.answers_of(case) for case in cases}


class _Interview:
    """What is asked of cases, one process pair after another, and what both sides have answered so far."""

    def __init__(self, profiling: Profiling, questions: Sequence[Question]) -> None:
        self._profiling, self._questions = profiling, questions
        self._rng = random.Random(f"causes {profiling.seed}")
        self._answers: dict[str, Answers] = {}
        self._last_question: dict[str, str] = {}  # by case, in the present pair: the question that was asked last

    def answers_of(self, case: Case) -> Answers:
        return self._answers.setdefault(case.id, Answers())

    def open_groups(self, cases: Sequence[Case]) -> list[list[Case]]:
        """Return the cases that still have questions, in groups that share a process pair."""
        open_cases = [
            case for case in cases if len(self.answers_of(case).failures) < MOST_FAILURES and self._open_questions(case)
        ]
        forking = [case for case in open_cases if self._can_fork(case)]
        return [*([forking] if forking else []), *([case] for case in open_cases if not self._can_fork(case))]

    def _can_fork(self, case: Case) -> bool:
        return self._profiling.framework.can_fork(self._profiling.threads, case.context)

    def _open_questions(self, case: Case) -> list[Question]:
        answers = self.answers_of(case)
        return [
            question
            for question in self._questions
            if question.op not in answers.problems and (question.work_ns is not None or question.op not in answers.of)
        ]

    def ask_group(self, cases: Sequence[Case], number: int) -> None:
        """Ask a fresh process pair about each of the cases."""
        bench, profiling, result = self._profiling.bench, self._profiling, RoundResult()
        wiping = {WIPING_VARIABLE: str(bench.wiping.size)} if bench.wiping else {}

        def start(side: Side, drawn: Mapping[str, str]) -> Worker:
            environment = {**drawn, **bench.environment, **wiping}
            return Worker(side, bench.builds[side], bench.adaptor, environment, bench.cpus.start)

        self._last_question = {}
        requests = [CaseRequest(case, profiling.seed) for case in cases]
        plan = Round(requests, number, self._can_fork(cases[0]), profiling.deadline)
        run_counter_round(plan, self._rng, result, start, START_TIMEOUT_S, self._ask)
        failures = {**result.refused, **result.lost}
        if result.lost_worker is not None:
            failures = {**{request.case.id: result.lost_worker for request in result.unmeasured}, **failures}
        for case_id, failure in failures.items():
            if case_id in self._last_question:
                self._answers[case_id].problems[self._last_question[case_id]] = _describe_failure(failure)
            else:
                self._answers[case_id].failures.append(_describe_failure(failure))

    def _ask(self, processes: Processes, request: CaseRequest, this_round: Round) -> PairSample:
        """Ask both sides a case's open questions. Raises CaseRefusedError, CaseLostError, WorkerLostError."""
        case = request.case
        prepared = self._ask_both(processes, case, {side: request.message(side) for side in SIDES}, this_round)
        call_ns = {side: float(prepared[side]["call_ns"]) for side in SIDES}
        for question in self._open_questions(case):
            message: dict[str, Any] = {"op": question.op}
            if question.work_ns is not None:  # both sides make the same number of calls
                message["calls"] = calls_within(question.work_ns, max(call_ns.values()), question.most)
            self._last_question[case.id] = question.op
            answers = self._answers[case.id]
            try:
                pair = self._ask_both(processes, case, dict.fromkeys(SIDES, message), this_round)
                answers.of.setdefault(question.op, []).append(pair)
            except CaseRefusedError as error:
                answers.problems[question.op] = _describe_failure(error.failure)
        return sample_of(request, this_round, call_ns["control"], call_ns["treatment"], 1)

    def _ask_both(
        self, processes: Processes, case: Case, messages: Mapping[Side, Mapping[str, Any]], this_round: Round
    ) -> dict[Side, Mapping[str, Any]]:
        """Return both sides' answers. Raises CaseRefusedError, CaseLostError, WorkerLostError: with the side, or
        "both"."""

        def ask(side: Side) -> Mapping[str, Any]:
            processes[side].pin(self._profiling.bench.cpus.measure)
            return processes[side].ask(messages[side], time_left(case, this_round.deadline))

        return on_both_sides(ask, self._rng.sample(SIDES, 2))


def _describe_failure(failure: Failure) -> str:
    return failure.reason if failure.side == "both" else f"{failure.side}: {failure.reason}"
