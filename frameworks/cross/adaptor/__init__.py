"""The adaptor of a side's own framework, which gets its own operator of each case; Python 3.6 syntax.

The build says by its variables which side it is on, and where its framework's adaptor is (framework.py).
"""

import os
import sys

SIDE = os.environ["OPDUEL_SIDE"]
INNER = sys.modules["__main__"].load_adaptor(os.environ["OPDUEL_ADAPTOR"])  # the worker's own way of loading


def own(case):
    """The case as the side's framework has it: values of inputs are drawn from the case's id, alike on both sides."""
    told = case["inputs"]
    inputs = dict(told["inputs"])
    inputs.update(told[SIDE].get("inputs", {}))
    return dict(case, operator=told[SIDE]["operator"], inputs=inputs)


def versions():
    return INNER.versions()


def make_call(case, seed):
    return INNER.make_call(own(case), seed)


def results(case, seed, folder, limit):
    """What the side computes. Raises ValueError where its framework compares nothing."""
    if not hasattr(INNER, "results"):
        raise ValueError("this side's framework can't compare what it computes: leave the metric error out")
    return INNER.results(own(case), seed, folder, limit)


def digest(case, seed):
    """Of the inputs' values: by the adaptor's ``inputs_digest`` where its ``digest`` is of more than these; empty where
    the framework has neither."""
    found = getattr(INNER, "inputs_digest", None) or getattr(INNER, "digest", None)
    return found(own(case), seed) if found else ""


if hasattr(INNER, "key_line"):
    key_line = INNER.key_line

if hasattr(INNER, "compute_threads"):
    compute_threads = INNER.compute_threads
