"""What a cause's sentence says of the machine: the kernel's time, page faults and switches, and memory."""

import math
from collections.abc import Sequence

from opduel.causes.attribution.shares import named_candidates
from opduel.causes.function_names import is_of_the_interpreter, short_name
from opduel.causes.wording.leads import LEAST_NAMED, LEAST_REACH
from opduel.causes.wording.phrases import of_the_change, share_of
from opduel.records import Comparison
from opduel.records.cause import Candidate, Examination, Source
from opduel.support.text import counted

KERNEL, IN_THE_KERNEL = "kernel", 0.25  # a resource: the kernel's time; the share of it that is worth words
LONGEST_COUNT_NS = 10_000.0  # the most that a page fault without a disk, or a switch to another thread, costs
ALLOCATIONS: Source = "allocations"
MAPPED: Source = "mapped memory"
MEMORY = (ALLOCATIONS, MAPPED)
MISSES: Source = "simulated cache misses"
OF_MEMORY = (*MEMORY, MISSES)
LONGEST_MISS_NS = 100.0  # the most that a miss of the first-level cache costs: about the latency of memory
MOST_BY_INSTRUCTIONS = 0.5  # if instructions account for less than this share of a change, memory may be its cause
SAME = 0.01  # instructions that differ by less, at 95 %, are the same
LEAST_BYTES = 4096.0  # a page: less adds no page fault
LEAST_OFTEN = 0.5  # allocations per call


def in_the_kernel(chosen: Examination, examinations: Sequence[Examination]) -> str:
    """Return ``; 60 % [50, 70] of the added time is the kernel's (page faults: 98 more per call)`` if that is a good
    part, and the sentence is about another source."""
    not_chosen = [examination for examination in examinations if examination is not chosen]
    kernel = next((part for part in named_candidates(not_chosen, "resources", "ns") if part.name == KERNEL), None)
    if chosen.unit not in ("ns", "instructions") or kernel is None or (kernel.share or 0.0) < IN_THE_KERNEL:
        return ""
    added = kernel.difference > 0
    least = LEAST_NAMED * abs(kernel.difference) / LONGEST_COUNT_NS
    largest = _largest(named_candidates(not_chosen, "resources", "count"), added, least)
    more = "more" if added else "fewer"
    often = "" if largest is None else f" ({short_name(largest.name)}: {abs(largest.difference):.4g} {more} per call)"
    return f"; {share_of(kernel)} {of_the_change('time', added)} is the kernel's{often}"


def changed_resource(comparison: Comparison, examination: Examination, change: float) -> str:
    """Return ``page faults: 513 more per call`` for the resource that changed most in the direction of the case's
    change; empty if there are too few to matter."""
    largest = _largest(named_candidates([examination], "resources", "count"), change > 1)
    if largest is None:
        return ""
    longest = LONGEST_COUNT_NS if not largest.name.startswith("major") else math.inf
    if abs(largest.difference) * longest < LEAST_REACH * (comparison.control or 0.0) * abs(change - 1):
        return ""
    return f"{short_name(largest.name)}: {abs(largest.difference):.4g} {'more' if change > 1 else 'fewer'} per call"


def concerns_memory(examinations: Sequence[Examination], change: float) -> bool:
    """Return whether a case's ``change`` (a ratio of costs) may be due to memory: a good part of it is the kernel's,
    page faults became more or fewer, or instructions account for less than half of it."""
    named = named_candidates(examinations, "resources")
    if any(candidate.name == KERNEL and (candidate.share or 0.0) >= IN_THE_KERNEL for candidate in named):
        return True
    return any("fault" in candidate.name for candidate in named) or _by_other_than_instructions(examinations, change)


def _by_other_than_instructions(examinations: Sequence[Examination], change: float) -> bool:
    """Return whether instructions were counted, and changed by less than half as much as the case, in logs."""
    work = next(
        (
            examination
            for examination in examinations
            if examination.unit == "instructions" and examination.difference_ci
        ),
        None,
    )
    if work is None or not work.control or not work.treatment or change <= 0 or change == 1:
        return False
    return math.log(work.treatment / work.control) / math.log(change) < MOST_BY_INSTRUCTIONS


def has_same_instructions(examinations: Sequence[Examination]) -> bool:
    """Return whether instructions were counted, and are equally many on both sides."""
    return any(
        max(abs(limit) for limit in work.difference_ci) / work.control < SAME
        for work in examinations
        if work.unit == "instructions" and work.difference_ci and work.control and work.treatment
    )


def by_allocations(examinations: Sequence[Examination], more: bool) -> str:
    """Return ``; 1 allocation of 4.0 MiB per call, new, by f`` for the function whose allocated memory grew most (fell
    most if not ``more``), or ``; 4.0 MiB per call mapped by f, new`` for memory that it maps itself; empty if nothing
    is clear, or it is less than a page. It claims no share."""
    allocated, mapped = (_largest_of_memory(examinations, source, more, LEAST_BYTES) for source in MEMORY)
    if allocated is None:
        return "" if mapped is None else f"; {_mapped(mapped)}"
    return f"; {_allocated(allocated)}"


def by_cache_misses(comparison: Comparison, examinations: Sequence[Examination], change: float) -> str:
    """Return ``; simulated cache misses: 918,000 more per call, in f`` for the function whose misses grew (or fell)
    most, if a tenth of the case's change can be due to them. It is for times only, and claims no share."""
    more = change > 1
    largest = _largest(named_candidates(examinations, MISSES, "count"), more, 1.0)
    if largest is None or comparison.measure.unit != "ns":
        return ""
    if abs(largest.difference) * LONGEST_MISS_NS < LEAST_REACH * (comparison.control or 0.0) * abs(change - 1):
        return ""
    number = f"{float(f'{abs(largest.difference):.3g}'):,.0f}"
    return f"; {MISSES}: {number} {'more' if more else 'fewer'} per call, in {short_name(largest.name)}"


def _largest_of_memory(
    examinations: Sequence[Examination], source: Source, more: bool, least: float
) -> Candidate | None:
    named = named_candidates(examinations, source, "bytes")
    return _largest([candidate for candidate in named if _is_in_each_call(candidate, source)], more, least)


def _largest(candidates: Sequence[Candidate], more: bool, least: float = 0.0) -> Candidate | None:
    """Return the part that changed most in this direction, by at least ``least``; None if there is none."""
    moved = [part for part in candidates if (part.difference > 0) == more and abs(part.difference) >= least]
    return max(moved, key=lambda part: abs(part.difference), default=None)


def _is_in_each_call(part: Candidate, source: Source) -> bool:
    """Return whether memory is asked for in each call. Once in many calls a list is enlarged, or Python maps an arena
    for its objects; that may be counted on one side alone by chance."""
    if source == MAPPED:
        return not is_of_the_interpreter(part.name, part.where)
    often = max((calls for calls in part.calls if calls is not None), default=1.0)
    return often >= LEAST_OFTEN


def _allocated(part: Candidate) -> str:
    name, (before, after) = short_name(part.name), part.calls
    if part.control and part.treatment:
        return f"{name} allocates {_size(part.treatment)} per call where it was {_size(part.control)}"
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
    """Return bytes in the largest unit of which there is at least one: ``391 KiB``."""
    power = min(3, max(0, int(math.log(max(size, 1.0), 1024))))
    return f"{size / 1024**power:.3g} {('bytes', 'KiB', 'MiB', 'GiB')[power]}"
