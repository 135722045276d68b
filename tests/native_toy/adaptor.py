"""The toy's operators as the worker runs them; standard library and Python 3.6 syntax, as for every adaptor."""

import random

import toy


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
    return lambda: operator(data)
