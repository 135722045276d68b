"""Turns of the runs of this process, such as a bisection and what it measures ahead, at the hosts of a fleet. No Dask.

Dask assigns a task to a host at once, and leaves it there when another host becomes free. So all runs together submit
no more shards than there are hosts, and the most urgent run is next.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable

FRESH_S = 2.0  # a waiting run that has not asked for so long no longer holds up others


class Slots:
    """The hosts of one fleet, as slots for shards. A run is identified by any object."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._under_way: dict[object, int] = {}
        self._waiting: dict[object, tuple[int, float]] = {}  # priority, and when it asked last

    def take(self, run: object, priority: int, hosts: int) -> bool:
        """Return whether a run may submit one more shard. If not, it asks again soon; of the waiting runs, the one with
        the highest priority is next."""
        with self._lock:
            now = self._clock()
            self._waiting[run] = priority, now
            is_overtaken = any(
                other_priority > priority and now - asked_at < FRESH_S
                for other_run, (other_priority, asked_at) in self._waiting.items()
                if other_run is not run
            )
            if is_overtaken or sum(self._under_way.values()) >= hosts:
                return False
            self._under_way[run] = self._under_way.get(run, 0) + 1
            del self._waiting[run]
            return True

    def free(self, hosts: int) -> int:
        """Return how many of so many hosts have no shard."""
        with self._lock:
            return max(0, hosts - sum(self._under_way.values()))

    def keep(self, run: object, shards: int) -> None:
        """Record how many shards the run has submitted now."""
        with self._lock:
            self._under_way[run] = shards

    def leave(self, run: object) -> None:
        """Remove a run that has ended."""
        with self._lock:
            self._under_way.pop(run, None)
            self._waiting.pop(run, None)


slots_of: defaultdict[tuple[str, str | None], Slots] = defaultdict(Slots)  # by address and kind of host
