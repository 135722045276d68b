"""The adaptor of ONNX Runtime: one call of a session, with inputs from a seed.

It runs inside the build: standard library, NumPy, onnxruntime, and onnx for graphs of one operator; Python 3.6 syntax.
The worker loads this folder as a package (harness/worker/main.py, load_adaptor) and calls the functions of this file.
The import starts no thread; a session, which may have a pool of threads, is made after the worker has forked.
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
    """Return the versions that the controller gets once the framework is imported."""
    versions_by_package = {"framework": onnxruntime.__version__, "numpy": numpy.__version__}
    return dict(versions_by_package, onnx=onnx.__version__) if onnx is not None else versions_by_package


def make_call(case, seed):
    """Return a function that runs the case's session once, from NumPy arrays to NumPy arrays.

    Raise MissingOperator, ValueError, and what ONNX Runtime raises for a graph that it can't run.
    """
    prepared = Prepared(case, seed)
    run, feeds = prepared.session().run, prepared.feeds

    def call():
        run(None, feeds)

    call.prepared = prepared
    return call


def results(case, seed, folder, limit):
    """Write to files what the case computes (results.py). Raise as ``make_call`` does."""
    prepared = Prepared(case, seed)
    onnxruntime.set_seed(seed & 0x7FFFFFFF)
    session = prepared.session()
    return write_results(session.get_outputs(), session.run(None, prepared.feeds), folder, limit)


def digest(case, seed):
    """Return the SHA-256 of the graph and of the case's inputs, in hexadecimal digits. Raise as ``make_call`` does."""
    return digest_of_prepared(Prepared(case, seed))


def inputs_digest(case, seed):
    """Return the digest of the drawn values alone, which is the same in other frameworks for the same inputs."""
    arrays = Prepared(case, seed).arrays
    return digest_of({name: arrays.arrays[name] for name in arrays.drawn})
