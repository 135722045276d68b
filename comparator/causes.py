"""Which parts of a call account for a change: shares of the whole difference, with intervals over process pairs."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy import special

from opduel.comparator.cause_calls import REST
from opduel.comparator.cause_matching import Amounts, Matched, matched_parts
from opduel.comparator.cause_wording import is_of_the_interpreter
from opduel.records.cause import OF_MEASURED, Candidate, Examination, Observation, Source
from opduel.records.measurement import Side
from opduel.records.text import clipped, one_line, printable, without_controls

ALPHA = 0.05
# A case is looked at by up to five sources, of which one in twenty cases without a difference may name something.
ALPHA_OF_WHOLE = ALPHA / 5
ALPHA_OF_MEASURED = ALPHA_OF_WHOLE / 5  # beside that of the whole
FEWEST_PAIRS = 3
LEAST_SHARE = 0.02  # of the whole difference: what explains less is not counted
ROUNDING = 1e-12
LEAST_CHANGE = 1e-4  # of the control: a smaller whole difference is none, however exactly it repeats
MOST_CANDIDATES = 20  # in the record
LEAST_CALL_NS = 10.0  # that a call of a Python function takes, at the very least
LONGEST_NAME = 300  # characters; a name is whatever a build has


def examine(
    source: Source,
    unit: str,
    observations: Sequence[Observation],
    note: str = "",
    measured: tuple[float, float, float] | None = None,
) -> Examination:
    """What ``observations``, one of each process pair, say of the difference between the sides.

    A part's share is the ratio estimator s = mean(d) / mean(D), d its difference and D the whole one in each pair,
    with the standard error sd(d - s D) / (sqrt(n) |mean D|) (Cochran 1977, Sampling Techniques, 3rd ed., section 6.3)
    and n - 1 degrees of freedom.  There are no shares where the 99 % t interval of D includes 0: of two equal sides at
    most 1 % of the examinations name anything, 5 % of the cases with five of them, and the ratio's denominator is far
    enough from 0 for the intervals to hold.

    An interval is wider on either side by the part's ``doubt``, what may be wrong with its difference in all pairs
    alike, over |mean D|: process pairs say nothing of that.  A Python function that one side alone calls takes time
    there, whatever is doubtful.

    Where D is not clear of 0, shares are of ``measured``, if it is given and D may be as large: what a call of the case
    changed by as it was measured with more process pairs, between the limits of its interval.  A part is then named by
    its own difference, and the intervals hold together with 99.8 %: of two equal sides that adds at most 0.2 %.

    The intervals hold together with 95 %: Bonferroni over all parts that are large enough on either side to make
    ``LEAST_SHARE`` of the difference.  That is a choice by amount; only which of them are listed is a choice by
    difference, and an interval that is not listed costs nothing.

    Raises:
        ValueError: an amount is not finite.
    """
    n, note = len(observations), one_line(note)
    if n < FEWEST_PAIRS and (n or not note):  # a note on none says why
        few = f"{n} process pair{'' if n == 1 else 's'} of at least {FEWEST_PAIRS}: nothing is claimed on so few"
        note = "; ".join(filter(None, (note, few)))
    if not n:
        return Examination(source, unit, n, note=note)
    parts = matched_parts(observations)
    control: Amounts = np.sum([part.control for part in parts], axis=0) if parts else np.zeros(n)
    treatment: Amounts = np.sum([part.treatment for part in parts], axis=0) if parts else np.zeros(n)
    whole = treatment - control
    interval = _mean_interval(whole, ALPHA) if n >= FEWEST_PAIRS else None
    widest = _mean_interval(whole, ALPHA_OF_WHOLE) if n >= FEWEST_PAIRS else None
    clear = widest is not None and _is_clear(widest) and _matters(whole, control)
    call_ns = LEAST_CALL_NS if source == "Python functions" else 0.0
    if clear:
        candidates, explained = _shares(parts, whole, call_ns)
    elif widest is not None and measured is not None and _may_be(widest, measured):
        candidates, explained = _shares_of_measured(parts, measured, n, call_ns)
        note = "; ".join(filter(None, (OF_MEASURED, note)))
    else:
        candidates, explained = _largest(parts, {}), None
    candidates = _with_callers(candidates, parts if source == "native functions" else ())
    return Examination(
        source, unit, n, float(control.mean()), float(treatment.mean()), interval, candidates, explained, note
    )


def _with_callers(candidates: Sequence[Candidate], parts: Sequence[Matched]) -> tuple[Candidate, ...]:
    """The candidates without callers that are none of ``parts``, or of Python's interpreter, which says nothing. Of
    Python functions there are none to name: it is known which line calls them."""
    able = {
        name
        for part in parts
        for name in (*part.names["control"], *part.names["treatment"])
        if not is_of_the_interpreter(Candidate(name, 0.0, 0.0, where=part.where))
    }
    return tuple(one if one.caller in able else replace(one, caller="") for one in candidates)


def _is_clear(interval: tuple[float, float]) -> bool:
    return interval[0] > 0 or interval[1] < 0


def _may_be(whole: tuple[float, float], measured: tuple[float, float, float]) -> bool:
    """Whether a difference with this interval may be the measured one, which is clear of 0."""
    low, _, high = measured
    return low * high > 0 and max(low, whole[0]) <= min(high, whole[1])


def _matters(whole: Amounts, control: Amounts) -> bool:
    return abs(float(whole.mean())) > LEAST_CHANGE * abs(float(control.mean()))


def _mean_interval(values: Amounts, alpha: float) -> tuple[float, float]:
    """The t interval of the mean at 1 - ``alpha``; a point where all values are equal."""
    n, mean = len(values), float(values.mean())
    reach = _t(n, alpha) * _deviation(values, float(np.abs(values).max())) / math.sqrt(n)
    return mean - reach, mean + reach


def _t(n: int, alpha: float) -> float:
    return -float(special.stdtrit(n - 1, alpha / 2))


def _deviation(values: Amounts, size: float) -> float:
    """The sample's standard deviation; exactly 0 where rounding of numbers of that size alone tells values apart."""
    deviation = float(values.std(ddof=1))
    return 0.0 if deviation <= ROUNDING * size else deviation


def _shares_of_measured(
    parts: Sequence[Matched], measured: tuple[float, float, float], n: int, call_ns: float
) -> tuple[tuple[Candidate, ...], float]:
    """The same as ``_shares``, of a change that was measured otherwise, whose interval widens those of the shares."""
    low, change, high = measured
    candidates, _ = _shares(parts, np.full(n, change), call_ns, ALPHA_OF_MEASURED)
    scales = change / low, change / high
    wide = tuple(
        one if one.ci is None else replace(one, ci=(min(both := [x * y for x in one.ci for y in scales]), max(both)))
        for one in candidates
    )
    return wide, sum(one.share or 0.0 for one in wide if is_named(one))


def _shares(
    parts: Sequence[Matched], whole: Amounts, call_ns: float, alpha: float = ALPHA
) -> tuple[tuple[Candidate, ...], float]:
    """The largest candidates with their shares, and what those that are clear of 0 explain together."""
    n, mean = len(whole), float(whole.mean())
    able = [part for part in parts if part.amount >= LEAST_SHARE * abs(mean)]
    t = _t(n, alpha / max(1, len(able)))
    found: dict[int, tuple[float, tuple[float, float]]] = {}
    for part in able:
        difference = part.treatment - part.control
        share = float(difference.mean()) / mean
        low, high = _share_interval(difference, whole, share, t)
        found[id(part)] = share, _with_doubt(part, (low, high), abs(mean), call_ns)
    candidates = _largest(able, found)
    return candidates, sum(one.share or 0.0 for one in candidates if is_named(one))


def _with_doubt(part: Matched, interval: tuple[float, float], whole: float, call_ns: float) -> tuple[float, float]:
    """The interval, wider by the part's doubt. What one side alone calls takes ``call_ns`` a call there: doubt alone
    doesn't make it nothing."""
    low, high = interval
    wide_low, wide_high = low - part.doubt / whole, high + part.doubt / whole
    least = call_ns * (part.calls[part.only_on] or 0.0) / whole if part.only_on else 0.0
    if least and low > 0:
        wide_low = max(wide_low, min(low, least))
    elif least and high < 0:
        wide_high = min(wide_high, max(high, -least))
    return wide_low, wide_high


def _share_interval(difference: Amounts, whole: Amounts, share: float, t: float) -> tuple[float, float]:
    """The share, less and plus ``t`` standard errors, each taken at the limit itself.

    At the estimate the residuals are the smallest that they can be, and too small where the whole difference is noisy.
    Fieller (1954, J. R. Stat. Soc. B 16, 175-185) solves for the limits; this is his equation's first iteration, which
    has a solution however noisy the whole difference is.
    """

    def limit(at: float, sign: int) -> float:
        size = max(float(np.abs(difference).max()), abs(at) * float(np.abs(whole).max()))
        deviation = _deviation(difference - at * whole, size)
        return share + sign * t * deviation / (math.sqrt(len(whole)) * abs(float(whole.mean())))

    return min(limit(share, -1), limit(limit(share, -1), -1)), max(limit(share, 1), limit(limit(share, 1), 1))


def is_named(candidate: Candidate) -> bool:
    """Whether a candidate's share is clear of 0, and large enough to be counted; of a part that has a name."""
    if candidate.share is None or candidate.ci is None or candidate.name == REST:
        return False
    return abs(candidate.share) >= LEAST_SHARE and _is_clear(candidate.ci)


def _largest(parts: Sequence[Matched], shares: dict[int, tuple[float, tuple[float, float]]]) -> tuple[Candidate, ...]:
    """The candidates of the largest differences, the largest first; none of parts that don't differ at all."""
    ordered = sorted(parts, key=lambda part: (-abs(part.difference), part.name))[:MOST_CANDIDATES]
    return tuple(_candidate(part, *shares.get(id(part), (None, None))) for part in ordered if part.difference)


def _candidate(part: Matched, share: float | None, ci: tuple[float, float] | None) -> Candidate:
    control = part.names["control"]
    return Candidate(
        name=_bounded(part.name),
        control=float(part.control.mean()),
        treatment=float(part.treatment.mean()),
        share=share,
        ci=ci,
        calls=(part.calls["control"], part.calls["treatment"]),
        where=_bounded(part.where),
        was=_bounded(control[0]) if control and part.name not in control else "",
        merged=tuple(_bounded(name) for name in part.merged[:MOST_CANDIDATES]),
        implementations=(_implementation(part, "control"), _implementation(part, "treatment")),
        caller=_bounded(part.caller),
    )


def _implementation(part: Matched, side: Side) -> str:
    return _bounded(part.implementations.get(side, ""))


def _bounded(text: str) -> str:
    """A name out of a build, on one printable line and no longer than ``LONGEST_NAME``."""
    return clipped(printable(without_controls(" ".join(text.split()))), LONGEST_NAME)
