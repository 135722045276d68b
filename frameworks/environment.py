"""The environment that a framework is run in, when it is measured and when it is asked what it is."""

import os
from collections.abc import Mapping, Sequence

from opduel.frameworks.base import Framework
from opduel.records import Build, UsageError
from opduel.records.redaction import mask_everywhere, recorded_variables

OURS = "OPDUEL_"  # how the names begin that only this project uses
# glibc's malloc is kept from giving freed blocks back to the kernel, which makes some processes ten times slower than
# others.  33554432 is the largest threshold that glibc accepts (half of HEAP_MAX_SIZE).
_FIXED = {
    "LC_ALL": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    "PYTHONNOUSERSITE": "1",
    "PYTHONIOENCODING": "utf-8",
    "PYTHONUNBUFFERED": "1",  # the output of a process that dies is wanted, too
    "MALLOC_MMAP_THRESHOLD_": "33554432",
    "MALLOC_TRIM_THRESHOLD_": "17179869184",
    "MALLOC_TOP_PAD_": "67108864",
}
USERS = f"{OURS}ENV"  # the names of the user's variables: a program gets these, but none of ours
PRIORITY, PRIORITIES = "OPDUEL_PRIORITY", ("raise", "keep")  # of the processes that measure; not set: raise
_KEPT = ("PATH", "HOME", "LD_LIBRARY_PATH", "TMPDIR", PRIORITY)  # the user's own
_KEPT_PREFIXES = ("CUDA_", "NVIDIA_")


def worker_environment() -> dict[str, str]:
    """What every worker's environment starts from: little of the user's own, and the same for both sides."""
    kept = {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith(_KEPT_PREFIXES)}
    return {**kept, **_FIXED}


def run_environment(
    framework: Framework, threads: int, given: Mapping[str, str], builds: Sequence[Build] = ()
) -> dict[str, str]:
    """The environment of a run's workers on both sides: ours, the framework's, and the variables ``given``.

    Of these a report keeps only values that can hold no secret. A framework may print the others: from now on they are
    masked in all texts that are stored or logged.

    Raises:
        UsageError: a variable is set by opduel itself, or by one of ``builds`` and so not on both sides alike; or the
            user's OPDUEL_PRIORITY is none of ``PRIORITIES``.
    """
    if os.environ.get(PRIORITY, PRIORITIES[0]) not in PRIORITIES:
        known = " or ".join(PRIORITIES)
        raise UsageError(f"the environment variable {PRIORITY}: is {os.environ[PRIORITY]!r}: set it to {known}")
    fixed = {**_FIXED, **framework.environment(threads)}
    for name in given:
        if name in fixed or name.startswith(OURS):
            fix = "give a program its own in its spec's env" if framework.programs else "leave it out"
            raise UsageError(f"--env {name}: is set by opduel itself, to the same value for every run: {fix}")
        for build in builds:
            if name in build.environment:
                raise UsageError(f"--env {name}: is set by the build {build.requested} itself: leave it out")
    kept = recorded_environment(given, given, framework.name)
    mask_everywhere(value for name, value in given.items() if kept[name] != value)
    named = {USERS: ",".join(sorted(given))} if given else {}
    return {**worker_environment(), **fixed, **given, **named}


def recorded_environment(environment: Mapping[str, str], given: Mapping[str, str], framework: str) -> dict[str, str]:
    """``environment`` as a report has it: of the variables ``given`` by the user only those with their value that can
    hold no secret, those of the framework and of libraries that compute."""
    return recorded_variables(environment, {*(environment.keys() - given.keys()), f"{framework.upper()}_"})
