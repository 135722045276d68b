"""Measure peaks of memory: of Python objects and NumPy arrays in a call, and of a process."""

import gc
import tracemalloc


def middle(peaks):
    """Return the median, of an even number the upper one."""
    in_order = sorted(peaks)
    return in_order[len(in_order) // 2]


def peak_of_objects(call, calls, prepare=lambda: None):
    """Return ``{"cpu": bytes}``: a call's peak, the median over so many calls; ``prepare`` runs before each.

    tracemalloc doesn't see what a library in C allocates for itself: ``process_memory`` does.
    """
    prepare()
    call()  # fills caches, which later calls don't
    gc.collect()
    peaks = []
    for _ in range(calls):
        prepare()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            call()
            peaks.append(tracemalloc.get_traced_memory()[1] - before)
        finally:
            tracemalloc.stop()
    return {"cpu": middle(peaks)}


def peak_of_process(pid="self"):
    """Return the most anonymous and shared memory that a process has had, in bytes.

    Linux keeps the peak of all resident pages (man 5 proc: VmHWM); those of files, most of them libraries', are taken
    off, as many as there are now. How many are resident depends on how a file lies in the page cache: between two
    copies of one library that is megabytes.
    """
    with open("/proc/{}/status".format(pid)) as lines:
        kilobytes = {line.split(":")[0]: line.split()[1] for line in lines if line.startswith(("VmHWM:", "RssFile:"))}
    return 1024 * (int(kilobytes["VmHWM"]) - int(kilobytes.get("RssFile", 0)))  # RssFile: since Linux 4.5
