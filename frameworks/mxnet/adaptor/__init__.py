"""MXNet as the worker runs it: one synchronous call of a case, forward or backward, its inputs from a seed.

Runs inside the build: standard library, numpy and MXNet only, Python 3.6 syntax, MXNet 1.4 and up.  The worker loads
this folder as a package of its own (harness/worker/main.py, load_adaptor) and calls the functions of this file.
"""

import re

import mxnet as mx
import numpy

from . import custom  # noqa: F401 - registers what nd.Custom runs
from .blocks import BlockCall, is_block
from .inputs import Inputs
from .operators import resolve
from .profiler import Profiler


def versions():
    """What the controller is told once the framework is imported."""
    return {"framework": mx.__version__, "numpy": numpy.__version__}


def telling_line(message):
    """The line of an error message that says what is wrong: 1.9's begin with C++ frames and end with it.

    Time and place are left out, wherever they are: ``[12:05:32] ../src/imperative/utils.h:369: Check failed: ...``.
    """
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    line = lines[-1] if lines[0].startswith("Traceback") else lines[0]
    return re.sub(r"\[\d\d:\d\d:\d\d\] \S+:\d+: ", "", line)


def profile(call, calls):
    """What the framework's own profiler says of so many calls: ``Profiler.profile``. Once a process."""
    profiler = Profiler()
    try:
        return profiler.profile(call, calls)
    finally:
        profiler.close()


def outputs_of(result):
    """The outputs in a row: a recurrent block returns its states in a list of their own."""
    if not isinstance(result, (list, tuple)):
        return [result]
    return [output for part in result for output in outputs_of(part)]


def wait_for(results):
    """Block until MXNet's asynchronous engine has finished these."""
    for result in results:
        if hasattr(result, "wait_to_read"):
            result.wait_to_read()
        else:
            mx.nd.waitall()


def make_call(case, seed):
    """A function of no arguments that runs the case once, and returns when it is done.

    Raises MissingOperator; MXNetError and others as the operator does.
    """
    inputs = Inputs(case, seed)
    if hasattr(mx, "npx"):  # the case before this one may have been of the other kind
        (mx.npx.set_np if inputs.numpy else mx.npx.reset_np)()
    if is_block(case["operator"]):
        block = BlockCall(case, inputs)
        operator = block.call if case["direction"] == "forward" else block.output
        args, kwargs, tensors, gradients = block.args, {}, block.inputs, block.gradients()
    else:
        operator = resolve(case["operator"])
        args, kwargs = inputs.arguments()
        tensors, gradients = inputs.differentiable(), []
    mx.nd.waitall()
    if case["direction"] == "forward":
        return forward_call(operator, args, kwargs)
    for tensor in tensors:
        tensor.attach_grad()
    make = {"backward": backward_call, "both": both_call}[case["direction"]]
    return make(operator, args, kwargs, [tensor.grad for tensor in tensors] + gradients)


def forward_call(operator, args, kwargs):
    def call():
        result = operator(*args, **kwargs)
        try:
            result.wait_to_read()
        except AttributeError:  # several outputs, or a plain number
            wait_for(outputs_of(result))

    return call


def backward_call(operator, args, kwargs, gradients):
    """Backward alone: the graph is recorded once and kept."""
    with mx.autograd.record():
        heads = outputs_of(operator(*args, **kwargs))
    mx.nd.waitall()

    def call():
        mx.autograd.backward(heads, retain_graph=True)
        for gradient in gradients:
            gradient.wait_to_read()

    return call


def both_call(operator, args, kwargs, gradients):
    """Record forward, then backward, as in training."""

    def call():
        with mx.autograd.record():
            heads = outputs_of(operator(*args, **kwargs))
        mx.autograd.backward(heads)
        for gradient in gradients:
            gradient.wait_to_read()

    return call
