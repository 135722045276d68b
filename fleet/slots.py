"""Which of the runs of this process gives a host its next shard. Pure: no Dask.

Dask puts a task on a host at once, and leaves it there while another host becomes free. So no more shards are under way
than there are hosts, of all runs together, and the most urgent run is next.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable

FRESH_S = 2.0  # a run that has not asked again for so long does not hold up others


class Slots:
    """Of one fleet; runs are told apart by any object of theirs."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._under_way: dict[object, int] = {}
        self._waiting: dict[object, tuple[int, float]] = {}  # priority, and when it asked last

    def take(self, run: object, priority: int, hosts: int) -> bool:
        """Whether a run may submit one more shard; one that may not asks again soon. Of runs that wait the one with the
        highest priority is next."""
        with self._lock:
            now = self._clock()
            self._waiting[run] = priority, now
            others = (asked for one, asked in self._waiting.items() if one is not run)
            overtaken = any(other > priority and now - asked < FRESH_S for other, asked in others)
            if overtaken or sum(self._under_way.values()) >= hosts:
                return False
            self._under_way[run] = self._under_way.get(run, 0) + 1
            del self._waiting[run]
            return True

    def free(self, hosts: int) -> int:
        """How many of so many hosts no run has given a shard."""
        with self._lock:
            return max(0, hosts - sum(self._under_way.values()))

    def keep(self, run: object, shards: int) -> None:
        """So many shards of the run are under way now."""
        with self._lock:
            self._under_way[run] = shards

    def leave(self, run: object) -> None:
        """The run has ended."""
        with self._lock:
            self._under_way.pop(run, None)
            self._waiting.pop(run, None)


slots_of: defaultdict[tuple[str, str | None], Slots] = defaultdict(Slots)  # by address and kind of host
