"""Choose a case's device, and time a GPU's work."""

import functools

import torch


def device_of(context):
    """Return the torch.device for ``cpu``, ``gpu`` or ``gpu(1)``. Raise ValueError if there is no such GPU."""
    kind, _, index = context.rstrip(")").partition("(")
    if kind == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        built = torch.version.cuda or getattr(torch.version, "hip", None)
        why = "PyTorch finds no GPU on this machine" if built else "this build of PyTorch has no CUDA"
        raise ValueError(f"{context}: {why}: use cpu")
    number = int(index or 0)
    if number >= torch.cuda.device_count():
        raise ValueError(f"{context}: this machine has {torch.cuda.device_count()} GPUs, numbered from 0: use another")
    torch.cuda.set_device(number)
    return torch.device("cuda", number)


def on_device(call, device, name):
    """Return ``call`` for the worker's clock on a CPU; on a GPU with a ``timer`` by CUDA events, in an NVTX range."""
    if device.type != "cpu":
        call.device = device
        call.timer = functools.partial(time_on_gpu, device, name)
    return call


def time_on_gpu(device, name, work):
    """Return the ns that the GPU takes for ``work()``, including gaps in which it waits for the processor."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize(device)
    torch.cuda.nvtx.range_push(name)
    try:
        start.record()
        work()
        end.record()
        end.synchronize()
    finally:
        torch.cuda.nvtx.range_pop()
    return 1e6 * start.elapsed_time(end)
