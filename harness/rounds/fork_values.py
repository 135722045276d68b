"""What the blocks of a fork say of the change, and the forks of a process pair together: a PairSample."""

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.rounds.blocks import Block
from opduel.records import PairSample
from opduel.records.measurement import SIDES, Side

# Pairs of neighbouring blocks are weighted by how far they differ, in groups by how fast they were: as many groups, of
# so many pairs at least.
GROUPS, GROUP_PAIRS = 4, 8
CONTRADICTS = 2.0  # standard errors between two groups
TRUST = 0.7  # exponent with which a group's own variance counts, beside that of all
DROPPED = 4  # of a group's differences one in so many doesn't count, at either end
LEAST_STEP = 1e-6  # a share: blocks that differ by less are alike


@dataclass(frozen=True)
class ForkValue:
    """What one case's processes say, one on either side: process values (ns a call), and a log ratio with the standard
    error that their blocks show."""

    control: float
    treatment: float
    log_ratio: float
    standard_error: float
    blocks: int  # per side
    calls: int  # per side


def summarise(blocks: Mapping[Side, Sequence[Block]]) -> ForkValue:
    """Boil the blocks of one fork down to process values, medians of its blocks, and the log ratio of neighbours."""
    control, treatment = ([math.log(block.low) for block in blocks[side]] for side in SIDES)
    log_ratio, standard_error = compare_neighbours(control, treatment)
    return ForkValue(
        control=math.exp(statistics.median(control)),
        treatment=math.exp(statistics.median(treatment)),
        log_ratio=log_ratio,
        standard_error=standard_error,
        blocks=len(control),
        calls=min(sum(block.calls for block in blocks[side]) for side in SIDES),
    )


def compare_neighbours(control: Sequence[float], treatment: Sequence[float]) -> tuple[float, float]:
    """Return a log ratio and its standard error from logarithms of both sides' blocks, in the order of measuring.

    The differences between neighbouring blocks are sorted into groups by how slow both were together, and each group's
    trimmed mean counts by the inverse of its variance, which is drawn towards that of all groups: where a burst of
    other work makes some blocks slow, the fast ones decide; where the processor's speed wanders, all count alike.  A
    group that contradicts the fastest one counts less by how much.  Drift that is linear in time cancels within a quad.
    """
    pairs = sorted(zip(control, treatment, strict=True), key=sum)
    differences = [of_treatment - of_control for of_control, of_treatment in pairs]
    groups = max(1, min(GROUPS, len(pairs) // GROUP_PAIRS))
    bounds = [2 * round(number * len(pairs) / groups / 2) for number in range(groups)] + [len(pairs)]  # whole quads
    located = [trimmed_mean(differences[low:high]) for low, high in itertools.pairwise(bounds)]
    fastest, fastest_variance = located[0]
    located = [
        (mean, variance + max(0.0, (mean - fastest) ** 2 - CONTRADICTS**2 * (variance + fastest_variance)))
        for mean, variance in located
    ]
    log_mean = statistics.fmean(math.log(variance) for _, variance in located)
    weights = [math.exp(-TRUST * math.log(variance) - (1 - TRUST) * log_mean) for _, variance in located]
    total = sum(weights)
    estimate = sum(weight * mean for weight, (mean, _) in zip(weights, located, strict=True)) / total
    squares = sum(weight**2 * variance for weight, (_, variance) in zip(weights, located, strict=True))
    # weights that are estimated, too (Meier 1953, Biometrics 9, 59-73): each from the middle half of its group
    freedom = max(1.0, len(pairs) / groups / 2 - 1)
    estimated = 1 + 4 * sum(weight / total * (1 - weight / total) for weight in weights) / freedom
    return estimate, math.sqrt(squares * estimated) / total


def trimmed_mean(differences: Sequence[float]) -> tuple[float, float]:
    """Return the mean of the middle half, and its variance from the winsorised sum of squares (Tukey and McLaughlin
    1963); a single difference tells of none."""
    ordered, dropped = sorted(differences), len(differences) // DROPPED
    middle = ordered[dropped : len(ordered) - dropped]
    winsorised = [min(max(value, middle[0]), middle[-1]) for value in ordered]
    mean, freedom = statistics.fmean(middle), len(middle) - 1
    if not freedom:
        return mean, LEAST_STEP**2
    centre = statistics.fmean(winsorised)
    squares = sum((value - centre) ** 2 for value in winsorised)
    return mean, max(squares / (len(middle) * freedom), LEAST_STEP**2)


def pair_sample(request: CaseRequest, round_number: int, forks: Sequence[ForkValue]) -> PairSample:
    """Return one sample of a process pair from its forks: means over the middle half of them."""
    return PairSample(
        case_id=request.case.id,
        stage=request.stage,
        round=round_number,
        control=math.exp(middle_mean([math.log(fork.control) for fork in forks])),
        treatment=math.exp(middle_mean([math.log(fork.treatment) for fork in forks])),
        log_ratio=middle_mean([fork.log_ratio for fork in forks]),
        forks=len(forks),
        blocks=sum(fork.blocks for fork in forks),
        calls=sum(fork.calls for fork in forks),
        fork_values=tuple((fork.control, fork.treatment) for fork in forks) if len(forks) > 1 else (),
        fork_ratios=tuple((fork.log_ratio, fork.standard_error) for fork in forks),
    )


def middle_mean(values: Sequence[float]) -> float:
    """Return the mean of what is left when a quarter of the values is dropped at each end."""
    dropped = len(values) // 4
    return statistics.fmean(sorted(values)[dropped : len(values) - dropped])
