"""Measure the time of a call's operators, and the peak of its storage, by PyTorch's own profiler and counters."""

import os

import torch

from opduel_common.peaks import middle

MEMORY = "[memory]"  # name of the profiler's events of allocations
CALL = "opduel call"  # name of the range around each call, if several are recorded together
FIRST_CALLS = 3  # calls in which the profiler still makes its buffers
OVERHEAD = (CALL, "Activity Buffer Request", "cudaDeviceSynchronize")  # events that aren't of the case


def synchronize(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def record(call, **options):
    """Return the finished ``torch.profiler.profile`` of one call, on all devices."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities, **options) as profiler:
        call()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
    return profiler


def profile(call, calls):
    """Profile so many calls; return {"operators": {name: [ns, ...]}, "memory": {device: bytes}} for each.

    The time of an operator's run excludes that of operators it calls; for kernels it is the time on the GPU. On a GPU
    there are also "kernels", the names of operators that are kernels.
    """
    device = getattr(call, "device", None)
    if device is not None:
        return [dict(call_profile, memory={}) for call_profile in profile_together(call, calls, device)]
    profiles = []
    for _ in range(calls):
        profiler = record(call, profile_memory=True)
        profiles.append({"operators": operator_times(profiler.events()), "memory": {"cpu/0": peak(profiler)}})
    return profiles


def profile_together(call, calls, device):
    """Return ``operators`` and ``kernels`` of each of so many calls on a GPU, recorded together.

    A recording of one call would hold more of the profiler's work than of the call's.
    """

    def run():
        for _ in range(FIRST_CALLS + calls):
            with torch.profiler.record_function(CALL):
                call()
                synchronize(device)

    events = sorted(record(run).events(), key=lambda event: event.time_range.start)
    ranges = {event.name for event in events if is_on_cpu(event)}  # repeated on the GPU, around kernels
    events_by_call = []
    for event in events:
        if event.name == CALL and is_on_cpu(event):
            events_by_call.append([])
        elif events_by_call and event.name not in OVERHEAD and (is_on_cpu(event) or event.name not in ranges):
            events_by_call[-1].append(event)
    return [
        {"operators": operator_times(call_events, least=0), "kernels": kernels_of(call_events)}
        for call_events in events_by_call[FIRST_CALLS:]
    ]


def is_on_cpu(event):
    return event.device_type == torch.autograd.DeviceType.CPU


def kernels_of(events):
    """Return the names of the events on a GPU."""
    return sorted({event.name for event in events if not is_on_cpu(event)})


def operator_times(events, least=1):
    """Return ``{name: [ns, ...]}`` of a profile's events that took at least so many ns by themselves."""
    times = {}
    for event in events:
        on_gpu = "self_device_time_total" if hasattr(event, "self_device_time_total") else "self_cuda_time_total"
        own = event.self_cpu_time_total if is_on_cpu(event) else getattr(event, on_gpu)
        if 1000 * own >= least and not event.name.startswith("["):
            times.setdefault(event.name, []).append(round(1000 * own))
    return times


def peak(profiler):
    """Return the peak of bytes allocated on the CPU beyond those at the profile's start."""
    allocated = highest = 0
    events = profiler.profiler.kineto_results.events()
    for event in sorted((event for event in events if event.name() == MEMORY), key=start_of):
        if event.device_type() == torch.autograd.DeviceType.CPU:
            allocated += event.nbytes()
            highest = max(highest, allocated)
    return highest


def start_of(event):
    return event.start_ns() if hasattr(event, "start_ns") else event.start_us()


def memory_of(call, calls, device):
    """Return ``{device: bytes}``: the peak that the allocator holds in a call, the median over so many calls."""
    if device.type == "cuda":
        return {f"gpu/{device.index}": middle(gpu_peak(call, device) for _ in range(calls))}
    return {"cpu/0": middle(peak(record(call, profile_memory=True)) for _ in range(calls))}


def gpu_peak(call, device):
    """Return the peak in bytes, by the counters of the GPU's allocator."""
    synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    call()
    synchronize(device)
    return torch.cuda.max_memory_allocated(device) - before


def write_profile(call, calls, folder, name):
    """Write the profiler's trace (``trace.json``) and table (``table.txt``) of so many calls, each in a range."""

    def run():
        for _ in range(calls):
            with torch.profiler.record_function(name):
                call()

    profiler = record(run, profile_memory=True, record_shapes=True)
    profiler.export_chrome_trace(os.path.join(folder, "trace.json"))
    with open(os.path.join(folder, "table.txt"), "w") as stream:
        stream.write(profiler.key_averages().table(sort_by="self_cpu_time_total", row_limit=100))
