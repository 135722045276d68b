"""The time of a call by Python function, and by function in C as Python sees them: what watching costs is taken out.

A function's time is without that of the functions that it calls, so that all of them add up to the call.  ``_lsprof``
times them, the C part of cProfile.  What it adds to each call is measured in this process, on functions that do
nothing, and subtracted from the function and from its caller; so is what it slows each instruction of bytecode by, up
to Python 3.11.  Calls without it, in turn with those, say what a call really takes; what the functions then lack or
have too much is divided among them.  A few further calls run under tracing.py's hook, which tells the modules, the
lines that call, and the stacks among which a function's time is divided.

Python reports functions in C by their names, but neither NumPy's ufuncs nor operators: these count for the function
that runs them.  The calling thread alone is watched.  Opduel's own frames are one part. Standard library and Python 3.6
syntax only, as main.py.
"""

import _lsprof
import gc
import re
import sys

from opduel_serving import Unseen
from opduel_timing import clock, divided, lower_quartile, repeat
from opduel_tracing import Names, Tracer, inclusive, is_python, name_of_text, opcodes_of, time_by_stack

# Of calls; of each function the lower quartile is kept: what disturbs only adds. They are so short that most of them
# end before another process gets the processor, however busy it is.
BATCHES = 96
TRACED_CALLS = 10
PROBES, PROBE_TURNS = 16, 300
LEFT = 0.1  # of what watching was found to add and slow: what may be wrong of it where all adds up
UNEVEN = 3.0  # times a function's part of them: how far an error of all may be one function's
FAR = 0.2  # of a call: if the functions differ from it by more, they are left as they were seen
WATCHING = re.compile(r"'_lsprof\.Profiler'|<built-in method sys\.getprofile>")  # what ``watched`` itself calls
STARTS_THREAD = re.compile(r"_thread\.start_\w*thread$")
MIXED_UP = "runs several Python threads, and cProfile of Python 3.12 and later takes them for one"


class Held:
    attribute = None

    def __init__(self):
        self.attribute = 1


HELD = Held()


def empty():
    """What a call costs, and nothing else."""


def loop(function, turns):
    for _ in range(turns):
        function()


def bare_loop(function, turns):
    for _ in range(turns):
        pass


def bytecode_loop(function, turns):
    total = 0
    for turn in range(turns):
        total += turn & 7


def lookup_loop(function, turns):
    instance = HELD
    for _ in range(turns):
        instance.attribute  # noqa: B018
        instance.attribute  # noqa: B018
        HELD  # noqa: B018
        len  # noqa: B018


def yielding(turns):
    for turn in range(turns):
        yield turn


def loop_over(function, turns):
    for _ in function(turns):
        pass


PYTHON, C, RESUMED = "a function in Python", "a function in C", "a generator"
PROBED = {
    "bare": (bare_loop, None),
    "bytecode": (bytecode_loop, None),
    "lookups": (lookup_loop, None),
    PYTHON: (loop, empty),
    C: (loop, gc.isenabled),
    RESUMED: (loop_over, yielding),
}
SUSPENDED = 0x20 | 0x80 | 0x200  # flags of a code: of generators, coroutines, and asynchronous generators


def timed(function, *args):
    start = clock()
    function(*args)
    return clock() - start


def watched(function, *args):
    """The entries of ``_lsprof`` for ``function(*args)``. Raises Unseen: it took the hook for itself."""
    profiler = _lsprof.Profiler()
    profiler.enable()
    try:
        function(*args)
        lost = sys.version_info < (3, 12) and sys.getprofile() is not profiler
    finally:
        profiler.disable()
    if lost:
        raise Unseen("it sets a profile hook of its own")
    return [entry for entry in profiler.getstats() if not WATCHING.search(str(entry.code))]


class Cost:
    """What watching adds to each call, in ns, by its kind: ``PYTHON``, ``C`` or ``RESUMED``.

    ``within`` is added to the time of the function that is called, ``around`` to that of its caller: what a call truly
    costs stays with the function that is called.  ``slowed`` is the share of bytecode's watched time that is due to
    watching.  ``lookup`` is the same in ns of an instruction that looks up a name, which Python 3.11 otherwise
    remembers, ``opcode`` of any other.
    """

    def __init__(self, counted):
        """``counted``: instructions of bytecode of ``(function, *args)``, by code; None if they can't be counted."""
        self.real = {}  # probe -> ns of a turn, in each of the probes
        self.watched_ns = {}  # probe -> ns of a turn in the loop, and in what it calls
        self.opcodes = {}  # probe -> of a turn in the loop, and in what it calls: instructions, and how many look up
        for name, (loop_of, function) in PROBED.items():
            codes = counted(loop_of, function, PROBE_TURNS) or {}
            both = loop_of.__code__, getattr(function, "__code__", None)
            self.opcodes[name] = [tuple(n / PROBE_TURNS for n in codes.get(code, (0, 0))) for code in both]
        self.within, self.around, self.slowed, self.opcode, self.lookup = {}, {}, 0.0, 0.0, 0.0

    def probe(self):
        """Measure once more."""
        for name, (loop_of, function) in PROBED.items():
            self.real.setdefault(name, []).append(timed(loop_of, function, PROBE_TURNS) / PROBE_TURNS)
            turn_ns = [0.0, 0.0]  # in the loop, and in what it calls
            for entry in watched(loop_of, function, PROBE_TURNS):
                turn_ns[entry.callcount >= PROBE_TURNS] += 1e9 * entry.inlinetime / PROBE_TURNS
            self.watched_ns.setdefault(name, []).append(turn_ns)

    def settle(self):
        """Boil the probes down."""
        while len(self.real.get("bare", ())) < PROBES:
            self.probe()
        real = {name: lower_quartile(values) for name, values in self.real.items()}
        outer, inner = (
            {name: lower_quartile([turn_ns[i] for turn_ns in self.watched_ns[name]]) for name in real} for i in (0, 1)
        )
        slowed = max(0.0, outer["bytecode"] - real["bytecode"])
        self.slowed = slowed / outer["bytecode"]
        self.opcode = slowed / (self.opcodes["bytecode"][0][0] or 1)
        every, lookups = self.opcodes["lookups"][0]
        slowed = outer["lookups"] - real["lookups"] - self.opcode * (every - lookups)
        self.lookup = max(self.opcode, slowed / (lookups or 1))
        turn = self.slowing(self.opcodes["bare"][0])
        for name in (PYTHON, C, RESUMED):
            calling, called = map(self.slowing, self.opcodes[name])
            self.within[name] = max(0.0, inner[name] - (real[name] - real["bare"]) - called)
            self.around[name] = max(0.0, outer[name] - outer["bare"] - (calling - turn))

    def slowing(self, opcodes):
        """What watching adds to so many instructions, (all, those that look up a name), in ns."""
        every, lookups = opcodes
        return self.opcode * (every - lookups) + self.lookup * lookups

    def of(self, entry):
        """What it has added to an Entry's calls, and to those that it makes, in ns."""
        in_python = is_python(entry.code)
        outgoing = sum(
            calls * self.around[kind_of(callee)]
            for callee, (calls, _) in entry.callees.items()
            if in_python or is_python(callee)
        )
        return entry.calls * self.within[kind_of(entry.code)] + outgoing


def kind_of(code):
    """Of a call of a function that has this code, or text: the place in ``Cost.within`` and ``Cost.around``."""
    if not is_python(code):
        return C
    return RESUMED if code.co_flags & SUSPENDED else PYTHON


class Entry:
    """A function in one batch of calls: ``ns`` by itself, ``calls``, callees: {code: (calls, ns)}."""

    def __init__(self, batches):
        """Of the entries of ``_lsprof`` in all batches: of times the lower quartile, of calls the mean."""
        batch_count = len(batches)
        entries = [entry for entry in batches if entry is not None]
        self.code = entries[0].code
        self.ns = 1e9 * lower_quartile([entry.inlinetime if entry else 0.0 for entry in batches])
        self.calls = sum(entry.callcount for entry in entries) / batch_count
        callees = {}
        for entry in entries:
            for callee in entry.calls or ():
                callees.setdefault(callee.code, []).append(callee)
        self.callees = {}
        for code, callee_entries in callees.items():
            times = [0.0] * (batch_count - len(callee_entries)) + [callee.inlinetime for callee in callee_entries]
            calls = sum(callee.callcount for callee in callee_entries) / batch_count
            self.callees[code] = calls, 1e9 * lower_quartile(times)


def merged(entries, names, cost, opcodes):
    """name -> {"seen": ns, "added": by watching to calls, "slowed": by watching in bytecode, "calls", "callers": {name:
    ns}, "where", "called_at", "codes": their fingerprints}; what has one name is one part. ``opcodes``: instructions of
    bytecode by code, (all, those that look up a name); None if they were not counted: then all time in bytecode is
    slowed."""
    parts = {}
    for entry in sorted(entries, key=lambda batch_entry: -batch_entry.ns):
        added = cost.of(entry)
        where, called_at = names.places(entry.code)
        empty_part = {"seen": 0, "added": 0, "slowed": 0, "calls": 0, "callers": {}, "codes": set()}
        part = parts.setdefault(names.name(entry.code), dict(empty_part, where=where, called_at=called_at))
        part["seen"] += entry.ns
        if is_python(entry.code):
            part["codes"].add(names.fingerprint(entry.code))
        part["added"] += added
        part["calls"] += entry.calls
        if opcodes is not None:
            part["slowed"] += cost.slowing(opcodes.get(entry.code, (0, 0)))
        elif is_python(entry.code):
            part["slowed"] += max(0, entry.ns - added) * cost.slowed
    for entry in entries:
        caller = names.name(entry.code)
        for code, (_, ns) in entry.callees.items():
            name = names.name(code)
            if name not in (caller, names.OWN) and name in parts:
                callers = parts[name]["callers"]
                callers[caller] = callers.get(caller, 0) + ns
    return parts


def settled(parts, real):
    """name -> ns, which add up to ``real``; what they add up to where that is beyond ``FAR`` of it, and else None; and
    by how many ns they missed it before they were made to. What watching added and slowed is subtracted; what is then
    too much, or lacking, is divided in proportion to that, and what is more than that is shared by all alike."""
    changed = {name: part["added"] + part["slowed"] for name, part in parts.items()}
    times = {name: max(0.0, part["seen"] - changed[name]) for name, part in parts.items()}
    weights = {name: min(times[name], ns) for name, ns in changed.items()}
    surplus = sum(times.values()) - real
    if surplus < 0:
        weights = {name: min(parts[name]["seen"] - times[name], ns) for name, ns in changed.items()}
    weight = sum(weights.values())
    share = max(-1.0, min(1.0, surplus / weight)) if weight else 0.0
    times = {name: ns - share * weights[name] for name, ns in times.items()}
    total = sum(times.values())
    if not total or abs(total - real) > FAR * real:
        return times, total, abs(surplus)
    return {name: ns * real / total for name, ns in times.items()}, None, abs(surplus)


def doubts(of_all, of_one):
    """How far the time of one may be off in every process alike, in ns; both are (what watching changed, time), and
    ``of_all`` has by how much all of them missed the call, too.

    What was subtracted of any may be wrong by ``LEFT``, either way: at worst the one is too large by all of that, and
    all others are too small.  By what all missed the call before, any may be off by ``UNEVEN`` times its part of what
    watching changed, or of the time; by no more than others can lack, and than it took while it was watched.
    """
    (changed, time), (all_changed, real, missed) = of_one, of_all
    share = changed / all_changed if all_changed else 0.0
    uneven = min(UNEVEN * max(share, time / real), max(0.0, 1 - time / real))
    return 2 * LEFT * changed * (1 - share) + min(missed * uneven, changed + time)


def in_turn(call, number, batches, before, after, cost):
    """``(ns, entries)`` of a batch of so many calls: unwatched, and watched, in turn with probes of the ``cost``."""
    real, watched_batches = [], []
    for _ in range(batches):
        before()
        real.append(timed(repeat, call, number, after))
        before()
        watched_batches.append({entry.code: entry for entry in watched(repeat, call, number, after)})
        cost.probe()
    cost.settle()
    codes = dict.fromkeys(code for batch in watched_batches for code in batch)
    return lower_quartile(real), [Entry([batch.get(code) for batch in watched_batches]) for code in codes]


def functions(call, calls, number, before, after, own):
    """What about ``calls`` calls spend in which function: main.py says what is answered. Raises Unseen, and what the
    call does.

    A timed region is ``number`` calls, or as many as fit where that is None.  ``before`` comes before each of them;
    ``after``, if it isn't None, after each call, and counts for it.  ``own`` are files and folders of opduel's code.
    """
    batches, number = divided(calls, BATCHES, number)
    tracer = Tracer()
    before()
    tracer.run(call, min(number, TRACED_CALLS))
    starts = any(STARTS_THREAD.search(name_of_text(site)) for site in tracer.sites if not is_python(site))
    if sys.version_info >= (3, 12) and (starts or len(sys._current_frames()) > 1):
        raise Unseen(MIXED_UP)
    before()
    opcodes = opcodes_of(repeat, call, 1, after)
    cost = Cost(opcodes_of)
    real, entries = in_turn(call, number, batches, before, after, cost)
    names = Names(tracer, own)
    if opcodes is not None:
        opcodes = {code: (every * number, lookups * number) for code, (every, lookups) in opcodes.items()}
    parts = merged(entries, names, cost, opcodes)
    times, far, missed = settled(parts, real)
    times = {name: times[name] / number for name in sorted(times, key=lambda name: -times[name])}
    callers = {name: part["callers"] for name, part in parts.items()}
    stacks = time_by_stack(tracer.stacks, names, times, callers)
    wholes = inclusive(stacks)
    changed = {name: (part["added"] + part["slowed"]) / number for name, part in parts.items()}
    all_changed = inclusive(time_by_stack(tracer.stacks, names, changed, callers))
    of_all = sum(changed.values()), real / number, missed / number
    rows = []
    for name, ns in times.items():
        part, within = parts[name], sum(parts[name]["callers"].values())
        row = {
            "name": name,
            "ns": ns,
            "inclusive": wholes[name],
            "doubt": doubts(of_all, (changed[name], ns)),
            "inclusive_doubt": doubts(of_all, (all_changed[name], wholes[name])),
            "where": part["where"],
            "called_at": part["called_at"],
            "code": "" if "" in part["codes"] else " ".join(sorted(part["codes"])),
            "calls": 1.0 if name == names.OWN else part["calls"] / number,
            "callers": {caller: caller_ns / within for caller, caller_ns in part["callers"].items()} if within else {},
        }
        rows.append(row)
    places = {name: place for place, name in enumerate(times)}
    stacks = [[[places[name] for name in path], ns] for path, ns in stacks.items()]
    answer = {"ns": real / number, "calls": number * batches, "functions": rows, "stacks": stacks}
    return answer if far is None else dict(answer, seen_ns=far / number)
