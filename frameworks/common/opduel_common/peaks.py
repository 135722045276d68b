"""Measure the peak of the memory of Python objects and NumPy arrays in a call."""

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
