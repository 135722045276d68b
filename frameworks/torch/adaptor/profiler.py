"""PyTorch's own profiler and counters: how long each operator of a call took, and what storage a call holds at most."""

import os

import torch

MEMORY = "[memory]"  # name of the profiler's events of allocations
CALL = "opduel call"  # of the range around each call, where several are recorded together
FIRST_CALLS = 3  # of these, in which the profiler still makes its buffers
OURS = (CALL, "Activity Buffer Request", "cudaDeviceSynchronize")  # not the case's: the profiler's, and ``synchronize``


def synchronize(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def record(call, **options):
    """``torch.profiler.profile`` of one call, on all devices there are."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities, **options) as found:
        call()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
    return found


def profile(call, calls):
    """Profile so many calls; a list with one entry for each of them.

    An entry: {"operators": {name: [ns, ...]}, the time of each run of an operator without that of those it calls, on
    the GPU for kernels, "memory": {device: bytes}}; on a GPU also "kernels", the names of those that are kernels.
    """
    device = getattr(call, "device", None)
    if device is not None:
        return [dict(one, memory={}) for one in together(call, calls, device)]
    found = []
    for _ in range(calls):
        made = record(call, profile_memory=True)
        found.append({"operators": operator_times(made.events()), "memory": {"cpu/0": peak(made)}})
    return found


def together(call, calls, device):
    """``operators`` and ``kernels`` of each of so many calls, recorded one after the other: on a GPU, where a recording
    of one call has more of the profiler's own work in it than of the call's."""

    def run():
        for _ in range(FIRST_CALLS + calls):
            with torch.profiler.record_function(CALL):
                call()
                synchronize(device)

    events = sorted(record(run).events(), key=lambda event: event.time_range.start)
    ranges = {event.name for event in events if is_on_cpu(event)}  # which the GPU's events repeat, around kernels
    found = []
    for event in events:
        if event.name == CALL and is_on_cpu(event):
            found.append([])
        elif found and event.name not in OURS and (is_on_cpu(event) or event.name not in ranges):
            found[-1].append(event)
    return [{"operators": operator_times(one, least=0), "kernels": kernels_of(one)} for one in found[FIRST_CALLS:]]


def is_on_cpu(event):
    return event.device_type == torch.autograd.DeviceType.CPU


def kernels_of(events):
    """The names of what ran on a GPU."""
    return sorted({event.name for event in events if not is_on_cpu(event)})


def operator_times(events, least=1):
    """``{name: [ns, ...]}`` of a profile's events: those of so many nanoseconds of their own, or more."""
    times = {}
    for event in events:
        on_gpu = "self_device_time_total" if hasattr(event, "self_device_time_total") else "self_cuda_time_total"
        own = event.self_cpu_time_total if is_on_cpu(event) else getattr(event, on_gpu)
        if 1000 * own >= least and not event.name.startswith("["):
            times.setdefault(event.name, []).append(round(1000 * own))
    return times


def peak(made):
    """The most bytes on the CPU that were held at once beyond what was there when the profile began."""
    held = most = 0
    events = made.profiler.kineto_results.events()
    for event in sorted((one for one in events if one.name() == MEMORY), key=start_of):
        if event.device_type() == torch.autograd.DeviceType.CPU:
            held += event.nbytes()
            most = max(most, held)
    return most


def start_of(event):
    return event.start_ns() if hasattr(event, "start_ns") else event.start_us()


def memory_of(call, calls, device):
    """``{device: bytes}``: the most that the allocator held at once in a call; the median over so many calls."""
    peaks = sorted(gpu_peak(call, device) if device.type == "cuda" else cpu_peak(call) for _ in range(calls))
    name = "gpu/{}".format(device.index) if device.type == "cuda" else "cpu/0"
    return {name: peaks[len(peaks) // 2]}


def cpu_peak(call):
    return peak(record(call, profile_memory=True))


def gpu_peak(call, device):
    """By the counters of the allocator itself."""
    synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    call()
    synchronize(device)
    return torch.cuda.max_memory_allocated(device) - before


def write_profile(call, calls, folder, name):
    """The profiler's own trace (``trace.json``) and table (``table.txt``) of so many calls, each within a range."""

    def run():
        for _ in range(calls):
            with torch.profiler.record_function(name):
                call()

    made = record(run, profile_memory=True, record_shapes=True)
    made.export_chrome_trace(os.path.join(folder, "trace.json"))
    with open(os.path.join(folder, "table.txt"), "w") as stream:
        stream.write(made.key_averages().table(sort_by="self_cpu_time_total", row_limit=100))
