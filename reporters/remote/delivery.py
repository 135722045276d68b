"""Send the reports that wait: each several times if necessary, until the server has it or seems to be away."""

import logging
import random
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from opduel.records import RunError
from opduel.reporters.remote.post import Answer, Payload, Waits, post
from opduel.reporters.remote.spool import REPORT, Spool, endpoint_of, place_of
from opduel.reporters.remote.token import Token
from opduel.support.outbox import Attempt, Delivery, Entry

_OTHERS = "another process is sending from this spool"
_NO_TIME = "no time was left for it"

log = logging.getLogger(__name__)


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
        pause_s = self.waits.first_pause_s
        while True:
            answer = post(payload, self.token, self.waits, max(until - self.clock(), 0.001))
            wait_s = max(pause_s * (1 - self.rng() / 2), answer.after_s or 0.0)
            if answer.kind != "again" or self.clock() + wait_s >= until:
                return answer
            log.info("%s: %s; retrying in %.0f s", payload.place.endpoint, answer.words, wait_s)
            self.sleep(wait_s)
            pause_s = min(2 * pause_s, max(self.waits.first_pause_s, self.waits.longest_pause_s))

    def deliver(
        self, endpoints: Collection[str] | None = None, retry_refused: bool = False, each: bool = False
    ) -> list[Delivery]:
        """Send what waits for these endpoints, or for all; what is left stays in the spool, and nothing is lost.

        After the first sign that a server is away, or wants another token, it gets no other report this time. All of it
        takes ``Waits.whole_s`` at most; with ``each``, each report may. Raises RunError: the spool can't be read or
        written.
        """
        until = self.clock() + self.waits.whole_s

        def attempt(entry: Entry, body: bytes) -> Attempt:
            end = self.clock() + self.waits.whole_s if each else until
            if self.clock() >= end:
                return Attempt("away", _NO_TIME)
            answer = self.send(Payload(place_of(entry), entry.key, body), end)
            if answer.kind in ("stored", "refused"):
                return Attempt("delivered" if answer.kind == "stored" else "refused", answer.words, answer.page)
            # A report that the server fails on must not block the others; that it is down is no report's fault.
            return Attempt("failed" if answer.kind == "again" and answer.status else "away", answer.words)

        try:
            with self.spool.locked(self.waits.whole_s, self.clock, self.sleep) as alone, self.spool.outbox() as outbox:
                entries = [  # damage is reported once, when it is found
                    entry
                    for entry in outbox.entries(REPORT)
                    if entry.state != "damaged" and (endpoints is None or endpoint_of(entry.receiver) in endpoints)
                ]
                if not alone:
                    return [Delivery(entry, "waiting", _OTHERS) for entry in entries]
                return list(outbox.deliver(entries, attempt, endpoint_of, retry_refused))
        except OSError as error:
            why = f"cannot be used ({error.strerror}): fix that, or give another --spool"
            raise RunError(f"{self.spool.directory}: {why}") from None
