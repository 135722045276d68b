"""What two runs say together of builds that neither may have compared: by the build that they share."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from opduel.comparator.network_meta_analysis import Edge

Way = Literal["same builds", "same control", "same treatment", "one after the other"]


@dataclass(frozen=True)
class Link:
    """Which builds two runs compare together: ``newer`` against ``older``, by ``way``; of the logs of the two runs'
    ratios, each has a sign in the sum. Of the same two builds, both are the treatment."""

    way: Way
    older: str
    newer: str
    signs: tuple[int, int]


@dataclass(frozen=True)
class IndirectEstimate:
    """ln(newer / older) of a link for one case, its standard error, and an interval."""

    log_ratio: float
    standard_error: float
    ci: tuple[float, float]


def link(first: tuple[str, str], second: tuple[str, str], order: Mapping[str, float]) -> Link | None:
    """How two runs, each (control, treatment), can be compared; None when they share no build.

    ``order`` ranks the builds, the oldest lowest: whatever the order of the runs, and whichever side a build was on,
    the newer build is compared with the older one.

    - the same control: second / first is the second treatment against the first one;
    - the same treatment: first / second is the second control against the first one;
    - one's treatment is the other's control: the product is the last against the first;
    - the same two builds: second / first is 1 but for chance and circumstances, and says how well runs repeat.
    """
    if first in (second, second[::-1]):
        return Link("same builds", first[1], first[1], (-1, 1 if first == second else -1))
    if first[0] == second[0]:
        found = Link("same control", first[1], second[1], (-1, 1))
    elif first[1] == second[1]:
        found = Link("same treatment", first[0], second[0], (1, -1))
    elif first[1] == second[0]:
        found = Link("one after the other", first[0], second[1], (1, 1))
    elif second[1] == first[0]:
        found = Link("one after the other", second[0], first[1], (1, 1))
    else:
        return None
    if order[found.older] <= order[found.newer]:
        return found
    return Link(found.way, found.newer, found.older, (-found.signs[0], -found.signs[1]))


def indirect_estimate(how: Link, first: Edge, second: Edge, z: float) -> IndirectEstimate:
    """The implied change of one case; the two runs' errors are independent, for each measured both its sides itself.

    ``z`` is the normal quantile of the interval: 1.96 for 95 %.
    """
    log_ratio = how.signs[0] * first.log_ratio + how.signs[1] * second.log_ratio
    error = math.hypot(first.standard_error, second.standard_error)
    return IndirectEstimate(log_ratio, error, (log_ratio - z * error, log_ratio + z * error))
