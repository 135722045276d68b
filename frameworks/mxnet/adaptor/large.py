"""Refuse tensors that this build can't index or this machine can't hold, before anything is allocated."""

import functools
import operator

import numpy

LARGEST_INT32 = 2**31 - 1  # elements
FEATURE = "INT64_TENSOR_SIZE"
ALWAYS_AVAILABLE = 2**28  # bytes that any machine has
AT_ONCE = 4  # both sides measure one case while they prepare the next
STAGING_ITEM = 8  # bytes: numpy draws values of 64 bits


class UnsupportedSize(Exception):
    """The build can't index so many elements."""

    kind = "missing"


class TooLarge(Exception):
    """The machine has too little memory."""

    kind = "out-of-memory"


def check(tensors, direction):
    """Raise UnsupportedSize or TooLarge if the build or the machine can't hold ``[(name, shape, dtype, plain)]``.

    ``plain`` tensors are all zeros or ones, and are made without values of 64 bits.
    """
    for name, shape, _, _ in tensors:
        if elements(shape) > LARGEST_INT32 and not is_enabled(FEATURE):
            raise UnsupportedSize(
                f"{name} has {elements(shape)} elements, and this build numbers at most {LARGEST_INT32}: "
                "use one built with -DUSE_INT64_TENSOR_SIZE=ON"
            )
    needed = bytes_needed(tensors, direction)
    if needed < ALWAYS_AVAILABLE:
        return
    available = memory_available()
    if available is not None and needed * AT_ONCE > available:
        raise TooLarge(
            f"needs some {gib(needed)}, up to {AT_ONCE} times over while both sides measure and prepare, and "
            f"{gib(available)} are free: use smaller tensors, or a machine with more memory"
        )


def is_enabled(feature):
    try:
        from mxnet import runtime
    except ImportError:  # before 1.5
        return False
    return runtime.Features().is_enabled(feature)


def elements(shape):
    return functools.reduce(operator.mul, shape, 1)


def bytes_needed(tensors, direction):
    """Return the bytes of the inputs, of an output as large as the largest, of gradients, and of numpy's array."""
    sizes, staging = [0], [0]
    for _, shape, dtype, plain in tensors:
        sizes.append(elements(shape) * numpy.dtype(dtype).itemsize)
        staging.append(sizes[-1] + (0 if plain else elements(shape) * STAGING_ITEM))
    return (sum(sizes) + max(sizes)) * (1 if direction == "forward" else 2) + max(staging)


def memory_available():
    """Return the available bytes, or None if the kernel doesn't report them."""
    try:
        with open("/proc/meminfo") as lines:
            return next((1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")), None)
    except OSError:
        return None


def gib(count):
    return f"{count / 2**30:.1f} GiB"
