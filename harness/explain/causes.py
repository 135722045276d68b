"""The cause of each change, after all measuring: every source looks at both sides in several fresh process pairs.

What goes wrong here costs the cause alone: no verdict depends on it.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from opduel.comparator import cause_of
from opduel.frameworks import Framework
from opduel.harness.measurement_plan import MeasurementResult
from opduel.harness.pair_pool import Bench
from opduel.records import FLAGGED, Case, Cause, Comparison, Examination

MOST = 20  # cases of a run, the largest changes first
LONGEST_S = 300.0  # for all of them; ten cases take less than 180 s on two cores


@dataclass(frozen=True)
class Explaining:
    """Looks for causes on ``bench``.

    ``which``: "confirmed", "all" or "none" of the changed cases. ``replicates``: the run measures again what an earlier
    one had flagged, so that all it flags is confirmed. After ``deadline`` (of the monotonic clock) nothing further is
    begun. ``env``: the user's variables.
    """

    bench: Bench
    framework: Framework
    threads: int
    seed: int
    which: str
    replicates: bool = False
    deadline: float = math.inf


# Of cases: id -> what a source saw, in one examination or more.
Look = Callable[[Explaining, Sequence[Case], float], dict[str, list[Examination]]]


def to_explain(comparisons: Sequence[Comparison], which: str, replicates: bool) -> list[Comparison]:
    """The comparisons whose cause is looked for, the largest change first: of time, or of instructions, that stand."""
    if which == "none":
        return []
    changed = [
        one for one in comparisons if one.verdict in FLAGGED and one.ratio and one.metric in ("time", "instructions")
    ]
    if which == "confirmed" and not replicates:
        changed = [one for one in changed if one.verification is not None and one.verification.verdict == one.verdict]
    return sorted(changed, key=lambda one: -abs(math.log(one.ratio or 1.0)))
