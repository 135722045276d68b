"""What a native function does otherwise for the processor, beside how much it executes: vectors, and branches."""

from collections.abc import Sequence

from opduel.comparator.cause_wording import is_of_the_interpreter, share_of, short_name
from opduel.comparator.causes import is_named
from opduel.records import Comparison
from opduel.records.cause import ONE_BY_ONE, VECTORS, Candidate, Examination, Source

BRANCHES: Source = "mispredicted branches"
PLACEMENT: Source = "code placement"
SHORTEST_MISPREDICTED_NS = 3.0  # that one costs, at least: some 15 cycles
SAME = 0.01  # of all instructions: a smaller difference of a function is none
SAME_WORK = "native code executes as many instructions as before, in the same functions"
WORTH_WORDS = 0.1  # a share of a side's instructions, or of the change of a case's time


def by_branches(comparison: Comparison, examinations: Sequence[Examination]) -> str:
    """``; 65,500 fewer branches are mispredicted per call, 100 % of them in f``, where even the least that these cost
    is a good part of the change of the case's time; else empty. It says what differs, and claims no share of that."""
    seen = next((one for one in examinations if one.source == BRANCHES), None)
    if seen is None or comparison.measure.unit != "ns" or not comparison.control or not comparison.ratio:
        return ""
    if seen.explained is None or seen.control is None or seen.treatment is None:
        return ""
    more, changed = seen.treatment - seen.control, comparison.control * (comparison.ratio - 1)
    if more * changed <= 0 or abs(more) * SHORTEST_MISPREDICTED_NS < WORTH_WORDS * abs(changed):
        return ""
    most = max(filter(is_named, seen.candidates), key=lambda one: one.share or 0.0, default=None)
    if most and is_of_the_interpreter(most):
        return ""  # that more of Python is executed is said by other sources
    where = f", {share_of(most)} of them in {short_name(most.name)}" if most else ""
    return f"; {abs(more):,.0f} {'more' if more > 0 else 'fewer'} branches are mispredicted per call{where}"


def by_vectors(examinations: Sequence[Examination]) -> str:
    """``; f works on vectors of 32 bytes, where it was one element at a time``: the largest function that differs so.
    It says what differs, and claims no share."""
    native = next((one for one in examinations if one.source == "native functions"), None)
    if native is None or native.difference_ci is None or not native.control or not native.treatment:
        return ""  # not looked at, or in too few process pairs
    able = [one for one in native.candidates if _differs(one) and _is_large(one, native)]
    if not able:
        return ""
    most = max(able, key=lambda one: (max(one.control, one.treatment), one.name))
    before, after = most.implementations
    return f"; {short_name(most.name)} works on {_on(after)}, where it was {_on(before)}"


def as_much_work(native: Examination) -> str:
    """``; native code executes as many instructions as before, in the same functions``: where that is so, no source
    will say what differs; it may be where code and data lie in memory. Empty where some function's number differs."""
    largest = max((abs(one.difference) for one in native.candidates), default=0.0)
    if not native.control or largest >= SAME * native.control:
        return ""
    return f"; {SAME_WORK}"


def by_placement(examinations: Sequence[Examination]) -> str:
    """``; the machine code of f is the same, 40 bytes into a line of 64 where it was 8``: what was found of the code
    that is executed most. It is for changes without any other of what is executed, and claims no share."""
    note = next((one.note for one in examinations if one.source == PLACEMENT), "")
    return f"; {note}" if note else ""


def _differs(candidate: Candidate) -> bool:
    """Whether a function works on vectors on one side, and on elements one by one or other vectors on the other. Of one
    that others are counted in, what these work on isn't known."""
    before, after = candidate.implementations
    if candidate.merged:
        return False
    return before != after and all(one == ONE_BY_ONE or one.startswith(VECTORS) for one in (before, after))


def _is_large(candidate: Candidate, native: Examination) -> bool:
    sides = (candidate.control, native.control), (candidate.treatment, native.treatment)
    return any(amount >= WORTH_WORDS * (whole or 0.0) for amount, whole in sides)


def _on(said: str) -> str:
    return "single elements" if said == ONE_BY_ONE else said
