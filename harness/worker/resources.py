"""What a call takes from the machine: page faults, context switches, and where its time goes; by getrusage.

Counts are those of the whole process, or of the processes that a call starts.  The time is that of the calling thread:
in user code, in the kernel, or waiting, without the time for which others had the processor.  Many kernels sample their
share a few hundred times a second.  Standard library and Python 3.6 syntax only, as main.py.
"""

import operator
import resource
import time

from opduel_timing import divided, repeat

COUNTS = {
    "minor page faults": "ru_minflt",
    "major page faults": "ru_majflt",
    "voluntary context switches": "ru_nvcsw",
    "involuntary context switches": "ru_nivcsw",
}
REGIONS = 32


def queued_s():
    """Seconds for which this thread could have run and others had the processor; 0 where the kernel doesn't say."""
    try:
        with open("/proc/thread-self/schedstat") as stream:
            return 1e-9 * int(stream.read().split()[1])
    except (OSError, IndexError, ValueError):
        return 0.0


def spent(children):
    """What has been spent so far: counts, seconds of user code and of the kernel, seconds of processor time, and of all
    but what others had of the processor."""
    counted = resource.getrusage(resource.RUSAGE_CHILDREN if children else resource.RUSAGE_SELF)
    timed = counted if children else resource.getrusage(resource.RUSAGE_THREAD)
    busy = timed.ru_utime + timed.ru_stime if children else time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID)
    counts = [getattr(counted, field) for field in COUNTS.values()]
    queued = 0.0 if children else queued_s()
    return [*counts, timed.ru_utime, timed.ru_stime, busy, time.perf_counter() - queued]


def parted(user, kernel, busy, wall):
    """Seconds as ns in user code, in the kernel, and waiting. Processes of several threads may be busy for longer than
    the call takes: they don't wait."""
    share = kernel / (user + kernel) if user + kernel > 0 else 0.0
    parts = {"user code": busy * (1 - share), "kernel": busy * share, "waiting": max(0.0, wall - busy)}
    return {name: 1e9 * seconds for name, seconds in parts.items()}


def resources(call, calls, number, before, after, children):
    """What about ``calls`` calls take, as a mean of each: main.py says what is answered, and functions.py what the
    arguments are. ``children``: each call is a process of its own."""
    regions, number = divided(calls, REGIONS, number)
    total = [0.0] * (len(COUNTS) + 4)
    for _ in range(regions):
        before()
        start = spent(children)
        repeat(call, number, after)
        total = list(map(operator.add, total, map(operator.sub, spent(children), start)))
    means = [amount / (regions * number) for amount in total]
    counts = {name: means[number] for number, name in enumerate(COUNTS)}
    return {"calls": regions * number, "counts": counts, "time": parted(*means[len(COUNTS) :])}
