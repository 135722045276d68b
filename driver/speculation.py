"""Measure likely next steps of a search ahead, on hosts that would be idle.

A search asks one question after the other. To learn which ones can follow, the same search is run with guessed answers.
It therefore stays unchanged, and so does its result; answers are only there sooner. Three hosts measure two levels of a
bisection's tree at once, which splits a range in four parts.
"""

import heapq
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Generic, TypeVar

from opduel.driver.attribution import NONE, Range
from opduel.driver.bisection import Measure, Step

Question = tuple[Range, tuple[str, ...]]  # an A/B of two points on these cases
Answer = Mapping[str, Step]
Search = Callable[[Measure], object]  # runs it with what measures
CLEAR = Step("unchanged", NONE)
GUESSES = 4  # guessed answers for each question to find
MOST_HOSTS = 16  # more hardly make a search faster, but measure much more in vain

log = logging.getLogger(__name__)


class _NoAnswerError(Exception):
    """The search asked a question that has no answer yet."""

    def __init__(self, question: Question) -> None:
        super().__init__(question)
        self.question = question


def likely_questions(
    search: Search, sought: Mapping[str, Step], answers: Mapping[Question, Answer], most: int
) -> list[Question]:
    """Return at most ``most`` questions that the search will probably ask after these answers, the likeliest first.

    The first one is asked now. ``sought`` has the change of each case over the whole line. It is taken to be in either
    half with the same probability, and in the same half for all cases of a question, so a guessed answer has half the
    probability of its question. A question on several paths has the sum of their probabilities.
    """
    order = count()
    paths: list[tuple[float, int, dict[Question, Answer]]] = [(-1.0, next(order), dict(answers))]
    weights: dict[Question, float] = {}
    for _ in range(GUESSES * most):
        if not paths:
            break
        weight, _, answered = heapq.heappop(paths)
        question = _next_question(search, answered)
        if question is None:
            continue
        weights[question] = weights.get(question, 0.0) - weight
        cases = question[1]
        for guess in ({case: sought[case] for case in cases}, dict.fromkeys(cases, CLEAR)):
            heapq.heappush(paths, (weight / 2, next(order), {**answered, question: guess}))
    return sorted(weights, key=lambda candidate: -weights[candidate])[:most]


def _next_question(search: Search, answered: Mapping[Question, Answer]) -> Question | None:
    """Return the first question that has no answer; None if the search ends."""

    def measure(start: int, end: int, cases: Sequence[str]) -> Answer:
        question = (start, end), tuple(cases)
        if question not in answered:
            raise _NoAnswerError(question)
        return answered[question]

    try:
        search(measure)
    except _NoAnswerError as error:
        return error.question
    return None


Q = TypeVar("Q")  # what is asked
A = TypeVar("A")  # what is answered
MeasureAhead = Callable[[Q, threading.Event], A | None]


class Ahead(Generic[Q, A]):
    """Measures in threads what will probably be asked.

    ``measure`` returns the answer, stores it where the search finds it, and ends soon after its event is set.
    """

    def __init__(
        self,
        likely: Callable[[Mapping[Q, A]], Sequence[Q]],
        hosts: int,
        measure: MeasureAhead[Q, A],
        on_given_up: Callable[[], None] = lambda: None,
    ) -> None:
        """``likely`` returns the next questions after the given answers, the likeliest first. One of the ``hosts``
        measures the question that is asked now. ``on_given_up`` is called when everything was given up."""
        self._likely, self._hosts, self._measure, self._on_given_up = likely, hosts, measure, on_given_up
        self._lock = threading.Lock()
        self._running: dict[Q, tuple[threading.Thread, threading.Event]] = {}  # with the event that gives it up
        self._failed: set[Q] = set()
        self._answers: dict[Q, A] = {}
        self._now: Q | None = None

    def ask(self, question: Q) -> None:
        """Begin to measure what will follow this question; wait for its own measurement if that has begun."""
        with self._lock:
            self._now = question
            self._share_out()
            running = self._running.get(question)
        if running is not None:
            running[0].join()

    def answered(self, question: Q, answer: A) -> None:
        """Record the answer of a question."""
        with self._lock:
            self._answers[question] = answer
            self._now = None

    def close(self) -> None:
        """Give up all measurements, and wait until they have ended."""
        with self._lock:
            self._hosts = 0
            remaining = list(self._running.values())
        for _, given_up in remaining:
            given_up.set()
        self._on_given_up()
        for thread, _ in remaining:
            thread.join()

    def _share_out(self) -> None:
        """Give up questions that have become unlikely, and begin as many likely ones as there are free hosts."""
        likely = self._likely(self._answers)
        for question, (_, given_up) in self._running.items():
            if question != self._now and question not in likely:
                given_up.set()
        busy = sum(not given_up.is_set() for _, given_up in self._running.values())
        free = self._hosts - busy - (self._now not in self._running)
        excluded = {*self._running, *self._failed, *self._answers, self._now}
        for question in [question for question in likely if question not in excluded][: max(0, free)]:
            given_up = threading.Event()
            thread = threading.Thread(target=self._follow, args=(question, given_up), daemon=True)
            self._running[question] = thread, given_up
            thread.start()

    def _follow(self, question: Q, given_up: threading.Event) -> None:
        answer = None
        try:
            answer = self._measure(question, given_up)
        except (Exception, KeyboardInterrupt) as error:  # reported when the question is asked
            log.debug("measuring ahead: %s", error)
        with self._lock:
            del self._running[question]
            if answer is not None:
                self._answers[question] = answer
            elif not given_up.is_set():
                self._failed.add(question)
            if self._hosts and self._now is not None:  # a host has become free
                self._share_out()


@contextmanager
def searching_ahead(
    search: Search,
    sought: Mapping[str, Step],
    hosts: int,
    measure_now: Measure,
    measure_ahead: MeasureAhead[Question, Answer],
    on_given_up: Callable[[], None] = lambda: None,
) -> Iterator[Measure]:
    """Yield what a search measures with: ``measure_now``, while ``measure_ahead`` measures likely next questions on all
    but one of the ``hosts``, of which ``MOST_HOSTS`` are used at most. ``on_given_up`` is called at the end."""
    hosts = min(hosts, MOST_HOSTS)
    if hosts < 2:
        yield measure_now
        return

    def likely(answers: Mapping[Question, Answer]) -> Sequence[Question]:
        return likely_questions(search, sought, answers, hosts)

    ahead = Ahead(likely, hosts, measure_ahead, on_given_up)

    def measure(start: int, end: int, cases: Sequence[str]) -> Mapping[str, Step]:
        question = (start, end), tuple(cases)
        ahead.ask(question)
        answer = measure_now(start, end, cases)
        ahead.answered(question, answer)
        return answer

    try:
        yield measure
    finally:
        ahead.close()
