"""The toy's operators as the worker runs them; standard library and Python 3.6 syntax, as for every adaptor.

By default the time of a call is simulated, from the steps and turns that it really makes: ``simulated_clock``.
"""

import os
import random
import sys

import toy

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from simulated_clock import simulated_clock

CLOCK = simulated_clock()
STEP_NS, TURN_NS = 50.0, 500.0  # long calls: few of them fill a block


class MissingOperator(Exception):
    kind = "missing"


def versions():
    return {"framework": toy.__version__, "revision": str(toy.REVISION)}


def make_call(case, seed):
    """A function of no arguments that runs the case once."""
    name = case["operator"].split(".")[-1]
    operator = getattr(toy, name, None)
    if operator is None:
        raise MissingOperator(f"toy {toy.__version__} has no operator {name}")
    draw = random.Random("{}|{}".format(seed, case["id"]))
    (count,) = case["inputs"]["data"]
    data = toy.array([draw.random() for _ in range(count)])
    if CLOCK is None:
        return lambda: operator(data)

    def call():
        operator(data)
        CLOCK.take(toy.last_steps() * STEP_NS + toy.TURNS[name] * TURN_NS)

    return call
