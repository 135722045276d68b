"""Pass each case to the adaptor of this side's framework, with this side's operator; Python 3.6 syntax.

The build's variables name the side and its framework's adaptor (framework.py).
"""

import os
import sys

SIDE = os.environ["OPDUEL_SIDE"]
INNER = sys.modules["__main__"].load_adaptor(os.environ["OPDUEL_ADAPTOR"])  # the worker's own way of loading


def own(case):
    """Return the case of this side's framework; inputs are drawn from its id, and so are the same on both sides."""
    both_sides = case["inputs"]
    inputs = dict(both_sides["inputs"])
    inputs.update(both_sides[SIDE].get("inputs", {}))
    return dict(case, operator=both_sides[SIDE]["operator"], inputs=inputs)


def versions():
    return INNER.versions()


def make_call(case, seed):
    return INNER.make_call(own(case), seed)


def results(case, seed, folder, limit):
    """Write what this side computes. Raise ValueError if its framework can't compare results."""
    if not hasattr(INNER, "results"):
        raise ValueError("this side's framework can't compare what it computes: leave the metric error out")
    return INNER.results(own(case), seed, folder, limit)


def digest(case, seed):
    """Return the digest of the inputs' values, or "" if the framework has none.

    An adaptor whose ``digest`` covers more than the inputs has ``inputs_digest``.
    """
    inner_digest = getattr(INNER, "inputs_digest", None) or getattr(INNER, "digest", None)
    return inner_digest(own(case), seed) if inner_digest else ""


if hasattr(INNER, "key_line"):
    key_line = INNER.key_line

if hasattr(INNER, "compute_threads"):
    compute_threads = INNER.compute_threads
