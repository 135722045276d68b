"""What a cause's sentence says of work that a device such as a GPU does: its kernels, and what launches them."""

import re
from collections.abc import Sequence

from opduel.causes.attribution.shares import find_examination
from opduel.causes.function_names import short_name
from opduel.causes.wording.leads import NAMED, OFTEN, by_difference
from opduel.causes.wording.phrases import described
from opduel.records import Comparison
from opduel.records.cause import Candidate, Examination, Source

# From this share of a call's time on, the device is busy with kernels (between two there is always about a
# microsecond). Below it the device waits for the processor, and a kernel's time need not change the call's time at all.
BUSY = 0.75
CUDA_CALL = re.compile(r"cu(da)?[A-Z]")  # of the CUDA runtime or driver, not an operator


def kernels_of(examinations: Sequence[Examination]) -> Examination | None:
    """Return the examination of kernels; None if it saw nothing."""
    kernels = find_examination(examinations, "kernels")
    return kernels if kernels and kernels.control is not None else None


def is_busy(comparison: Comparison, kernels: Examination) -> bool:
    """Return whether the device is busy with kernels for nearly all of a call's time, on both sides."""
    return all(share >= BUSY for share in _shares(comparison, kernels))


def _shares(comparison: Comparison, kernels: Examination) -> tuple[float, float]:
    """Return the share of kernels in a call's time as it was measured, for control and treatment."""
    sides = (kernels.control, comparison.control), (kernels.treatment, comparison.treatment)
    first, second = ((kernels_ns or 0.0) / call_ns if call_ns else 0.0 for kernels_ns, call_ns in sides)
    return first, second


def without_hidden(examinations: Sequence[Examination]) -> list[Examination]:
    """Return the examinations; where a device has kernels, without the operators, whose time on the processor is hidden
    behind them."""
    on_device = kernels_of(examinations) is not None
    return [examination for examination in examinations if not (on_device and examination.source == "operators")]


def launched_otherwise(chosen: Examination, examinations: Sequence[Examination]) -> str:
    """Return ``; the operator aten::add is new``, if the sentence is about kernels."""
    if chosen.source != "kernels":
        return ""
    operators = [
        operator for operator in _called_unequally(examinations, "operators") if not CUDA_CALL.match(operator.name)
    ]
    one_sided = [operator for operator in operators if not all(operator.calls)]
    more = f" and {len(one_sided) - NAMED} more" if len(one_sided) > NAMED else ""
    words = [
        f"{short_name(operator.name)} is {'gone' if operator.calls[0] else 'new'}" for operator in one_sided[:NAMED]
    ]
    noun = "operator" if len(one_sided) == 1 else "operators"
    return f"; the {noun} {', '.join(words)}{more}" if words else ""


def by_launches(comparison: Comparison, examinations: Sequence[Examination], change: float) -> str:
    """Return the sentence for a device that is not busy on both sides: the kernels' share of the time, and what is
    called more often (less often if the case's time fell). It claims no share for that, since profiling an operator
    takes as long as the operator."""
    kernels = kernels_of(examinations)
    if kernels is None or comparison.measure.unit != "ns" or is_busy(comparison, kernels):
        return ""
    first, second = _shares(comparison, kernels)
    percentages = [f"{100 * share:.0f} %" for share in (first, second)]
    before = f" ({percentages[0]} before)" if percentages[0] != percentages[1] else ""
    kernels_words = f"kernels take {percentages[1]} of a call{before}"
    if device_waits := max(first, second) < BUSY:
        kernels_words += ": the device waits for the processor"
    parts = _called_unequally(examinations, "operators" if device_waits else "kernels", change > 1)
    if not parts:
        return f"not explained: {kernels_words}"
    return f"partly explained: {', '.join(described(part).rstrip(',') for part in parts[:NAMED])}; {kernels_words}"


def _called_unequally(examinations: Sequence[Examination], source: Source, more: bool | None = None) -> list[Candidate]:
    """Return the parts of a source that are not called equally often, the largest difference first. ``more``: only
    those called more often on the treatment (True), or less often there (False)."""
    examination = find_examination(examinations, source)
    parts = []
    for part in sorted(examination.candidates if examination else (), key=by_difference):
        before, after = (calls or 0.0 for calls in part.calls)
        if abs(after - before) >= OFTEN * max(before, after) > 0 and more in (None, after > before):
            parts.append(part)
    return parts
