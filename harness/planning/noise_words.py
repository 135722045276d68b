"""The kind of noise that a host had in a run, in one line for people."""

import math
import statistics
from collections.abc import Mapping, Sequence

from opduel.harness.planning.effort_planner import EffortPlanner
from opduel.records import Case, PairSample
from opduel.records.run_record import RunNoiseRecord

QUIET_QUADS = 0.015  # standard deviation of a quad's log ratio on a quiet host
NOISY_PROCESSES = 0.015  # of a fork's or a pair's, from which on processes are what differs
WANDERS = 1.1  # between a slow and a fast process of a case, both sides together


def describe_noise(
    cases: Sequence[Case], samples: Mapping[str, Sequence[PairSample]], planner: EffortPlanner
) -> RunNoiseRecord | None:
    """Return the medians over cases of the noise by level, how far the processor's speed wandered (the 90th to the 10th
    percentile of processes, as a ratio), and all of it in words; None where no case was measured in blocks."""
    known_cases = [case for case in cases if planner.knows(case)]
    if not known_cases:
        return None
    levels = {
        f"{level}_sd": statistics.median(math.sqrt(getattr(planner.noise[case.id], level)) for case in known_cases)
        for level in ("quad", "fork", "pair")
    }
    speed_range = statistics.median(_speed_range(samples.get(case.id, ())) for case in known_cases)
    return RunNoiseRecord(**levels, speed_range=speed_range, words=_words(levels, speed_range))


def _speed_range(samples: Sequence[PairSample]) -> float:
    """Return the speed of a case's fast processes to that of slow ones, both sides together; 1 for less than two."""
    values = [value for sample in samples for value in sample.fork_values or [(sample.control, sample.treatment)]]
    speeds = sorted(math.sqrt(control * treatment) for control, treatment in values if control > 0 < treatment)
    if len(speeds) < 2:
        return 1.0
    low, high = speeds[len(speeds) // 10], speeds[-1 - len(speeds) // 10]
    return high / low


def _words(levels: Mapping[str, float], speed_range: float) -> str:
    quads, forks, pairs = levels["quad_sd"], levels["fork_sd"], levels["pair_sd"]
    processes = math.hypot(forks, pairs)
    if speed_range >= WANDERS:
        change = f"by up to {100 * (speed_range - 1):.0f} %" if speed_range < 2 else f"up to {speed_range:.1f}-fold"
        return f"this processor changes speed {change}, probably because of a neighbour"
    if quads >= 2 * QUIET_QUADS:
        return f"something interrupts what is measured: neighbouring blocks of calls differ by {100 * quads:.1f} %"
    if max(forks, pairs) >= NOISY_PROCESSES:
        return f"processes of the same build differ by {100 * processes:.1f} % from each other"
    quiet = "a quiet host: " if quads < QUIET_QUADS else ""
    return f"{quiet}blocks of calls differ by {100 * quads:.1f} %, processes by {100 * processes:.1f} %"
