"""Where a case runs, and how a GPU's work is timed."""

import torch


def device_of(context):
    """The torch.device for ``cpu``, ``gpu`` or ``gpu(1)``. Raises ValueError where there is no such GPU."""
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
    """``call`` as the worker times it: by its own clock on a CPU, with CUDA events on a GPU, within a range of NVTX."""
    if device.type == "cpu":
        return call
    return DeviceCall(call, device, name)


class DeviceCall:
    """A call whose work a GPU does, in order, after it has returned."""

    def __init__(self, call, device, name):
        self.call = call
        self.device = device
        self.name = name

    def __call__(self):
        self.call()

    def timer(self, work):
        """How long the GPU takes from the beginning to the end of ``work()``, in nanoseconds: gaps in which it waits
        for the processor included."""
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize(self.device)
        torch.cuda.nvtx.range_push(self.name)
        try:
            start.record()
            work()
            end.record()
            end.synchronize()
        finally:
            torch.cuda.nvtx.range_pop()
        return 1e6 * start.elapsed_time(end)
