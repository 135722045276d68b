"""What a cause's sentence says of the processor: vectors, mispredicted branches, and where code lies."""

from collections.abc import Sequence

from opduel.causes.attribution.shares import find_examination, is_named
from opduel.causes.function_names import is_of_the_interpreter, short_name
from opduel.causes.wording.phrases import is_of_vectors, share_of
from opduel.records import Comparison
from opduel.records.cause import ONE_BY_ONE, Candidate, Examination, Source

BRANCHES: Source = "mispredicted branches"
PLACEMENT: Source = "code placement"
SHORTEST_MISPREDICTED_NS = 3.0  # the least that a mispredicted branch costs: some 15 cycles
SAME = 0.01  # share of all instructions: a smaller difference of a function is none
SAME_WORK = "native code executes as many instructions as before, in the same functions"
WORTH_WORDS = 0.1  # a share of a side's instructions, or of the change of a case's time


def by_branches(comparison: Comparison, examinations: Sequence[Examination]) -> str:
    """Return ``; 65,500 fewer branches are mispredicted per call, 100 % of them in f`` if even the least that these
    cost is a good part of the change of the case's time; otherwise empty. It claims no share."""
    branches = find_examination(examinations, BRANCHES)
    if branches is None or comparison.measure.unit != "ns" or not comparison.control or not comparison.ratio:
        return ""
    if branches.explained is None or branches.control is None or branches.treatment is None:
        return ""
    more, changed = branches.treatment - branches.control, comparison.control * (comparison.ratio - 1)
    if more * changed <= 0 or abs(more) * SHORTEST_MISPREDICTED_NS < WORTH_WORDS * abs(changed):
        return ""
    largest = max(filter(is_named, branches.candidates), key=lambda candidate: candidate.share or 0.0, default=None)
    if largest and is_of_the_interpreter(largest.name, largest.where):
        return ""  # other sources say that more Python is executed
    where = f", {share_of(largest)} of them in {short_name(largest.name)}" if largest else ""
    return f"; {abs(more):,.0f} {'more' if more > 0 else 'fewer'} branches are mispredicted per call{where}"


def by_vectors(examinations: Sequence[Examination]) -> str:
    """Return ``; f works on vectors of 32 bytes, where it was single elements`` for the largest function that differs
    so. It claims no share."""
    native = find_examination(examinations, "native functions")
    if native is None or native.difference_ci is None or not native.control or not native.treatment:
        return ""  # not examined, or in too few process pairs
    least_control, least_treatment = WORTH_WORDS * native.control, WORTH_WORDS * native.treatment
    differing = [
        candidate
        for candidate in native.candidates
        if _works_otherwise(candidate)
        and (candidate.control >= least_control or candidate.treatment >= least_treatment)
    ]
    if not differing:
        return ""
    largest = max(differing, key=lambda candidate: (max(candidate.control, candidate.treatment), candidate.name))
    before, after = largest.implementations
    return f"; {short_name(largest.name)} works on {_describe_work(after)}, where it was {_describe_work(before)}"


def as_much_work(native: Examination) -> str:
    """Return ``; native code executes as many instructions as before, in the same functions``; empty if the number of
    some function differs. Then no source will say what differs: it may be where code and data lie in memory."""
    largest = max((abs(candidate.difference) for candidate in native.candidates), default=0.0)
    if not native.control or largest >= SAME * native.control:
        return ""
    return f"; {SAME_WORK}"


def by_placement(examinations: Sequence[Examination]) -> str:
    """Return ``; the machine code of f is the same, 40 bytes into a line of 64 where it was 8`` for the code that is
    executed most. It is for changes without any other difference in what is executed, and claims no share."""
    placement = find_examination(examinations, PLACEMENT)
    return f"; {placement.note}" if placement and placement.note else ""


def _works_otherwise(candidate: Candidate) -> bool:
    """Return whether a function works on vectors on one side, and on single elements or other vectors on the other. Of
    functions that are merged into it that isn't known, and False is returned."""
    before, after = candidate.implementations
    return not candidate.merged and before != after and is_of_vectors(before) and is_of_vectors(after)


def _describe_work(implementation: str) -> str:
    return "single elements" if implementation == ONE_BY_ONE else implementation
