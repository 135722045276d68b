"""P values: two one-sided ones combined, and those of a run corrected for their number."""

from collections.abc import Sequence

import numpy as np


def two_sided_p(p_above: float, p_below: float) -> float:
    """Return the p value of "the change is within the bounds" from those of its two halves: 2 min, at most 1."""
    return min(1.0, 2 * min(p_above, p_below))


def weighted_p(p_value: float, weight: float, alpha: float) -> float:
    """Return the p value with which a hypothesis of this ``weight`` takes part in Benjamini and Hochberg's procedure.

    That is p / weight, at most 1 (Genovese, Roeder and Wasserman 2006, Biometrika 93, 509-524): the false discovery
    rate stays at most ``alpha`` if weights are chosen before there are data, and their mean over the family is 1.  A p
    value above ``alpha`` stays as it is, so that no weight gets it rejected.
    """
    return p_value if p_value > alpha and weight > 1 else min(1.0, p_value / weight)


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Return the adjusted p value ("q value") of each of ``p_values`` (shape (m,)), in the same order.

    q_(i) = min over j >= i of p_(j) m / j, at most 1; rejecting where q <= alpha keeps the expected share of false
    rejections at alpha or below (Benjamini and Hochberg 1995, J. R. Stat. Soc. B 57, 289-300), for independent tests
    and for positively dependent ones.  No q value rises when some p values fall: with p values over looks, which only
    fall, and a family that is fixed from the start, what an interim look rejects stays rejected. Raises ValueError: a p
    value outside [0, 1].
    """
    values = np.asarray(p_values, dtype=np.float64)
    if not np.all((values >= 0) & (values <= 1)):
        raise ValueError("p values must be between 0 and 1")
    size, order = len(values), np.argsort(values)
    adjusted = values[order] * (size / np.arange(1, size + 1))
    q_values = np.empty(size)
    q_values[order] = np.minimum(np.minimum.accumulate(adjusted[::-1])[::-1], 1.0)
    return [float(q_value) for q_value in q_values]
