"""Send the reports that wait: each several times if necessary, until the server has it or seems to be away."""

import time
from collections.abc import Collection
from dataclasses import dataclass, field

from opduel.records import RunError
from opduel.reporters.http_request import Limits
from opduel.reporters.remote.post import LIMITS, Payload, post
from opduel.reporters.remote.spool import REPORT, Spool, endpoint_of, place_of
from opduel.reporters.remote.token import Token
from opduel.support.outbox import Attempt, Delivery, Entry

_OTHERS = "another process is sending from this spool"
_NO_TIME = "no time was left for it"


@dataclass(frozen=True)
class Sender:
    """Posts with one token. ``limits`` are those of a request, and of the spool's lock."""

    spool: Spool
    token: Token | None = field(default=None, repr=False)
    limits: Limits = LIMITS

    def deliver(
        self, endpoints: Collection[str] | None = None, retry_refused: bool = False, each: bool = False
    ) -> list[Delivery]:
        """Send what waits for these endpoints, or for all; what is left stays in the spool, and nothing is lost.

        After the first sign that a server is away, or wants another token, it gets no other report this time. After
        ``limits.whole_s`` no other is begun, unless ``each`` is to be. Raises RunError: the spool can't be read or
        written.
        """
        until = time.monotonic() + self.limits.whole_s

        def attempt(entry: Entry, body: bytes) -> Attempt:
            if time.monotonic() >= until and not each:
                return Attempt("away", _NO_TIME)
            answer = post(Payload(place_of(entry), entry.key, body), self.token, self.limits)
            if answer.kind in ("stored", "refused"):
                return Attempt("delivered" if answer.kind == "stored" else "refused", answer.words, answer.page)
            # A report that the server fails on must not block the others; that it is down is no report's fault.
            return Attempt("failed" if answer.kind == "again" and answer.status else "away", answer.words)

        try:
            with self.spool.locked(self.limits.whole_s) as alone, self.spool.outbox() as outbox:
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
