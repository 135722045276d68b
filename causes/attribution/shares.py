"""Which parts of a call account for a change: shares of the total difference, with intervals over process pairs."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy import special

from opduel.causes.attribution.call_division import REST
from opduel.causes.attribution.matching import Amounts, MatchedPart, match_parts
from opduel.causes.function_names import is_of_the_interpreter
from opduel.records.cause import OF_MEASURED, Candidate, Examination, Observation, Source
from opduel.support.text import clipped, one_line, printable, without_controls

ALPHA = 0.05
# Up to five sources examine a case; in at most one of twenty cases without a difference they may name something.
ALPHA_OF_TOTAL = ALPHA / 5
ALPHA_OF_MEASURED = ALPHA_OF_TOTAL / 5
FEWEST_PAIRS = 3
LEAST_SHARE = 0.02  # of the total difference: smaller shares are not counted
ROUNDING = 1e-12
LEAST_CHANGE = 1e-4  # of the control: a smaller total difference is none, however exactly it repeats
MOST_CANDIDATES = 20  # in the record
LEAST_CALL_NS = 10.0  # the least that a call of a Python function takes
LONGEST_NAME = 300  # characters


def examine(
    source: Source,
    unit: str,
    observations: Sequence[Observation],
    note: str = "",
    measured: tuple[float, float, float] | None = None,
) -> Examination:
    """Return how the difference between the sides divides among parts, by ``observations``, one of each process pair.

    A part's share is the ratio estimator s = mean(d) / mean(D), d its difference and D the total one in each pair, with
    the standard error sd(d - s D) / (sqrt(n) |mean D|) (Cochran 1977, Sampling Techniques, 3rd ed., section 6.3) and n
    - 1 degrees of freedom.  There are no shares if the 99 % t interval of D includes 0: with two equal sides, at most 1
    % of the examinations name anything.

    The intervals hold simultaneously with 95 %: Bonferroni over all parts that are large enough on either side to make
    ``LEAST_SHARE`` of the difference.  Each interval is wider on either side by the part's ``doubt`` (an error of its
    difference that all pairs have alike) over |mean D|; but what only one side calls takes some time there in any case.

    ``measured``: (low, change, high), what a call of the case changed by in more process pairs, with its interval.  If
    D is not clear of 0, but may be as large, shares are of that.  A part is then named by its own difference, and the
    intervals hold simultaneously with 99.8 %. Raises ValueError: an amount is not finite.
    """
    n, note = len(observations), one_line(note)
    if n < FEWEST_PAIRS and (n or not note):  # the note says why there are none
        few = f"{n} process pair{'' if n == 1 else 's'} of at least {FEWEST_PAIRS}: nothing is claimed on so few"
        note = "; ".join(filter(None, (note, few)))
    if not n:
        return Examination(source, unit, n, note=note)
    parts = match_parts(observations)
    control: Amounts = np.sum([part.control for part in parts], axis=0) if parts else np.zeros(n)
    treatment: Amounts = np.sum([part.treatment for part in parts], axis=0) if parts else np.zeros(n)
    difference = treatment - control
    interval = _mean_interval(difference, ALPHA) if n >= FEWEST_PAIRS else None
    wide_interval = _mean_interval(difference, ALPHA_OF_TOTAL) if n >= FEWEST_PAIRS else None
    call_ns = LEAST_CALL_NS if source == "Python functions" else 0.0
    matters = abs(float(difference.mean())) > LEAST_CHANGE * abs(float(control.mean()))
    if wide_interval is not None and _is_clear(wide_interval) and matters:
        candidates, explained = _shares(parts, difference, call_ns)
    elif wide_interval is not None and measured is not None and _may_be(wide_interval, measured):
        candidates, explained = _shares_of_measured(parts, measured, n, call_ns)
        note = "; ".join(filter(None, (OF_MEASURED, note)))
    else:
        candidates, explained = _largest(parts, {}), None
    candidates = _with_callers(candidates, parts if source == "native functions" else ())
    return Examination(
        source, unit, n, float(control.mean()), float(treatment.mean()), interval, candidates, explained, note
    )


def _with_callers(candidates: Sequence[Candidate], parts: Sequence[MatchedPart]) -> tuple[Candidate, ...]:
    """Return the candidates with only callers that are among ``parts``, and not Python's interpreter, which says
    nothing. Of other sources than native functions there are none: it is known which line calls a Python function."""
    callers = {
        name
        for part in parts
        for name in (*part.names["control"], *part.names["treatment"])
        if not is_of_the_interpreter(name, part.where)
    }
    return tuple(
        candidate if candidate.caller in callers else replace(candidate, caller="") for candidate in candidates
    )


def _is_clear(interval: tuple[float, float]) -> bool:
    return interval[0] > 0 or interval[1] < 0


def _may_be(interval: tuple[float, float], measured: tuple[float, float, float]) -> bool:
    """Return whether the measured difference is clear of 0, and its interval overlaps this one."""
    low, _, high = measured
    return low * high > 0 and max(low, interval[0]) <= min(high, interval[1])


def _mean_interval(values: Amounts, alpha: float) -> tuple[float, float]:
    """Return the t interval of the mean at 1 - ``alpha``; a point if all values are equal."""
    n, mean = len(values), float(values.mean())
    reach = _t(n, alpha) * _deviation(values, float(np.abs(values).max())) / math.sqrt(n)
    return mean - reach, mean + reach


def _t(n: int, alpha: float) -> float:
    return -float(special.stdtrit(n - 1, alpha / 2))


def _deviation(values: Amounts, size: float) -> float:
    """Return the sample's standard deviation; exactly 0 if the values of this ``size`` only differ by rounding."""
    deviation = float(values.std(ddof=1))
    return 0.0 if deviation <= ROUNDING * size else deviation


def _shares_of_measured(
    parts: Sequence[MatchedPart], measured: tuple[float, float, float], n: int, call_ns: float
) -> tuple[tuple[Candidate, ...], float]:
    """Return the same as ``_shares``, of the ``measured`` change, whose interval widens those of the shares."""
    low, change, high = measured
    candidates, _ = _shares(parts, np.full(n, change), call_ns, ALPHA_OF_MEASURED)
    widened = tuple(scaled(candidate, 1.0, (change / low, change / high)) for candidate in candidates)
    return widened, explained_share(widened)


def scaled(candidate: Candidate, share: float, limits: tuple[float, float]) -> Candidate:
    """Return the candidate with its share times ``share``, and with the widest interval by its limits times
    ``limits``."""
    if candidate.share is None or candidate.ci is None:
        return candidate
    products = [limit * factor for limit in candidate.ci for factor in limits]
    return replace(candidate, share=candidate.share * share, ci=(min(products), max(products)))


def _shares(
    parts: Sequence[MatchedPart], total: Amounts, call_ns: float, alpha: float = ALPHA
) -> tuple[tuple[Candidate, ...], float]:
    """Return the largest candidates with their shares of the ``total`` difference (shape (n,)), and the sum of those
    that are clear of 0."""
    n, mean = len(total), float(total.mean())
    large_parts = [part for part in parts if part.amount >= LEAST_SHARE * abs(mean)]
    t = _t(n, alpha / max(1, len(large_parts)))
    share_by_part: dict[int, tuple[float, tuple[float, float]]] = {}
    for part in large_parts:
        difference = part.treatment - part.control
        share = float(difference.mean()) / mean
        low, high = _share_interval(difference, total, share, t)
        share_by_part[id(part)] = share, _with_doubt(part, (low, high), abs(mean), call_ns)
    candidates = _largest(large_parts, share_by_part)
    return candidates, explained_share(candidates)


def explained_share(candidates: Sequence[Candidate]) -> float:
    """Return the sum of the shares that are clear of 0."""
    return sum(candidate.share or 0.0 for candidate in candidates if is_named(candidate))


def _with_doubt(part: MatchedPart, interval: tuple[float, float], total: float, call_ns: float) -> tuple[float, float]:
    """Return the interval, wider by the part's doubt. What only one side calls takes at least ``call_ns`` a call there,
    so that doubt alone does not extend its interval to 0."""
    low, high = interval
    wide_low, wide_high = low - part.doubt / total, high + part.doubt / total
    least = call_ns * (part.calls[part.only_on] or 0.0) / total if part.only_on else 0.0
    if least and low > 0:
        wide_low = max(wide_low, min(low, least))
    elif least and high < 0:
        wide_high = min(wide_high, max(high, -least))
    return wide_low, wide_high


def _share_interval(difference: Amounts, total: Amounts, share: float, t: float) -> tuple[float, float]:
    """Return the share less and plus ``t`` standard errors, each taken at the limit itself: at the estimate the
    residuals are too small if the total difference is noisy.  That is the first iteration of Fieller's equation for the
    limits (1954, J. R. Stat. Soc. B 16, 175-185)."""

    def limit(at: float, sign: int) -> float:
        size = max(float(np.abs(difference).max()), abs(at) * float(np.abs(total).max()))
        deviation = _deviation(difference - at * total, size)
        return share + sign * t * deviation / (math.sqrt(len(total)) * abs(float(total.mean())))

    return min(limit(share, -1), limit(limit(share, -1), -1)), max(limit(share, 1), limit(limit(share, 1), 1))


def find_examination(examinations: Sequence[Examination], source: Source) -> Examination | None:
    """Return the examination of a source; None if there is none."""
    return next((examination for examination in examinations if examination.source == source), None)


def named_candidates(examinations: Sequence[Examination], source: Source, unit: str = "") -> list[Candidate]:
    """Return the named candidates (``is_named``) of a source, of those in ``unit`` if given."""
    return [
        candidate
        for examination in examinations
        if examination.source == source and unit in ("", examination.unit)
        for candidate in examination.candidates
        if is_named(candidate)
    ]


def is_named(candidate: Candidate) -> bool:
    """Return whether a candidate has a name, and its share is clear of 0 and large enough to count."""
    if candidate.share is None or candidate.ci is None or candidate.name == REST:
        return False
    return abs(candidate.share) >= LEAST_SHARE and _is_clear(candidate.ci)


def _largest(
    parts: Sequence[MatchedPart], shares: dict[int, tuple[float, tuple[float, float]]]
) -> tuple[Candidate, ...]:
    """Return candidates of the parts with the largest differences, the largest first, without parts that don't
    differ."""
    ordered = sorted(parts, key=lambda part: (-abs(part.difference), part.name))[:MOST_CANDIDATES]
    return tuple(_candidate(part, *shares.get(id(part), (None, None))) for part in ordered if part.difference)


def _candidate(part: MatchedPart, share: float | None, ci: tuple[float, float] | None) -> Candidate:
    control, implementations = part.names["control"], part.implementations
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
        implementations=(_bounded(implementations.get("control", "")), _bounded(implementations.get("treatment", ""))),
        caller=_bounded(part.caller),
    )


def _bounded(text: str) -> str:
    """Return a name (which may be anything, as it comes from a build) on one printable line, at most ``LONGEST_NAME``
    characters."""
    return clipped(printable(without_controls(" ".join(text.split()))), LONGEST_NAME)
