"""The adaptor of ONNX Runtime: one call of a session, with inputs from a seed.

Graphs of one operator need the package onnx, too. The import starts no thread; a session, which may have a pool of
threads, is made after the worker has forked.
"""

import numpy
import onnxruntime

from opduel_common.results import as_numbers, digest_of, flatten, write_all

from .allocations import memory  # noqa: F401 - the worker calls it
from .messages import key_line  # noqa: F401 - the worker calls it
from .prepare import Prepared
from .profiler import profile, write_profile  # noqa: F401 - the worker calls them
from .schemas import onnx


def versions():
    """Return the versions that the controller gets once the framework is imported."""
    versions_by_package = {"framework": onnxruntime.__version__, "numpy": numpy.__version__}
    return dict(versions_by_package, onnx=onnx.__version__) if onnx is not None else versions_by_package


def make_call(case, seed):
    """Return a function that runs the case's session once, from NumPy arrays to NumPy arrays. Raise MissingOperator,
    ValueError, and what ONNX Runtime raises for a graph that it can't run."""
    prepared = Prepared(case, seed)
    run, feeds = prepared.session().run, prepared.feeds

    def call():
        run(None, feeds)

    call.prepared = prepared
    return call


def results(case, seed, folder, limit):
    """Write to files what the case computes. Raise as ``make_call`` does, and TypeError if it isn't numeric."""
    prepared = Prepared(case, seed)
    onnxruntime.set_seed(seed & 0x7FFFFFFF)
    session = prepared.session()
    names = [output.name for output in session.get_outputs()]
    values = session.run(None, prepared.feeds)
    arrays = [pair for name, value in zip(names, values) for pair in flatten(name, value, as_numbers)]
    return write_all(arrays, folder, limit)


def digest(case, seed):
    """Return the SHA-256 of the inputs, and of a graph that was made for the case. Raise as ``make_call`` does."""
    prepared = Prepared(case, seed)
    arrays = {
        name: array.astype("U") if array.dtype.kind == "O" else array for name, array in prepared.arrays.arrays.items()
    }
    if isinstance(prepared.model, bytes):
        arrays["the graph itself"] = numpy.frombuffer(prepared.model, "uint8")
    return digest_of(arrays)


def inputs_digest(case, seed):
    """Return the digest of the drawn values alone, which is the same in other frameworks for the same inputs."""
    arrays = Prepared(case, seed).arrays
    return digest_of({name: arrays.arrays[name] for name in arrays.drawn})
