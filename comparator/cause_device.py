"""What a cause's sentence says of work that a device such as a GPU does: its kernels, and what launches them."""

from collections.abc import Sequence

from opduel.comparator.cause_leads import NAMED, OFTEN, by_share, change_of
from opduel.comparator.cause_wording import described, short_name
from opduel.records import Comparison
from opduel.records.cause import Candidate, Examination

# Share of a call's time, by the device's clock, from which on it is the kernels' time: between two kernels there is
# always about a microsecond. Where they take less, the device waits for the processor, and how long a kernel takes
# need not change the call's time at all.
BUSY = 0.75


def kernels_of(examinations: Sequence[Examination]) -> Examination | None:
    """What was seen of kernels, if there are any."""
    return next((one for one in examinations if one.source == "kernels" and one.control is not None), None)


def is_busy(comparison: Comparison, kernels: Examination) -> bool:
    """Whether the device is busy with kernels on both sides, nearly all of a call's time."""
    return all(share >= BUSY for share in _shares(comparison, kernels))


def _shares(comparison: Comparison, kernels: Examination) -> tuple[float, float]:
    """What kernels take of a call's time as it was measured, on either side."""
    sides = (kernels.control, comparison.control), (kernels.treatment, comparison.treatment)
    first, second = ((seen or 0.0) / measured if measured else 0.0 for seen, measured in sides)
    return first, second


def launched_otherwise(chosen: Examination, examinations: Sequence[Examination]) -> str:
    """``; of its operators, aten::add is new``, where kernels have the sentence."""
    if chosen.source != "kernels":
        return ""
    alone = [one for one in _operators(examinations) if not one.control or not one.treatment]
    more = f" and {len(alone) - NAMED} more" if len(alone) > NAMED else ""
    said = [f"{short_name(one.name)} is {'gone' if one.control else 'new'}" for one in alone[:NAMED]]
    return f"; of its operators, {', '.join(said)}{more}" if said else ""


def by_launches(comparison: Comparison, examinations: Sequence[Examination], change: float) -> str:
    """Where the device waits for the processor: how much of the time, and the operators that are called more often, or
    less, as the case's time changed. How much time that takes is not claimed: a profiler takes as long as they do."""
    kernels = kernels_of(examinations)
    if kernels is None or comparison.measure.unit != "ns" or is_busy(comparison, kernels):
        return ""
    first, second = (f"{100 * share:.0f} %" for share in _shares(comparison, kernels))
    before = f", before {first}" if first != second else ""
    waits = f"kernels take {second} of a call{before}: the device waits for the processor"
    other = [one for one in _operators(examinations) if (one.difference > 0) == (change > 1)]
    if not other:
        return f"not explained: {waits}"
    said = ", ".join(described(one).rstrip(",") for one in other[:NAMED])
    return f"partly explained: {said}; {waits}"


def _operators(examinations: Sequence[Examination]) -> list[Candidate]:
    """Those that a call runs more often on one side, the largest difference first."""
    seen = next((one for one in examinations if one.source == "operators" and change_of(one) is not None), None)
    return [one for one in sorted(seen.candidates, key=by_share) if _often(one)] if seen else []


def _often(candidate: Candidate) -> bool:
    before, after = (calls or 0.0 for calls in candidate.calls)
    return abs(after - before) >= OFTEN * max(before, after) > 0
