"""MXNet as the worker runs it: one synchronous call of a case, forward or backward, its inputs from a seed.

Runs inside the build: standard library, numpy and MXNet only, Python 3.6 syntax, MXNet 1.4 and up.  The worker loads
this folder as a package of its own (harness/worker/main.py, load_adaptor) and calls the functions of this file.
"""

import re

import mxnet as mx
import numpy

from .blocks import BlockCall, is_block
from .graphs import make_graph
from .inputs import Inputs, make_context
from .networks import Network, is_network, make_network_call, outputs_of
from .objects import is_object, make_use
from .openmp import compute_threads, keep_in_forks  # noqa: F401 - the worker calls one of them
from .operators import resolve
from .profiler import Profiler, device_name, write_profile  # noqa: F401 - the worker calls it
from .results import digest_of
from .results import results as results_of
from .storage import storage
from .whole_numbers import check_average, check_case

keep_in_forks()

# oneDNN 2.4 packs the weights of a quantized recurrent layer for VNNI instructions, and can't reorder them into that.
NO_REORDER = "could not create a primitive descriptor for a reorder primitive"
NO_REORDER_ADVICE = (
    "oneDNN can't reorder a tensor into the layout for this processor's instructions; "
    "with older ones it may: --env DNNL_MAX_CPU_ISA=AVX512_CORE"
)


def versions():
    """What the controller receives once the framework is imported."""
    return {"framework": mx.__version__, "numpy": numpy.__version__}


def key_line(message):
    """The line of an error message that says what is wrong: 1.9's begin with C++ frames and end with it.

    Time and place are left out, wherever they are: ``[12:05:32] ../src/imperative/utils.h:369: Check failed: ...``.
    """
    lines = [line.strip() for line in message.splitlines() if line.strip()] or ["no reason given"]
    line = lines[-1] if lines[0].startswith("Traceback") else lines[0]
    line = re.sub(r"\[\d\d:\d\d:\d\d\] \S+:\d+: ", "", line)
    return "{}: {}".format(line, NO_REORDER_ADVICE) if line.endswith(NO_REORDER) else line


def profile(call, calls):
    """What the framework's own profiler says of so many calls: ``Profiler.profile``. Once a process."""
    return Profiler().profile(call, calls)


def memory(case, seed, calls):
    """``{device: bytes}`` that a call needs beyond what it is given: as storage.py says. Once a process."""
    nothing = {device_name(make_context(case["context"])): 0}
    return dict(nothing, **storage(lambda: untraced_call(case, seed), calls, seed))


def wait_for(results):
    """Block until MXNet's asynchronous engine has finished these; without any, until it has finished everything.

    An operator that returns nothing, or an empty list (reset_arrays), works on its arguments.
    """
    if not results:
        mx.nd.waitall()
    for result in results:
        if hasattr(result, "wait_to_read"):
            result.wait_to_read()
        else:
            mx.nd.waitall()


def prepare_case(case, seed):
    """The case's operator, its ``Inputs``, and what they come to as ``args`` and ``kwargs``."""
    inputs = Inputs(case, seed)
    set_up(inputs)
    if is_network(case["operator"]):
        network = Network(case, seed)
        network.settle(static=False)
        return network.outputs, network.inputs, [], {}
    check_case(case)
    forward, backward, args, kwargs = call_of(case, inputs)
    return forward if case["direction"] == "forward" else backward, inputs, args, kwargs


def set_up(inputs):
    """Make this thread run the case's kind of operators, on its device."""
    inputs.context.__enter__()  # where operators that have no tensors make theirs
    if hasattr(mx, "npx"):  # the case before this one may have been of the other kind
        (mx.npx.set_np if inputs.numpy else mx.npx.reset_np)()


def call_of(case, inputs, function=None, block=None):
    """What is called forward and what backward, and its ``args`` and ``kwargs``; of a case that is no network.

    ``function``, ``block``: the user's own, in place of what the case names.
    """
    own = function is not None or block is not None
    if not own and is_object(case["operator"]):  # first: some of their names begin as those of blocks do
        forward, args, kwargs = make_use(case, inputs), [], {}
        backward = forward
        inputs.check_dtype()
    elif block is not None or (not own and is_block(case["operator"])):
        made = BlockCall(case, inputs, block)
        forward, backward, args, kwargs = made.call, made.output, made.args, {}
        inputs.check_dtype()
    else:
        forward = function or resolve(case["operator"])
        args, kwargs = inputs.arguments()
        kwargs = inputs.with_dtype(forward, kwargs)
        if function is None:
            check_average(case, args, kwargs)
        if case.get("mode") == "hybridized":
            forward, args = make_graph(inputs, args, kwargs)
            kwargs = {}
        backward = forward
    mx.nd.waitall()
    return forward, backward, args, kwargs


def results(case, seed, folder, limit):
    """What the case computes, written to files: as results.py says. Raises as ``make_call``."""
    operator, inputs, args, kwargs = prepare_case(case, seed)
    return results_of(case, seed, inputs, operator, args, kwargs, folder, limit)


def digest(case, seed):
    """The SHA-256 of the values of the case's inputs and parameters, in hexadecimal digits. Raises as ``make_call``."""
    return digest_of(prepare_case(case, seed)[1])


def make_call(case, seed):
    """A function of no arguments that runs the case once, and returns when it is done.

    Raises MissingOperator; MXNetError and others as the operator does.
    """
    call = untraced_call(case, seed)
    if is_network(case["operator"]):
        call()  # the first call of a hybridized network traces it, and may take ten times as long
    return call


def untraced_call(case, seed):
    """The call of ``make_call``, before a network has run in the form in which it is called."""
    if is_network(case["operator"]):
        set_up(Inputs(case, seed))
        return make_network_call(case, seed)
    operator, inputs, args, kwargs = prepare_case(case, seed)
    if case["direction"] == "forward":
        return forward_call(operator, args, kwargs)
    gradients = [gradient for _, gradient in inputs.attach_gradients()]
    make = {"backward": backward_call, "both": both_call}[case["direction"]]
    return make(operator, args, kwargs, gradients)


def forward_call(operator, args, kwargs):
    def call():
        result = operator(*args, **kwargs)
        try:
            result.wait_to_read()
        except AttributeError:  # several outputs, or a plain number
            wait_for(outputs_of(result))

    return call


def head_gradients(heads):
    """Ones for every output, made before anything is timed.

    ``backward`` without them allocates and fills them in every call. In a network they come from the operator behind.
    """

    def ones(head):
        is_numpy = hasattr(mx, "np") and isinstance(head, mx.np.ndarray)
        return (mx.np if is_numpy else mx.nd).ones(head.shape, dtype=head.dtype, ctx=head.context)

    return [ones(head) if isinstance(head, mx.nd.NDArray) and 0 not in head.shape else None for head in heads]


def backward_call(operator, args, kwargs, gradients):
    """Backward alone: the graph is recorded once and kept."""
    with mx.autograd.record():
        heads = outputs_of(operator(*args, **kwargs))
    weights = head_gradients(heads)
    mx.nd.waitall()

    def call():
        mx.autograd.backward(heads, head_grads=weights, retain_graph=True)
        wait_for(gradients)

    return call


def both_call(operator, args, kwargs, gradients):
    """Record forward, then backward, as in training."""
    with mx.autograd.record():
        heads = outputs_of(operator(*args, **kwargs))
    weights = head_gradients(heads)
    del heads
    mx.nd.waitall()

    def call():
        with mx.autograd.record():
            heads = outputs_of(operator(*args, **kwargs))
        mx.autograd.backward(heads, head_grads=weights)
        wait_for(gradients)

    return call
