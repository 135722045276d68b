"""What a cause's sentence says of the machine: the kernel's time, page faults and switches, and memory."""

import math
from collections.abc import Sequence

from opduel.comparator.cause_leads import LEAST_NAMED, LEAST_REACH
from opduel.comparator.cause_wording import is_of_the_interpreter, share_of, short_name
from opduel.comparator.causes import is_named
from opduel.records import Comparison
from opduel.records.cause import Candidate, Examination, Source
from opduel.records.text import counted

KERNEL, IN_THE_KERNEL = "kernel", 0.25  # a resource: its time; the share of it that is worth words
LONGEST_COUNT_NS = 10_000.0  # that a page fault without a disk, or a switch to another thread, costs the kernel, by far
ALLOCATIONS: Source = "allocations"
MAPPED: Source = "mapped memory"
MEMORY = (ALLOCATIONS, MAPPED)
MISSES: Source = "simulated cache misses"
OF_MEMORY = (*MEMORY, MISSES)
LONGEST_MISS_NS = 100.0  # about what memory takes to answer: no miss of the first-level cache costs more
MOST_BY_INSTRUCTIONS = 0.5  # share of a change that instructions account for, up to which memory may be its cause
SAME = 0.01  # instructions that differ by less, at 95 %, are the same
LEAST_BYTES = 4096.0  # a page: less adds no page fault
LEAST_OFTEN = 0.5  # allocations per call
AS_MAPPED = 0.5  # share of a function's allocated bytes that it maps, from which on they are mapped each time


def in_the_kernel(chosen: Examination, examinations: Sequence[Examination]) -> str:
    """``; 60 % [50, 70] of the added time is the kernel's (page faults: 98 more per call)``, where that is a good part
    and another source has the sentence."""
    resources = [one for one in examinations if one.source == "resources" and one is not chosen]
    named = [(part, one.unit) for one in resources for part in one.candidates if is_named(part)]
    kernel = next((part for part, unit in named if part.name == KERNEL and unit == "ns"), None)
    if chosen.unit not in ("ns", "instructions") or kernel is None or (kernel.share or 0.0) < IN_THE_KERNEL:
        return ""
    added = kernel.difference > 0
    counts = [part for part, unit in named if unit == "count" and (part.difference > 0) == added]
    counts = [one for one in counts if abs(one.difference) * LONGEST_COUNT_NS >= LEAST_NAMED * abs(kernel.difference)]
    most = max(counts, key=lambda one: abs(one.difference), default=None)
    more = "more" if added else "fewer"
    often = "" if most is None else f" ({short_name(most.name)}: {abs(most.difference):.4g} {more} per call)"
    return f"; {share_of(kernel)} of the {'added time' if added else 'time saved'} is the kernel's{often}"


def changed_resource(comparison: Comparison, examination: Examination, change: float) -> str:
    """The resource that changed most, in the direction of the case's change: ``page faults: 513 more per call``; none
    of which there are too few to matter."""
    if examination.source != "resources" or examination.unit != "count":
        return ""
    clear = [one for one in examination.candidates if is_named(one) and (one.difference > 0) == (change > 1)]
    if not clear:
        return ""
    most = max(clear, key=lambda one: abs(one.difference))
    longest = LONGEST_COUNT_NS if not most.name.startswith("major") else math.inf
    if abs(most.difference) * longest < LEAST_REACH * (comparison.control or 0.0) * abs(change - 1):
        return ""
    return f"{short_name(most.name)}: {abs(most.difference):.4g} {'more' if change > 1 else 'fewer'} per call"


def concerns_memory(examinations: Sequence[Examination], change: float) -> bool:
    """Whether a case's ``change`` (a ratio of costs) may lie in the memory that it asks for: a good part of it is the
    kernel's, page faults became more or fewer, or instructions account for less than half of it."""
    named = [one for seen in examinations if seen.source == "resources" for one in seen.candidates if is_named(one)]
    if any(one.name == KERNEL and (one.share or 0.0) >= IN_THE_KERNEL for one in named):
        return True
    return any("fault" in one.name for one in named) or _by_other_than_instructions(examinations, change)


def _by_other_than_instructions(examinations: Sequence[Examination], change: float) -> bool:
    """Whether native functions were seen, and their instructions changed by less than half as much, in logs."""
    seen = next((one for one in examinations if one.unit == "instructions" and one.difference_ci), None)
    if seen is None or not seen.control or not seen.treatment or change <= 0 or change == 1:
        return False
    return math.log(seen.treatment / seen.control) / math.log(change) < MOST_BY_INSTRUCTIONS


def same_instructions(examinations: Sequence[Examination]) -> bool:
    """Whether native functions were seen, and execute as much on both sides."""
    return any(
        max(abs(limit) for limit in one.difference_ci) / one.control < SAME
        for one in examinations
        if one.unit == "instructions" and one.difference_ci and one.control and one.treatment
    )


def by_allocations(examinations: Sequence[Examination], more: bool) -> str:
    """``; 1 allocation of 4.0 MiB per call, new, by f``: the function whose allocated memory became most (``more``), or
    less; of memory that it maps itself, ``; 4.0 MiB per call mapped by f, new``. It says what differs, and claims no
    share of the time. Empty where nothing is clear, or it is less than a page."""
    allocated, mapped = (_most(examinations, source, more, least=LEAST_BYTES) for source in MEMORY)
    if allocated is None:
        return "" if mapped is None else f"; {_mapped(mapped)}"
    same = mapped is not None and mapped.name == allocated.name
    often = mapped is not None and abs(mapped.difference) >= AS_MAPPED * abs(allocated.difference)
    return f"; {_allocated(allocated)}{', mapped each time' if same and often else ''}"


def by_cache_misses(comparison: Comparison, examinations: Sequence[Examination], change: float) -> str:
    """``; simulated cache misses: 918,000 more per call, in f``: the function whose misses became most, or less, where
    they are so many that they can make a tenth of the change. Of times alone: it claims no share of them."""
    more = change > 1
    most = _most(examinations, MISSES, more, "count")
    if most is None or comparison.measure.unit != "ns":
        return ""
    if abs(most.difference) * LONGEST_MISS_NS < LEAST_REACH * (comparison.control or 0.0) * abs(change - 1):
        return ""
    number = f"{float(f'{abs(most.difference):.3g}'):,.0f}"
    return f"; {MISSES}: {number} {'more' if more else 'fewer'} per call, in {short_name(most.name)}"


def _most(
    examinations: Sequence[Examination], source: Source, more: bool, unit: str = "bytes", least: float = 1.0
) -> Candidate | None:
    """The part that changed most in this direction; by ``least`` at least."""
    seen = next((one for one in examinations if one.source == source and one.unit == unit), None)
    clear = [one for one in seen.candidates if is_named(one) and (one.difference > 0) == more] if seen else []
    if source in MEMORY:
        clear = [one for one in clear if _is_in_each_call(one, source)]
    most = max(clear, key=lambda one: abs(one.difference), default=None)
    return None if most is None or abs(most.difference) < least else most


def _is_in_each_call(part: Candidate, source: Source) -> bool:
    """Whether it is more than growth that falls into the calls that are counted on one side alone: a list that is
    enlarged, or an arena that Python maps for its objects, once in many calls."""
    if source == MAPPED:
        return not is_of_the_interpreter(part)
    often = max((calls for calls in part.calls if calls is not None), default=1.0)
    return often >= LEAST_OFTEN


def _allocated(part: Candidate) -> str:
    name, (before, after) = short_name(part.name), part.calls
    if part.control and part.treatment:
        other = f" ({after:.3g} allocations where it was {before:.3g})" if before and after and before != after else ""
        return f"{name} allocates {_size(part.treatment)} per call where it was {_size(part.control)}{other}"
    often, fate = (before, "gone") if part.control else (after, "new")
    if not often or often != round(often):
        return f"allocations of {_size(part.control or part.treatment)} per call, {fate}, by {name}"
    size = _size(part.control or part.treatment) + (" together" if often > 1 else "")
    return f"{counted(round(often), 'allocation')} of {size} per call, {fate}, by {name}"


def _mapped(part: Candidate) -> str:
    name = short_name(part.name)
    if part.control and part.treatment:
        return f"{name} maps {_size(part.treatment)} per call where it was {_size(part.control)}"
    return f"{_size(part.control or part.treatment)} per call mapped by {name}, {'gone' if part.control else 'new'}"


def _size(size: float) -> str:
    """Bytes in the largest unit of which there is one: ``391 KiB``."""
    power = min(3, max(0, int(math.log(max(size, 1.0), 1024))))
    return f"{size / 1024**power:.3g} {('bytes', 'KiB', 'MiB', 'GiB')[power]}"
