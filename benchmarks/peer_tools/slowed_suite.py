"""Put into a copy of an asv suite as ``_opduel_slowed``: wraps the benchmarks that ``_opduel_slowed.json`` lists.

Every one is wrapped on both sides, so that they do the same; the treatment's module ``slowed`` (SHARE) alone makes the
wrapper work for a share of what a call takes, measured in the same process.  Standard library only.
"""

import functools
import itertools
import json
import os
import statistics
import time

import slowed

TURNS, PROBES, BATCH_S, LONGEST_S = 5_000, 15, 1e-4, 0.05  # each process that measures pays for it
with open(os.path.join(os.path.dirname(__file__), "_opduel_slowed.json"), encoding="utf-8") as stream:
    NAMES = frozenset(json.load(stream))


def spin(count):
    """The injected work: the same for each turn, where numbers of a range beyond 256 would have to be made."""
    for _ in itertools.repeat(None, count):
        pass


def seconds(function, args, calls):
    """What so many calls take."""
    start = time.perf_counter()
    for _ in itertools.repeat(None, calls):
        function(*args)
    return time.perf_counter() - start


def turns_of(function, args):
    """How many turns of the injected work take as long as a call: the median over batches of both, in turn."""
    calls = max(1, min(1000, round(BATCH_S / max(1e-9, min(seconds(function, args, 1) for _ in range(3))))))
    found, began = [], time.perf_counter()
    while len(found) < PROBES and (not found or time.perf_counter() - began < LONGEST_S):
        found.append(seconds(function, args, calls) / calls * TURNS / seconds(spin, (TURNS,), 1))
    return statistics.median(found)


def wrapped(function):
    """The benchmark, and then the injected work. A process that measures several sets of parameters calibrates each."""
    spins = {}

    @functools.wraps(function)
    def both(*args):
        key = tuple(map(id, args))
        if key not in spins:
            spins[key] = 0  # of a call with this wrapper's own cost
            spins[key] = round(slowed.SHARE * turns_of(both, args))
        function(*args)
        spin(spins[key])

    both.spins = spins
    return both


def wrap(module):
    """Wrap those of a module's benchmarks that are listed; ``module``: its ``globals()``."""
    here = module["__name__"].partition(".")[2]
    for name, value in list(module.items()):
        if f"{here}.{name}" in NAMES:
            module[name] = wrapped(value)
        elif isinstance(value, type) and value.__module__ == module["__name__"]:
            for inner in dir(value):
                if f"{here}.{name}.{inner}" in NAMES:
                    setattr(value, inner, wrapped(getattr(value, inner)))
