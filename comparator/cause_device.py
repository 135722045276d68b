"""What a cause's sentence says of work that a device such as a GPU does: its kernels, and what launches them."""

import re
from collections.abc import Sequence

from opduel.comparator.cause_leads import NAMED, OFTEN
from opduel.comparator.cause_wording import described, short_name
from opduel.records import Comparison
from opduel.records.cause import Candidate, Examination, Source

# Share of a call's time, by the device's clock, from which on it is the kernels' time: between two kernels there is
# always about a microsecond. Where they take less, the device waits for the processor, and how long a kernel takes
# need not change the call's time at all.
BUSY = 0.75
CUDA_CALL = re.compile(r"cu(da)?[A-Z]")  # of the CUDA runtime, or driver: no operator


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


def without_hidden(examinations: Sequence[Examination]) -> list[Examination]:
    """Without the operators' time on the processor where a device has kernels: the one hides behind the other."""
    on_device = kernels_of(examinations) is not None
    return [one for one in examinations if not (on_device and one.source == "operators")]


def launched_otherwise(chosen: Examination, examinations: Sequence[Examination]) -> str:
    """``; the operator aten::add is new``, where kernels have the sentence."""
    if chosen.source != "kernels":
        return ""
    operators = [one for one in _called(examinations, "operators") if not CUDA_CALL.match(one.name)]
    alone = [one for one in operators if not all(one.calls)]
    more = f" and {len(alone) - NAMED} more" if len(alone) > NAMED else ""
    said = [f"{short_name(one.name)} is {'gone' if one.calls[0] else 'new'}" for one in alone[:NAMED]]
    noun = "operator" if len(alone) == 1 else "operators"
    return f"; the {noun} {', '.join(said)}{more}" if said else ""


def by_launches(comparison: Comparison, examinations: Sequence[Examination], change: float) -> str:
    """Where a device is not busy on both sides: what kernels take of the time, and what is called more often, or less,
    in the direction in which the case's time changed. How much time that takes is not claimed: a profiler takes as long
    as the operators do."""
    kernels = kernels_of(examinations)
    if kernels is None or comparison.measure.unit != "ns" or is_busy(comparison, kernels):
        return ""
    first, second = _shares(comparison, kernels)
    words = [f"{100 * share:.0f} %" for share in (first, second)]
    taken = f"kernels take {words[1]} of a call" + (f" ({words[0]} before)" if words[0] != words[1] else "")
    if waits := max(first, second) < BUSY:
        taken += ": the device waits for the processor"
    other = _called(examinations, "operators" if waits else "kernels", change > 1)
    if not other:
        return f"not explained: {taken}"
    return f"partly explained: {', '.join(described(one).rstrip(',') for one in other[:NAMED])}; {taken}"


def _called(examinations: Sequence[Examination], source: Source, more: bool | None = None) -> list[Candidate]:
    """The parts of this source that a call runs more often on one side, the largest difference first; with ``more``,
    on the treatment, or less often there."""
    seen = next((one for one in examinations if one.source == source), None)
    found = []
    for one in sorted(seen.candidates if seen else (), key=lambda one: (-abs(one.difference), one.name)):
        before, after = (calls or 0.0 for calls in one.calls)
        if abs(after - before) >= OFTEN * max(before, after) > 0 and more in (None, after > before):
            found.append(one)
    return found
