"""How calls are timed, warmed up and slowed, by a process alone or by two in turns.

Standard library and Python 3.6 syntax only, as main.py, which says what a call may have beyond being a function.
"""

import itertools
import math
import os
import time

WARM_UP_NS = 5 * 1000 * 1000  # calls before anything is timed: first calls are not like the rest
WARM_UP_LIMIT_NS = 300 * 1000 * 1000
WARM_UP_CALLS = 12
WARM_UP_PROCESSES = 3  # calls that are processes of their own: what warms up is the system's cache of files
SPIN_PROBE = 20000  # turns, some 0.1 ms
SPIN_PROBES = 9
SPIN_PROBE_NS = 1000 * 1000
SPIN_LIMIT_NS = 1000 * 1000 * 1000
# A region that a device's clock times: cudaEventElapsedTime counts in steps of about half a microsecond.
DEVICE_REGION_NS = 250 * 1000
CACHE_LINE = 64  # bytes
GO, STOP = b".", b"x"  # what processes that take turns tell each other, and the controller either of them
# Read before each timed call, so that nothing of the call is left in the processor's caches; usually nothing at all.
EVICTING = bytearray(b"\1") * int(os.environ.get("OPDUEL_WIPE_CACHE", "0"))

if hasattr(time, "perf_counter_ns"):
    clock = time.perf_counter_ns
else:  # Python 3.6

    def clock():
        return int(time.perf_counter() * 1e9)


def spin(count):
    """Work of a known kind: ``count`` turns of an empty loop. Used to inject a slowdown."""
    for _ in itertools.repeat(None, count):
        pass


def divided(calls, most, number):
    """Return ``(regions, number)``: at most ``most`` timed regions of ``number`` calls each, about ``calls`` in all; of
    as many as fit where ``number`` is None."""
    regions = max(1, min(most, calls // (number or 1)))
    return regions, number or max(1, calls // regions)


def repeat(call, number, after):
    """Make the calls of a timed region, with what comes after each."""
    for _ in range(number):
        call()
        if after:
            after()


def wipe():
    """Evict the processor's caches, where that was asked for: a byte of every line of more memory than they hold."""
    if EVICTING:
        EVICTING[::CACHE_LINE]


def time_calls(call, calls, inner, spins, most_ns=float("inf")):
    """Time ``calls`` samples of ``inner`` calls each, ``spins`` turns of work after every call.

    Returns nanoseconds a call: of fewer samples where all but the longest take more than ``most_ns`` together, as long
    as it is the processor that executes them. Both sides of a comparison run these same lines. A call that times itself
    is called once a sample, and the work is added to what it says. A call whose work a device does (``is_of_device``)
    has a ``timer(work)``, which returns how long that takes by the device's clock; the turns are timed by themselves
    and added.
    """
    if hasattr(call, "sample"):
        return [max(1.0, call.sample()) + time_spin(spins) for _ in range(calls)]
    before, inner = getattr(call, "before", None), getattr(call, "number", inner)
    samples = []
    inner_range = range(inner)
    if is_of_device(call):

        def work():
            for _ in inner_range:
                call()

        for _ in range(calls):
            wipe()
            samples.append((call.timer(work) + time_spin(inner * spins)) / inner)
        return samples
    deadline = clock() + most_ns
    for _ in range(calls):
        if before:
            before()
        wipe()
        start = clock()
        for _ in inner_range:
            call()
            spin(spins)
        now = clock()
        samples.append((now - start) / inner)
        if now > deadline and now > deadline + inner * max(samples):  # one may have been interrupted
            break
    return samples


def time_spin(count):
    """Nanoseconds that so many turns take; 0 for none."""
    start = clock()
    spin(count)
    return clock() - start if count else 0


def is_special(call):
    """Whether the call says how it is timed: by itself, in regions of so many, or with something to do before."""
    return any(hasattr(call, name) for name in ("before", "number", "sample"))


def is_free(call):
    """Whether a timed region may be any number of calls."""
    return not any(hasattr(call, name) for name in ("number", "sample", "timer"))


def is_of_device(call):
    """Whether a device does the call's work, and its clock times it."""
    return hasattr(call, "timer")


def inner_of(call, call_ns):
    """The calls of a timed region, where that can't be chosen: of a device's as many as its clock can resolve."""
    if is_of_device(call):
        return max(1, math.ceil(DEVICE_REGION_NS / call_ns))
    return getattr(call, "number", 1)


def around(call, inner):
    """What a timed region of ``inner`` calls takes beyond them, in nanoseconds."""
    start = clock()
    timed = time_calls(call, 1, inner, 0)[0] * inner
    return max(0, clock() - start - timed)


def quantile(values, share):
    """The quantile, between two values in proportion where it lies between them."""
    ordered, place = sorted(values), share * (len(values) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def lower_quartile(values):
    return sorted(values)[len(values) // 4]


def is_process(call):
    """Whether each call is a process of its own, as the adaptor says."""
    return getattr(call, "own_process", False)


def warm_up(call):
    """Call until caches, pools and lazy set-up have settled; returns the lower quartile of late calls, and what the
    last region took beyond its calls (None of a single one: what comes before it may have been done already), in ns."""
    samples = []
    enough = WARM_UP_PROCESSES if is_process(call) else WARM_UP_CALLS
    if is_of_device(call):  # the first call loads kernels and libraries, which may take longer than all others
        time_calls(call, 1, 1, 0)
    begin = clock()
    while True:
        start = clock()
        samples.extend(time_calls(call, 1, 1, 0))
        now = clock()
        if now - begin >= WARM_UP_NS and (len(samples) >= enough or now - begin >= WARM_UP_LIMIT_NS):
            beyond = now - start - samples[-1] * getattr(call, "number", 1)
            return lower_quartile(samples[len(samples) // 2 :]), max(0, beyond) if len(samples) > 1 else None


def spins_for(call, call_ns, share):
    """How many turns of ``spin`` take ``share`` of a call's time. Both are timed in turn, and the median of the ratios
    is taken: a processor that slows down for a while slows both."""
    inner = inner_of(call, call_ns)
    calls = 1 if EVICTING or is_special(call) else max(1, int(SPIN_PROBE_NS / (inner * call_ns)))
    ratios, begin = [], clock()
    while len(ratios) < SPIN_PROBES and clock() - begin < SPIN_LIMIT_NS:
        turn = time_calls(lambda: spin(SPIN_PROBE), 1, 1, 0)[0] / SPIN_PROBE
        ratios.append(lower_quartile(time_calls(call, calls, inner, 0)) / turn)
    return max(1, round(share * sorted(ratios)[len(ratios) // 2]))


def take_turns(block, turns, first, read_from, write_to):
    """Return the values of ``block(switched)``, called ``turns[k]`` times in this process's kth turn; ``switched``: the
    other process has had its turn since the last block.

    ``read_from`` and ``write_to`` are the paths of the pipes from and to the other process.  ``first``: it begins, and
    needs no GO for it. Fewer values when the controller says STOP, and none where a pipe can't be opened.
    """
    values, opened = [], []
    try:
        try:
            for path, flags in ((read_from, os.O_RDONLY), (write_to, os.O_WRONLY)):
                opened.append(os.open(path, flags))
        except OSError:
            return values
        read_fd, write_fd = opened
        for number, count in enumerate(turns):
            if (number or not first) and os.read(read_fd, 1) != GO:
                break
            for place in range(count):
                values.append(block(place == 0))
            os.write(write_fd, GO)
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return values
