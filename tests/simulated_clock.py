"""A clock for a worker whose calls are to take a simulated time: what they are said to take, and not what they do.

Rounds are short then, and their values don't depend on what else the machine does. Python 3.6 syntax, as for adaptors.
"""

import json
import math
import os
import random
import struct
import sys

# Standard deviations of the log ratio of two processes, by level: what their workers add, what the forks of these add,
# and what an ABBA quad of blocks does; and that of a call's time. As on a real machine, processes differ a little.
LEVELS = {"pair": 0.0, "fork": 0.003, "quad": 0.0, "call": 0.002}
TURN_NS = 1e8, 3e9  # for which a wandering processor keeps its speed: drawn, log-uniform


class SimulatedClock:
    """Stands in for the worker's clock, and for the work that it injects.

    ``TOY_NOISE`` is a JSON object: ``LEVELS`` to change; ``modes``, the share of forks that are slow, and by which
    factor; ``wandering``, the factor by which the processor is slower in every second turn, and by how much its quads
    vary more in these; ``seed`` and ``folder``, an empty one, where workers count each other: with these two it is the
    same noise in every run.
    """

    SPIN_NS = 10.0  # a turn of injected work

    def __init__(self, worker):
        self.now = 0.0
        self.pid = None
        self.levels = dict(LEVELS, **json.loads(os.environ.get("TOY_NOISE", "{}")))
        self.side = os.environ.get("TOY_SIDE", "")
        self.number = self.count("workers-" + self.side)
        self.worker_pace = self.drawn_for(self.number).gauss(0, self.levels["pair"] / math.sqrt(2))
        self.block_pace, self.speed = 1.0, Speed(self.levels)
        worker.timing.clock = lambda: self.now
        worker.timing.spin = self.spin
        self.measuring = False
        if hasattr(worker, "Session"):
            worker.Session.low_block = self.measured(worker.Session.low_block)

    def count(self, name):
        """How often this has been called with the name, in any process; or a number that no other process has."""
        if "folder" not in self.levels:
            return os.getpid()
        with open(os.path.join(self.levels["folder"], name), "ab") as stream:
            stream.write(b".")
            stream.flush()
            return os.fstat(stream.fileno()).st_size

    def drawn_for(self, *numbers):
        """A source of random numbers that are the same whenever the seed and these numbers are."""
        return random.Random("{} {} {}".format(self.levels.get("seed"), self.side, numbers))

    def measured(self, low_block):
        """A worker's function that measures a block: each has a pace of its own, and the processor's time goes on."""

        def with_a_pace(session, *arguments, **named):
            self.begin_fork()
            self.speed.read()
            deviation = math.hypot(self.levels["quad"], self.speed.deviation())
            self.block_pace, self.measuring = math.exp(self.random.gauss(0, deviation)), True
            try:
                return low_block(session, *arguments, **named)
            finally:
                self.block_pace, self.measuring = 1.0, False
                self.speed.write()

        return with_a_pace

    def begin_fork(self):
        """Draw how fast this process is, if that was not done since it was forked."""
        if self.pid == os.getpid():
            return
        self.pid = os.getpid()
        self.random = self.drawn_for(self.number, self.count(f"forks-{self.side}-{self.number}"))
        share, factor = self.levels.get("modes", (0.0, 1.0))
        slow = self.random.random() < share
        fork_pace = self.random.gauss(0, self.levels["fork"] / math.sqrt(2))
        self.pace = math.exp(self.worker_pace + fork_pace) * (factor if slow else 1.0)

    def spin(self, count):
        self.advance(count * self.SPIN_NS)

    def take(self, nanoseconds):
        """A call takes about so long."""
        self.begin_fork()
        self.advance(nanoseconds * self.pace * self.random.lognormvariate(0, self.levels["call"]))

    def advance(self, nanoseconds):
        nanoseconds *= self.block_pace * self.speed.factor()
        self.now += nanoseconds
        if self.measuring:
            self.speed.now += nanoseconds


class Speed:
    """Of the processor on which blocks are measured, one after the other: a function of the time that all of them took
    so far. That time is in a file, because they are measured in different processes."""

    def __init__(self, levels):
        self.now = 0.0
        self.slow, self.slow_deviation = levels.get("wandering", (1.0, 0.0))
        self.file = None
        if "wandering" in levels:
            self.file = os.open(os.path.join(levels["folder"], "measured"), os.O_RDWR | os.O_CREAT)
        self.random = random.Random("speed {}".format(levels.get("seed")))
        self.is_slow, self.turn_end = self.random.random() < 0.5, self.random.random() * self.turn_ns()

    def turn_ns(self):
        shortest, longest = TURN_NS
        return shortest * (longest / shortest) ** self.random.random()

    def factor(self):
        """By how much calls take longer now."""
        while self.file and self.now > self.turn_end:
            self.is_slow, self.turn_end = not self.is_slow, self.turn_end + self.turn_ns()
        return self.slow if self.is_slow and self.file else 1.0

    def deviation(self):
        """Of a quad now, beside what it has in any case."""
        return self.slow_deviation if self.factor() > 1 else 0.0

    def read(self):
        if self.file:
            self.now = struct.unpack("d", os.pread(self.file, 8, 0) or bytes(8))[0]

    def write(self):
        if self.file:
            os.pwrite(self.file, struct.pack("d", self.now), 0)


def simulated_clock():
    """The clock, if ``TOY_CLOCK=simulated`` asks for one; else None. A worker that counts instructions needs none."""
    worker = sys.modules["__main__"]
    is_asked_for = os.environ.get("TOY_CLOCK") == "simulated" and hasattr(worker, "timing")
    return SimulatedClock(worker) if is_asked_for else None
