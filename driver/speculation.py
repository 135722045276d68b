"""Steps of a search that are measured before it asks for them, on hosts that would have nothing to do.

A search asks one question after the other. Which ones can follow is known: the same search, run over made-up answers,
asks them. So the search stays as it is, and so does what it finds; answers are only there sooner. With three hosts two
levels of a bisection's tree are measured at once, which splits a range in four parts.
"""

import heapq
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Generic, TypeVar

from opduel.driver.attribution import Range
from opduel.driver.bisection import Measure, Step

Question = tuple[Range, tuple[str, ...]]  # an A/B of two points on these cases
Answer = Mapping[str, Step]
Search = Callable[[Measure], object]  # runs it with what measures
CLEAR = Step("unchanged", 0.0, 0.0, 0.0)
GUESSES = 4  # made-up answers for each question that is wanted
MOST_HOSTS = 16  # more make a search hardly faster, and measure many times as much in vain

log = logging.getLogger(__name__)


class _AskedError(Exception):
    """The search asked what has no answer yet."""

    def __init__(self, question: Question) -> None:
        super().__init__(question)
        self.question = question


def likely_questions(
    search: Search, sought: Mapping[str, Step], answers: Mapping[Question, Answer], most: int
) -> list[Question]:
    """What the search will ask after these answers, ``most`` questions at most: first the one that it asks now, then
    those that follow, the likeliest ones first.

    ``sought``: the change of each case over the whole line. It is taken to be in one half as likely as in the other,
    and in the same half for all cases of a question, so that a made-up answer has half the probability of what asked
    for it. A question that comes up on several paths has the sum of their probabilities.
    """
    order = count()
    paths: list[tuple[float, int, dict[Question, Answer]]] = [(-1.0, next(order), dict(answers))]
    weights: dict[Question, float] = {}
    for _ in range(GUESSES * most):
        if not paths:
            break
        weight, _, known = heapq.heappop(paths)
        question = _asked_next(search, known)
        if question is None:
            continue
        weights[question] = weights.get(question, 0.0) - weight
        cases = question[1]
        for guess in ({case: sought[case] for case in cases}, dict.fromkeys(cases, CLEAR)):
            heapq.heappush(paths, (weight / 2, next(order), {**known, question: guess}))
    return sorted(weights, key=lambda one: -weights[one])[:most]


def _asked_next(search: Search, known: Mapping[Question, Answer]) -> Question | None:
    """The first question that has no answer; None: the search comes to its end."""

    def measure(left: int, right: int, cases: Sequence[str]) -> Answer:
        question = (left, right), tuple(cases)
        if question not in known:
            raise _AskedError(question)
        return known[question]

    try:
        search(measure)
    except _AskedError as asked:
        return asked.question
    return None


Q = TypeVar("Q")  # what is asked
A = TypeVar("A")  # what is answered
MeasureAhead = Callable[[Q, threading.Event], A | None]


@dataclass
class _Running:
    thread: threading.Thread
    given_up: threading.Event


class Ahead(Generic[Q, A]):
    """Measures in threads what is likely to be asked: ``measure`` keeps what it measured where whoever asks finds it,
    returns it, and ends soon after the event is set."""

    def __init__(
        self,
        likely: Callable[[Mapping[Q, A]], Sequence[Q]],
        hosts: int,
        measure: MeasureAhead[Q, A],
        on_given_up: Callable[[], None] = lambda: None,
    ) -> None:
        """``likely`` says what will be asked after these answers, the likeliest first. One of the ``hosts`` measures
        what is asked. ``on_given_up``: called when everything was given up, to end what takes long."""
        self._likely, self._hosts, self._measure, self._on_given_up = likely, hosts, measure, on_given_up
        self._lock = threading.Lock()
        self._running: dict[Q, _Running] = {}
        self._failed: set[Q] = set()
        self._answers: dict[Q, A] = {}
        self._now: Q | None = None

    def ask(self, question: Q) -> None:
        """This is asked now: see to what follows, and wait if it is under way."""
        with self._lock:
            self._now = question
            self._share_out()
            running = self._running.get(question)
        if running is not None:
            _join(running)

    def answered(self, question: Q, answer: A) -> None:
        """It has its answer."""
        with self._lock:
            self._answers[question] = answer
            self._now = None

    def close(self) -> None:
        """Give up everything, and wait until it has ended."""
        with self._lock:
            self._hosts = 0
            left = list(self._running.values())
        for one in left:
            one.given_up.set()
        self._on_given_up()
        for one in left:
            _join(one)

    def _share_out(self) -> None:
        """Give up what has become unlikely, and begin as much of what is likely as there are hosts for."""
        likely = self._likely(self._answers)
        for question, one in self._running.items():
            if question != self._now and question not in likely:
                one.given_up.set()
        busy = sum(not one.given_up.is_set() for one in self._running.values())
        free = self._hosts - busy - (self._now not in self._running)
        begun = {*self._running, *self._failed, *self._answers, self._now}
        for question in [one for one in likely if one not in begun][: max(0, free)]:
            given_up = threading.Event()
            thread = threading.Thread(target=self._follow, args=(question, given_up), daemon=True)
            self._running[question] = _Running(thread, given_up)
            thread.start()

    def _follow(self, question: Q, given_up: threading.Event) -> None:
        answer = None
        try:
            answer = self._measure(question, given_up)
        except (Exception, KeyboardInterrupt) as error:  # it will be said when it is asked
            log.debug("measuring ahead: %s", error)
        with self._lock:
            del self._running[question]
            if answer is not None:
                self._answers[question] = answer
            elif not given_up.is_set():
                self._failed.add(question)
            if self._hosts and self._now is not None:  # a host is free, and more is known
                self._share_out()


def _join(one: _Running) -> None:
    while one.thread.is_alive():  # with a time limit, so that a signal is heard
        one.thread.join(0.5)


@contextmanager
def searching_ahead(
    search: Search,
    sought: Mapping[str, Step],
    hosts: int,
    measure_now: Measure,
    measure_ahead: MeasureAhead[Question, Answer],
    on_given_up: Callable[[], None] = lambda: None,
) -> Iterator[Measure]:
    """What a search is to measure with: each question as ``measure_now`` does, and meanwhile, on all but one of the
    ``hosts``, what is likely to follow as ``measure_ahead`` does. Of many hosts ``MOST_HOSTS`` are used. At the end
    ``on_given_up`` is called, as by ``Ahead``."""
    hosts = min(hosts, MOST_HOSTS)
    if hosts < 2:
        yield measure_now
        return

    def likely(answers: Mapping[Question, Answer]) -> Sequence[Question]:
        return likely_questions(search, sought, answers, hosts)

    ahead = Ahead(likely, hosts, measure_ahead, on_given_up)

    def measure(left: int, right: int, cases: Sequence[str]) -> Mapping[str, Step]:
        question = (left, right), tuple(cases)
        ahead.ask(question)
        answer = measure_now(left, right, cases)
        ahead.answered(question, answer)
        return answer

    try:
        yield measure
    finally:
        ahead.close()
