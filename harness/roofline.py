"""The measured roofline of the host: the most operations and bytes a second that its processors reach."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from opduel.harness.caches import largest_cache
from opduel.harness.cpus import CpuPlan, this_thread_on
from opduel.records import RunError
from opduel.records.output import key_line

PROBE = Path(__file__).with_name("roofline_probe.py")
TIMEOUT_S = 60.0
CACHES = 4  # a copied array is so many times the largest cache, within these bounds
LEAST_COPIED, MOST_COPIED = 1 << 26, 1 << 28  # bytes
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def measure_roofline(cpus: CpuPlan, threads: int, environment: Mapping[str, str]) -> dict[str, Any]:
    """``gflops`` (10^9 operations a second of a matrix product, by dtype), ``gbytes`` (10^9 bytes a second of a copy
    of ``copied_bytes``, reading and writing counted), and ``threads``: on the measuring processors, in about a second.

    ``environment`` is that of the workers: a variable of the user's own that slows a library down, or that gives it
    more threads, changes the roof of either or of neither.

    Williams, Waterman and Patterson, "Roofline: an insightful visual performance model for multicore architectures",
    Communications of the ACM 52 (4), 2009, 65-76.

    Raises:
        RunError: it could not be measured.
    """
    ours = {**dict.fromkeys(THREADS, str(threads)), "PYTHONPATH": str(Path(np.__file__).parents[1])}
    copied = max(LEAST_COPIED, min(MOST_COPIED, CACHES * largest_cache()))
    try:
        with this_thread_on(cpus.measure):
            done = subprocess.run(
                [sys.executable, str(PROBE), str(threads), str(copied)],
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
                env={**environment, **ours},
                check=True,
            )
        found: dict[str, Any] = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        words = key_line(error.stderr if isinstance(error, subprocess.CalledProcessError) else str(error))
        raise RunError(f"--roofline: could not be measured ({words}): leave it out") from None
    return found
