"""ONNX Runtime as the worker runs it: one call of a session, its inputs from a seed.

Runs inside the build: standard library, NumPy, onnxruntime, and onnx for graphs of one operator; Python 3.6 syntax.
The worker loads this folder as a package of its own (harness/worker/main.py, load_adaptor) and calls the functions of
this file.  The import starts no thread; a session, which may have a pool of them, is made after the worker has forked.
"""

import numpy
import onnxruntime

from opduel_common.results import digest_of

from .allocations import memory  # noqa: F401 - the worker calls it
from .messages import key_line  # noqa: F401 - the worker calls it
from .prepare import Prepared
from .profiler import profile, write_profile  # noqa: F401 - the worker calls them
from .results import digest_of_prepared, write_results
from .schemas import onnx


def versions():
    """What the controller receives once the framework is imported."""
    found = {"framework": onnxruntime.__version__, "numpy": numpy.__version__}
    return dict(found, onnx=onnx.__version__) if onnx is not None else found


def make_call(case, seed):
    """A function of no arguments that runs the case's session once, from NumPy arrays to NumPy arrays.

    Raises MissingOperator; ValueError; what ONNX Runtime raises for a graph that it can't run.
    """
    prepared = Prepared(case, seed)
    run, feeds = prepared.session().run, prepared.feeds

    def call():
        run(None, feeds)

    call.prepared = prepared
    return call


def results(case, seed, folder, limit):
    """What the case computes, written to files: as results.py says. Raises as ``make_call``."""
    prepared = Prepared(case, seed)
    onnxruntime.set_seed(seed & 0x7FFFFFFF)
    session = prepared.session()
    return write_results(session.get_outputs(), session.run(None, prepared.feeds), folder, limit)


def digest(case, seed):
    """The SHA-256 of the graph and of the case's inputs, in hexadecimal digits. Raises as ``make_call``."""
    return digest_of_prepared(Prepared(case, seed))


def inputs_digest(case, seed):
    """The same of the values that are drawn, alone: as other frameworks have it for the same inputs."""
    arrays = Prepared(case, seed).arrays
    return digest_of({name: arrays.arrays[name] for name in arrays.drawn})
