"""A clock for a worker whose calls are to take a simulated time: what they are said to take, and not what they do.

Rounds are short then, and their values don't depend on what else the machine does. Python 3.6 syntax, as for adaptors.
"""

import os
import random
import sys


class SimulatedClock:
    """Stands in for the worker's clock, and for the work that it injects.

    As on a real machine, a process is faster or slower as a whole (by 0.2 %), and so is each call.
    """

    SPIN_NS = 10.0  # a turn of injected work

    def __init__(self, worker):
        self.now = 0.0
        self.pid = None
        worker.timing.clock = lambda: self.now
        worker.timing.spin = self.spin

    def spin(self, count):
        self.now += count * self.SPIN_NS

    def take(self, nanoseconds):
        """A call takes about so long."""
        if self.pid != os.getpid():  # forked since
            self.pid = os.getpid()
            self.random = random.Random(self.pid)
            self.pace = self.random.lognormvariate(0, 0.002)
        self.now += nanoseconds * self.pace * self.random.lognormvariate(0, 0.002)


def simulated_clock():
    """The clock, if ``TOY_CLOCK=simulated`` asks for one; else None. A worker that counts instructions needs none."""
    worker = sys.modules["__main__"]
    asked = os.environ.get("TOY_CLOCK") == "simulated" and hasattr(worker, "timing")
    return SimulatedClock(worker) if asked else None
