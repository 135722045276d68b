"""The adaptor of PyTorch: one call of a case, forward or backward, with inputs from a seed."""

import os
import re

import numpy
import torch

from opduel_common.names import resolve, resolve_call
from opduel_common.results import as_numbers, digest_of, with_changes, write_all

from .devices import device_of, on_device
from .gradients import backward_call, both_call, gradients_of
from .inputs import Inputs
from .modules import is_module, module_call
from .profiler import memory_of, profile, write_profile  # noqa: F401 - the worker calls two of them
from .results import named_tensors, precisions, to_numpy

THREADS = int(os.environ.get("OMP_NUM_THREADS", "1"))
OUT_OF_MEMORY = re.compile(r"CUDA out of memory\. Tried to allocate [0-9.]+ \w+")
torch.set_num_interop_threads(1)  # nothing runs beside a case's operator


def versions():
    """Return the versions that the controller gets once the framework is imported."""
    return {"framework": torch.__version__, "numpy": numpy.__version__}


def key_line(message):
    """Return the key line of an error message: PyTorch's messages begin with it and end with C++ frames."""
    lines = [line.strip() for line in message.splitlines() if line.strip()] or ["no reason given"]
    line = lines[-1] if lines[0].startswith("Traceback") else lines[0]
    match = OUT_OF_MEMORY.match(line)  # followed by the memory of every process, and advice
    return match.group() if match else line


def prepare_case(case, seed):
    """Return the case's function, its ``Inputs``, and its ``args`` and ``kwargs``. Raise MissingOperator; ValueError
    for a context that this machine, or build, doesn't have."""
    torch.set_num_threads(THREADS)  # not at the import: it starts threads, which a fork would lose
    device = device_of(case["context"])
    if device.type == "cuda":
        torch.cuda.empty_cache()  # free the memory of earlier cases, which the other side may need
    operator = resolve(case["operator"])[0]  # report a missing operator before the inputs are made
    inputs = Inputs(case, seed, device)
    if is_module(operator):
        function, args, kwargs = module_call(case, operator, inputs)
    else:
        args, kwargs = inputs.arguments()
        function, args = resolve_call(case["operator"], args, kwargs)
    inputs.check_dtype()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return function, inputs, args, kwargs


def make_call(case, seed):
    """Return a function that runs the case once. Raise as ``prepare_case`` does, and whatever PyTorch raises.

    On a GPU the function returns before the work is done, and its ``timer`` times it with CUDA events (devices.py).
    """
    function, inputs, args, kwargs = prepare_case(case, seed)
    if case["direction"] == "forward":

        def call():
            function(*args, **kwargs)

    else:
        make = {"backward": backward_call, "both": both_call}[case["direction"]]
        call = make(function, args, kwargs, inputs.differentiable_tensors())
    return on_device(call, inputs.device, case["id"])


def results(case, seed, folder, limit):
    """Write to files what the case computes: outputs, gradients, and inputs that it changed. Raise as ``make_call``
    does."""
    function, inputs, args, kwargs = prepare_case(case, seed)

    def compute():
        inputs.seed_generators()  # for a call that draws
        if case["direction"] == "forward":
            return named_tensors("output", function(*args, **kwargs))
        return gradients_of(case, seed, inputs.differentiable_tensors(), function, args, kwargs)

    tensors = with_changes(compute, inputs.tensors, to_numpy)
    arrays = [pair for name, tensor in tensors for pair in as_numbers(name, to_numpy(tensor))]
    return write_all(arrays, folder, limit, precisions(tensors))


def digest(case, seed):
    """Return the SHA-256 of the case's inputs and parameters, in hexadecimal digits."""
    inputs = prepare_case(case, seed)[1]
    values = dict(inputs.tensors)
    values.update(("parameter " + name, tensor) for name, tensor in inputs.parameters.items())
    return digest_of({name: to_numpy(tensor) for name, tensor in values.items()})


def memory(case, seed, calls):
    """Return ``{device: bytes}``: the peak that PyTorch's allocator holds in a call beyond what was there before; the
    median over so many calls."""
    call = make_call(case, seed)
    call()  # fills caches, which later calls don't
    return memory_of(call, calls, device_of(case["context"]))
