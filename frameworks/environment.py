"""The environment that a framework is run in, when it is measured and when it is asked what it is."""

import os


def worker_environment() -> dict[str, str]:
    """What every worker's environment starts from: little of the user's own, and the same for both sides.

    glibc's malloc is kept from giving freed blocks back to the kernel, which makes some processes ten times
    slower than others.  33554432 is the largest threshold that glibc accepts (half of HEAP_MAX_SIZE).
    """
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LD_LIBRARY_PATH", "TMPDIR") if name in os.environ}
    return {
        **kept,
        **{name: value for name, value in os.environ.items() if name.startswith(("CUDA_", "NVIDIA_"))},
        "LC_ALL": "C.UTF-8",
        "PYTHONHASHSEED": "0",
        "PYTHONNOUSERSITE": "1",
        "PYTHONIOENCODING": "utf-8",
        "PYTHONUNBUFFERED": "1",  # last words are to be had from a process that dies
        "MALLOC_MMAP_THRESHOLD_": "33554432",
        "MALLOC_TRIM_THRESHOLD_": "17179869184",
        "MALLOC_TOP_PAD_": "67108864",
    }
