"""The adaptor of MXNet 1.4 and up: one synchronous call of a case, forward or backward, with inputs from a seed."""

import re

import mxnet as mx
import numpy

from .blocks import BlockCall, is_block
from .calls import MAKE_CALL
from .graphs import make_graph
from .inputs import Inputs, make_context
from .networks import Network, is_network, make_network_call
from .objects import is_object, make_use
from .openmp import compute_threads, keep_in_forks  # noqa: F401 - the worker calls one of them
from .operators import resolve
from .profiler import Profiler, device_name, write_profile  # noqa: F401 - the worker calls it
from .results import digest_of
from .results import results as results_of
from .storage import storage

keep_in_forks()


def versions():
    """Return the versions that the controller gets once the framework is imported."""
    return {"framework": mx.__version__, "numpy": numpy.__version__}


def key_line(message):
    """Return the key line of an error message: MXNet 1.9's messages begin with C++ frames and end with it.

    Time and place are removed: ``[12:05:32] ../src/imperative/utils.h:369: Check failed: ...``.
    """
    lines = [line.strip() for line in message.splitlines() if line.strip()] or ["no reason given"]
    line = lines[-1] if lines[0].startswith("Traceback") else lines[0]
    return re.sub(r"\[\d\d:\d\d:\d\d\] \S+:\d+: ", "", line)


def profile(call, calls):
    """Profile so many calls by MXNet's own profiler (``Profiler.profile``). Call it once a process."""
    return Profiler().profile(call, calls)


def memory(case, seed, calls):
    """Return ``{device: bytes}`` that a call needs beyond its inputs (storage.py). Call it once a process."""
    no_bytes = {device_name(make_context(case["context"])): 0}
    return dict(no_bytes, **storage(lambda: untraced_call(case, seed), calls, seed))


def prepare_case(case, seed):
    """Return the case's operator, its ``Inputs``, and its ``args`` and ``kwargs``."""
    inputs = Inputs(case, seed)
    enter_context(inputs)
    if is_network(case["operator"]):
        network = Network(case, seed)
        network.set_mode(static=False)
        return network.outputs, network.inputs, [], {}
    forward, backward, args, kwargs = resolve_case(case, inputs)
    return forward if case["direction"] == "forward" else backward, inputs, args, kwargs


def enter_context(inputs):
    """Set this thread's device, and numpy semantics, for the case's operator."""
    inputs.context.__enter__()  # for operators without tensor arguments
    if hasattr(mx, "npx"):  # an earlier case may have set the other semantics
        (mx.npx.set_np if inputs.numpy else mx.npx.reset_np)()


def resolve_case(case, inputs, function=None, block=None):
    """Return what a case without a network calls: ``(forward, backward, args, kwargs)``.

    ``function``, ``block``: the user's own, in place of the case's operator.
    """
    is_users = function is not None or block is not None
    if not is_users and is_object(case["operator"]):  # first: some of their names begin like those of blocks
        forward, args, kwargs = make_use(case, inputs), [], {}
        backward = forward
        inputs.check_dtype()
    elif block is not None or (not is_users and is_block(case["operator"])):
        block_call = BlockCall(case, inputs, block)
        forward, backward, args, kwargs = block_call.call, block_call.output, block_call.args, {}
        inputs.check_dtype()
    else:
        forward = function or resolve(case["operator"])
        args, kwargs = inputs.arguments()
        kwargs = inputs.with_dtype(forward, kwargs)
        if case.get("mode") == "hybridized":
            forward, args = make_graph(inputs, args, kwargs)
            kwargs = {}
        backward = forward
    mx.nd.waitall()
    return forward, backward, args, kwargs


def results(case, seed, folder, limit):
    """Write to files what the case computes (results.py). Raise as ``make_call`` does."""
    return results_of(prepare_case(case, seed), case, seed, folder, limit)


def digest(case, seed):
    """Return the SHA-256 of the case's inputs and parameters, in hexadecimal digits. Raise as ``make_call`` does."""
    return digest_of(prepare_case(case, seed)[1])


def make_call(case, seed):
    """Return a function that runs the case once, and returns when it is done.

    Raise MissingOperator, and what the operator raises, such as MXNetError.
    """
    call = untraced_call(case, seed)
    if is_network(case["operator"]):
        call()  # traces a hybridized network, which may take ten times as long as a call
    return call


def untraced_call(case, seed):
    """Return the function of ``make_call``, before it has traced a network."""
    if is_network(case["operator"]):
        enter_context(Inputs(case, seed))
        return make_network_call(case, seed)
    operator, inputs, args, kwargs = prepare_case(case, seed)
    gradients = [] if case["direction"] == "forward" else [gradient for _, gradient in inputs.attach_gradients()]
    return MAKE_CALL[case["direction"]](operator, args, kwargs, gradients)
