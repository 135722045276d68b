"""Sending what waits: the oldest first, each several times if need be, until the server has it or seems to be away."""

import contextlib
import logging
import random
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from opduel.records import RunError
from opduel.reporters.http_retry import repeated
from opduel.reporters.remote.place import Place
from opduel.reporters.remote.post import Answer, Payload, Waits, post
from opduel.reporters.remote.spool import Damaged, DamagedError, OutboxEntry, Refusal, Spool, moment
from opduel.reporters.remote.token import Token

State = Literal["sent", "waiting", "refused", "damaged"]

_OTHERS = "another process is sending from this spool"
_NO_TIME = "no time was left for it"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Delivery:
    """What became of one letter, or of a damaged file; ``words`` is one line."""

    name: str  # of the file
    state: State
    words: str
    run: str = ""
    place: Place | None = None
    page: str = ""  # the address of the run's page, of one that was sent


@dataclass(frozen=True)
class Sender:
    """Posts with one token. ``clock`` is monotonic, in seconds; ``rng`` gives a number from 0 up, below 1."""

    spool: Spool
    token: Token | None = field(default=None, repr=False)
    waits: Waits = field(default_factory=Waits)
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    rng: Callable[[], float] = random.random

    def send(self, payload: Payload, until: float) -> Answer:
        """Post until the server has given an answer that will do, or the time would run out.

        Pauses double, and are shortened by up to half at random, so that many who wait don't come back at once;
        a ``Retry-After`` makes one longer.
        """
        pauses = self._pauses_s()

        def pause_s(answer: Answer) -> float | None:
            if answer.kind != "again":
                return None
            wait_s = max(next(pauses) * (1 - self.rng() / 2), answer.after_s or 0.0)
            if self.clock() + wait_s >= until:
                return None
            log.info("%s: %s; retrying in %.0f s", payload.place.endpoint, answer.words, wait_s)
            return wait_s

        def attempt() -> Answer:
            return post(payload, self.token, self.waits, max(until - self.clock(), 0.001))

        return repeated(attempt, pause_s, self.sleep)

    def _pauses_s(self) -> Iterator[float]:
        pause = self.waits.first_pause_s
        while True:
            yield pause
            pause = min(2 * pause, self.waits.longest_pause_s)

    def deliver(
        self, endpoints: Collection[str] | None = None, retry_refused: bool = False, each: bool = False
    ) -> list[Delivery]:
        """Send what waits for these endpoints, or for all; what is left stays in the spool, and nothing is lost.

        After the first sign that a server is away, or wants another token, it gets no other letter this time. All of it
        takes ``Waits.whole_s`` at most; with ``each``, each letter may.

        Raises:
            RunError: the spool can't be read or written.
        """
        until = self.clock() + self.waits.whole_s
        try:
            with self.spool.locked(self.waits.whole_s, self.clock, self.sleep) as alone:
                entries, damaged = self.spool.contents()
                entries = [one for one in entries if endpoints is None or one.header.endpoint in endpoints]
                if not alone:
                    return [_delivery(one, "waiting", _OTHERS) for one in entries]
                return [*map(self._set_aside, damaged), *self._deliver(entries, retry_refused, each, until)]
        except OSError as error:
            raise RunError(
                f"{self.spool.directory}: cannot be used ({error.strerror}): fix that, or give another --spool"
            ) from None

    def _deliver(self, entries: Sequence[OutboxEntry], retry_refused: bool, each: bool, until: float) -> list[Delivery]:
        outcomes = []
        closed: dict[str, str] = {}  # endpoints that get no more this time, and why
        for entry in entries:
            endpoint, refused = entry.header.endpoint, entry.header.refused
            if refused is not None and not retry_refused:
                outcomes.append(_delivery(entry, "refused", f"on {refused.at[:10]} {refused.why}"))
            elif endpoint in closed:
                outcomes.append(_delivery(entry, "waiting", closed[endpoint]))
            else:
                end = self.clock() + self.waits.whole_s if each else until
                outcome = self._deliver_one(entry, end) if self.clock() < end else _delivery(entry, "waiting", _NO_TIME)
                if outcome.state == "waiting":
                    closed[endpoint] = outcome.words
                outcomes.append(outcome)
        return outcomes

    def _deliver_one(self, entry: OutboxEntry, until: float) -> Delivery:
        try:
            body = self.spool.body(entry)
        except FileNotFoundError:
            return _delivery(entry, "sent", "by another process")
        except (DamagedError, OSError) as error:
            return self._set_aside(Damaged(entry.path, str(error)))
        answer = self.send(Payload(entry.place, entry.header.run, body), until)
        if answer.kind == "stored":
            try:
                self.spool.remove(entry)
            except OSError as error:
                words = f"{answer.words}; its file can't be removed ({error.strerror})"
                return replace(_delivery(entry, "sent", words), page=answer.page)
            return replace(_delivery(entry, "sent", answer.words), page=answer.page)
        if answer.kind == "refused":
            with contextlib.suppress(OSError):  # then it is asked again next time
                self.spool.mark(entry, Refusal(moment(), answer.status, answer.words), body)
            return _delivery(entry, "refused", answer.words)
        return _delivery(entry, "waiting", answer.words)

    def _set_aside(self, damaged: Damaged) -> Delivery:
        try:
            where = self.spool.set_aside(damaged.path)
        except OSError as error:
            return Delivery(damaged.path.name, "damaged", f"{damaged.why}; it can't be moved ({error.strerror})")
        return Delivery(damaged.path.name, "damaged", f"{damaged.why}; moved to {where}")


def _delivery(entry: OutboxEntry, state: State, words: str) -> Delivery:
    return Delivery(entry.path.name, state, words, entry.header.run, entry.place)
