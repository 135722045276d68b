"""False discoveries of a whole run: the step-up procedure of Benjamini and Hochberg."""

from collections.abc import Sequence

import numpy as np


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """The adjusted p value ("q value") of each of ``p_values`` (shape (m,)), in the same order.

    q_(i) = min over j >= i of p_(j) m / j, at most 1; rejecting where q <= alpha keeps the expected share of
    false rejections at alpha or below (Benjamini and Hochberg 1995, J. R. Stat. Soc. B 57, 289-300), for
    independent tests and for positively dependent ones (Benjamini and Yekutieli 2001).

    No q value rises when some p values fall.  So with p values that only fall as rounds are added (the p over
    looks does), and a family that is fixed from the start, what an interim look rejects stays rejected.  A p
    value that is not rejected may also rise to 1 without costing another its rejection: with k rejections
    the k smallest p values are at or below k alpha / m, and the others count for nothing.

    Raises:
        ValueError: a p value outside [0, 1].
    """
    p = np.asarray(p_values, dtype=np.float64)
    m = len(p)
    if m == 0:
        return []
    if not np.all((p >= 0) & (p <= 1)):
        raise ValueError("p values lie between 0 and 1")
    order = np.argsort(p, kind="stable")
    scaled = p[order] * (m / np.arange(1, m + 1))  # in this order q is never below p, rounding included
    q = np.empty(m)
    q[order] = np.minimum.accumulate(scaled[::-1])[::-1]
    return [float(value) for value in np.minimum(q, 1.0)]
