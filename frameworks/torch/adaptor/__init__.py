"""PyTorch as the worker runs it: one call of a case, forward or backward, its inputs from a seed.

Runs inside the build: standard library, NumPy and PyTorch only, Python 3.6 syntax.  The worker loads this folder as a
package of its own (harness/worker/main.py, load_adaptor) and calls the functions of this file.
"""

import os
import re

import numpy
import torch

from opduel_common.names import resolve, resolve_call
from opduel_common.results import as_numbers, digest_of, write_all

from .devices import device_of, on_device
from .gradients import backward_call, both_call, gradients_of
from .inputs import Inputs
from .modules import ModuleCall, is_module
from .profiler import memory_of, profile, write_profile  # noqa: F401 - the worker calls two of them
from .results import changed, named_tensors, plain, precisions

THREADS = int(os.environ.get("OMP_NUM_THREADS", "1"))
OUT_OF_MEMORY = re.compile(r"CUDA out of memory\. Tried to allocate [0-9.]+ \w+")
torch.set_num_interop_threads(1)  # of what runs beside an operator: nothing in a case does


def versions():
    """What the controller receives once the framework is imported."""
    return {"framework": torch.__version__, "numpy": numpy.__version__}


def key_line(message):
    """The line of an error message that says what is wrong: PyTorch's begin with it and end with C++ frames."""
    lines = [line.strip() for line in message.splitlines() if line.strip()] or ["no reason given"]
    line = lines[-1] if lines[0].startswith("Traceback") else lines[0]
    wanted = OUT_OF_MEMORY.match(line)  # after which comes what every process holds, and what may help
    return wanted.group() if wanted else line


def prepare_case(case, seed):
    """What is resolve_call, its ``Inputs``, and what they come to as ``args`` and ``kwargs``.

    Raises MissingOperator; ValueError for a context that this machine, or build, doesn't have.
    """
    torch.set_num_threads(THREADS)  # here, not at the import: it begins threads, which a fork would lose
    device = device_of(case["context"])
    if device.type == "cuda":
        torch.cuda.empty_cache()  # of the process's earlier cases: the other side may need the memory
    found = resolve(case["operator"])[0]  # a name that isn't there is reported before the inputs are made
    inputs = Inputs(case, seed, device)
    if is_module(found):
        made = ModuleCall(case, found, inputs)
        function, args, kwargs = made.module, made.args, made.kwargs
    else:
        args, kwargs = inputs.arguments()
        function, args = resolve_call(case["operator"], args, kwargs)
    inputs.check_dtype()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return function, inputs, args, kwargs


def make_call(case, seed):
    """A function of no arguments that runs the case once. Raises as ``prepare_case``; whatever PyTorch raises.

    On a GPU it returns before the work is done, and its ``timer`` times it with CUDA events: devices.py.
    """
    function, inputs, args, kwargs = prepare_case(case, seed)
    if case["direction"] == "forward":

        def call():
            function(*args, **kwargs)

    else:
        make = {"backward": backward_call, "both": both_call}[case["direction"]]
        call = make(function, args, kwargs, inputs.differentiable())
    return on_device(call, inputs.device, case["id"])


def results(case, seed, folder, limit):
    """What the case computes, written to files: outputs, gradients, and inputs that it changed. Raises as
    ``make_call``."""
    function, inputs, args, kwargs = prepare_case(case, seed)
    before = {name: plain(one).tobytes() for name, one in inputs.tensors.items()}
    inputs.seed_generators()  # what the call draws from
    if case["direction"] == "forward":
        found = named_tensors("output", function(*args, **kwargs))
    else:
        found = gradients_of(case, seed, inputs.differentiable(), function, args, kwargs)
    found += changed(inputs.tensors, before)
    arrays = [one for name, each in found for one in as_numbers(name, plain(each))]
    return write_all(arrays, folder, limit, precisions(found))


def digest(case, seed):
    """The SHA-256 of the values of the case's inputs and parameters, in hexadecimal digits."""
    inputs = prepare_case(case, seed)[1]
    values = dict(inputs.tensors)
    values.update(("parameter " + name, one) for name, one in inputs.parameters.items())
    return digest_of({name: plain(one) for name, one in values.items()})


def memory(case, seed, calls):
    """``{device: bytes}``: the most that PyTorch's allocator held at once in a call beyond what was there before; the
    median over so many calls."""
    call = make_call(case, seed)
    call()  # what the first call caches is not needed by each
    return memory_of(call, calls, device_of(case["context"]))
