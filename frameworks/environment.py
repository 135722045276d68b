"""The environment variables of the processes in which a framework is measured or described."""

import os
from collections.abc import Mapping, Sequence

from opduel.frameworks.base import Framework
from opduel.records import Build, UsageError
from opduel.support.redaction import mask_everywhere, recorded_variables

OURS = "OPDUEL_"  # prefix of this project's own variables
# glibc's malloc must not return freed blocks to the kernel, which makes some processes ten times slower than others.
# 33554432 is the largest threshold that glibc accepts (half of HEAP_MAX_SIZE).
_FIXED = {
    "LC_ALL": "C.UTF-8",
    "PYTHONNOUSERSITE": "1",
    "PYTHONIOENCODING": "utf-8",
    "PYTHONUNBUFFERED": "1",  # also the output of a process that dies is shown
    "MALLOC_MMAP_THRESHOLD_": "33554432",
    "MALLOC_TRIM_THRESHOLD_": "17179869184",
    "MALLOC_TOP_PAD_": "67108864",
}
# Where a set's or a dictionary's entries lie: drawn for each round (harness/processes/pair_pool.py), 0 elsewhere.
HASH_SEED, HASH_SEEDS = "PYTHONHASHSEED", 2**32
USERS = f"{OURS}ENV"  # lists the user's variables: a program gets these, but none of ours
PRIORITY, PRIORITIES = "OPDUEL_PRIORITY", ("raise", "keep")  # of the measuring processes; the default is raise
_INHERITED = ("PATH", "HOME", "LD_LIBRARY_PATH", "TMPDIR", PRIORITY)
_INHERITED_PREFIXES = ("CUDA_", "NVIDIA_")


def worker_environment() -> dict[str, str]:
    """Return what every worker's environment starts from: little of the user's own, and the same for both sides."""
    inherited = {
        name: value for name, value in os.environ.items() if name in _INHERITED or name.startswith(_INHERITED_PREFIXES)
    }
    return {**inherited, HASH_SEED: "0", **_FIXED}


def run_environment(
    framework: Framework, threads: int, user_variables: Mapping[str, str], builds: Sequence[Build] = ()
) -> dict[str, str]:
    """Return the environment of a run's workers on both sides: opduel's, the framework's, and the user's variables.

    It has a seed of Python's hashes only if the user gives one: otherwise one is drawn for each round.

    Values of the user's that may be secret are masked from now on in all texts that are stored or logged, because a
    framework may print them. Raises UsageError: a variable is set by opduel itself, or by one of ``builds`` and so not
    on both sides alike; or the user's OPDUEL_PRIORITY is not one of ``PRIORITIES``, or the seed of hashes none that
    Python takes."""
    if os.environ.get(PRIORITY, PRIORITIES[0]) not in PRIORITIES:
        choices = " or ".join(PRIORITIES)
        raise UsageError(f"the environment variable {PRIORITY}: is {os.environ[PRIORITY]!r}: set it to {choices}")
    fixed = {**_FIXED, **framework.environment(threads)}
    for name in user_variables:
        if name in fixed or name.startswith(OURS):
            fix = framework.cases.variable_hint
            raise UsageError(f"--env {name}: is set by opduel itself, to the same value for every run: {fix}")
        for build in builds:
            if name in build.environment:
                raise UsageError(f"--env {name}: is set by the build {build.requested} itself: leave it out")
    hash_seed = user_variables.get(HASH_SEED, "random")
    if hash_seed != "random" and not (hash_seed.isdecimal() and int(hash_seed) < HASH_SEEDS):
        raise UsageError(f"--env {HASH_SEED}: is {hash_seed!r}: give a number below {HASH_SEEDS}, or random")
    recorded = recorded_environment(user_variables, user_variables, framework.name)
    mask_everywhere(value for name, value in user_variables.items() if recorded[name] != value)
    named = {USERS: ",".join(sorted(user_variables))} if user_variables else {}
    ours = worker_environment()
    del ours[HASH_SEED]
    return {**ours, **fixed, **user_variables, **named}


def recorded_environment(
    environment: Mapping[str, str], user_variables: Mapping[str, str], framework: str
) -> dict[str, str]:
    """Return the environment for a report, with values of the user's variables masked where they may be secret.

    Variables of the framework and of numerical libraries keep their values.
    """
    harmless = {*(environment.keys() - user_variables.keys()), HASH_SEED, f"{framework.upper()}_"}
    return recorded_variables(environment, harmless)
