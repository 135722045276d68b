"""Reports with samples for the tests of formats: paired processes around known ratios, and every odd case there is."""

import math
import random
from typing import Any

import report_samples

from opduel.records import Comparison, Failure, PairSample, Report, Verdict


def samples(
    case: str, ratio: float, rounds: int = 12, stage: str = "confirmation", level: float = 1e5
) -> tuple[PairSample, ...]:
    """Process pairs whose values lie within 1 % around 1e5 and 1e5 * ``ratio``; always the same ones."""
    drawn = random.Random(repr(case))
    pairs = []
    for number in range(rounds):
        control = 1e5 * drawn.uniform(0.99, 1.01)
        treatment = 1e5 * ratio * drawn.uniform(0.99, 1.01)
        log_ratio = math.log(treatment / control)
        pairs.append(PairSample(case, stage, number, control, treatment, log_ratio, 8, 640))  # type: ignore[arg-type]
    return tuple(pairs)


def measured(case: str, verdict: Verdict, ratio: float, stage: str = "confirmation", **changes: Any) -> Comparison:
    """A comparison with samples of both stages, or of the first alone."""
    mine = samples(case, ratio, stage=stage)
    other_samples = samples(case, ratio, 3, "screening") if stage == "confirmation" else ()
    figures: dict[str, Any] = {
        "decided_on": stage,
        "rounds": len(mine) + len(other_samples),
        "samples": (*other_samples, *mine),
    }
    return report_samples.comparison(case, verdict, ratio, **{**figures, **changes})


def counts(case: str, metric: str, unit: str, control: float, treatment: float) -> Comparison:
    """A comparison of counts, all processes of a side alike."""
    pairs = [PairSample(case, "screening", number, control, treatment, 0.0, 1, 1) for number in range(3)]
    ratio = treatment / control if control else None
    return report_samples.comparison(
        case, "unchanged", ratio, metric=metric, unit=unit, control=control, treatment=treatment, samples=tuple(pairs)
    )


HELD = measured(
    "conv/held", "inconclusive", 1.2, held_back="regressed", note="held back: would be regressed; the host was busy"
)
ODD: tuple[Comparison, ...] = (
    HELD,
    report_samples.failed("broken on the treatment"),
    report_samples.failed(
        "broken on the control", Failure("control", "error", "no such operator"), samples=samples("x", 1.0, 2)
    ),
    report_samples.comparison("too few", "inconclusive", None, control=None, ci=None, rounds=0, decided_on=None),
    counts("conv/forward/instructions", "instructions", "instructions", 1_234_567.0, 1_234_567.5),
    counts("conv/forward/memory", "memory", "bytes", 4096.0, 4096.0),
    counts("empty/forward/memory", "memory", "bytes", 0.0, 0.0),
    counts("grown/forward/memory", "memory", "bytes", 0.0, 8.0),
    report_samples.comparison(
        "conv/forward/error", "unchanged", None, metric="error", unit="tol", control=None, treatment=0.25
    ),
)
CHANGED = (
    measured("conv/forward", "regressed", 1.053),
    measured("conv/backward", "improved", 0.8),
    measured("dot", "unchanged", 1.0, stage="screening"),
)


def report(*comparisons: Comparison, **changes: Any) -> Report:
    """A report of these, or of every kind there is."""
    return report_samples.report(comparisons or (*CHANGED, *ODD), **changes)
