"""Put into a copy of an asv suite as ``_opduel_slowed``: wraps the benchmarks that ``_opduel_slowed.json`` lists.

Every one is wrapped on both sides, so that they do the same; the treatment's module ``slowed`` (SHARE) alone makes the
wrapper work for a share of what a call takes, measured in the same process.  Standard library only.
"""

import functools
import json
import os
import time

import slowed

CALLS, LONGEST_S = 50, 0.05  # timed before the first one that counts
with open(os.path.join(os.path.dirname(__file__), "_opduel_slowed.json"), encoding="utf-8") as stream:
    NAMES = frozenset(json.load(stream))


def spin(count):
    """The injected work."""
    for _ in range(count):
        pass


def quickest_s(function, *args):
    """The shortest of some calls."""
    took, began = [], time.perf_counter()
    while len(took) < CALLS and (not took or time.perf_counter() - began < LONGEST_S):
        start = time.perf_counter()
        function(*args)
        took.append(time.perf_counter() - start)
    return min(took)


def wrapped(function):
    """The benchmark, and then the injected work. A process that measures several sets of parameters calibrates each."""
    spins = {}

    @functools.wraps(function)
    def both(*args):
        key = tuple(map(id, args))
        if key not in spins:
            a_call = quickest_s(function, *args)
            spins[key] = round(slowed.SHARE * a_call / (quickest_s(spin, 10_000) / 10_000))
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
