"""Why a case changed, in one sentence: which examination explains its change best, and how far."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from opduel.comparator.cause_calls import SAME_CALLS
from opduel.comparator.cause_primitives import other_primitives
from opduel.comparator.cause_wording import (
    LEAST_NAMED,
    NAMED,
    claims,
    is_of_the_interpreter,
    listed,
    share_of,
    short_name,
)
from opduel.comparator.causes import is_named
from opduel.records import Comparison
from opduel.records.cause import Candidate, Cause, Examination, Source
from opduel.records.measurement import SIDES
from opduel.records.text import one_line

# What a person can act on comes first, where several sources explain the change to the same degree.
PREFERENCE: tuple[Source, ...] = ("Python functions", "primitives", "operators", "native functions", "resources")
AS_GOOD = 0.1  # shares of the change that are closer than this explain it to the same degree
COMPARABLE = 0.8  # share of the case's change (of logs) from which on a source's own change is as large
PARTLY = 0.5  # share of the case's change below which it is explained partly
LEAST_REACH = 0.1  # a source that accounts for a smaller share of the case's change explains nothing
EXCHANGED = 1.2  # sum of the shares of one direction from which on parts of both are named
ENOUGH = 0.8  # shares that are enough together

# In which a thread waits for others, by the last part of their names: functions of MXNet, PyTorch and Python, and the
# resource.
WAITING = frozenset(
    ("wait_to_read", "wait_to_write", "waitall", "synchronize", "acquire", "wait", "join", "poll", "waiting")
)

KERNEL, IN_THE_KERNEL = "kernel", 0.25  # a resource: its time; the share of it that is worth words
LONGEST_COUNT_NS = 10_000.0  # that a page fault without a disk, or a switch to another thread, costs the kernel, by far
CALL_ITSELF = "(the call itself)"  # of Python functions: a call that goes straight to native code
USER_CODE = "user code"  # a resource: that it takes longer is what was to be explained

OF_A_PART = ("primitives", "operators")  # sources that don't see the whole call
MOST_OF_A_CALL = 1.1  # times a call's measured time, that such a source may see
# What the case's metric counts -> units of the sources that its change can follow from; the first is its own.
EXPLAINED_BY = {"ns": ("ns", "instructions"), "instructions": ("instructions",), "bytes": ("bytes",)}
NOUNS = {"ns": "time", "instructions": "instructions", "bytes": "memory"}
METRIC_NOUNS = {"error": "the error"}


@dataclass(frozen=True)
class _Reading:
    """What one examination says of a case's change: ``change`` and ``reach`` are its own change (a share), and how
    much of the case's it makes (1 = all of it, at most)."""

    examination: Examination
    change: float
    reach: float

    @property
    def leads(self) -> list[Candidate]:
        return _leads(self.examination)

    @property
    def waits(self) -> bool:
        """Whether it names a function that waits for other threads: what those do is the cause."""
        return self.leads[0].name.rpartition(".")[2] in WAITING

    @property
    def explained(self) -> float:
        """The share of the case's change that its candidates explain, 0 to 1."""
        return self.reach * max(0.0, min(1.0, self.examination.explained or 0.0))


def cause_of(comparison: Comparison, examinations: Sequence[Examination]) -> Cause | None:
    """Why a case changed; None of one that did not, or that the treatment breaks (its failure says why).

    An examination explains the change as far as its own whole difference goes: in the same direction, and by as large
    a ratio.  One whose difference is clear of 0 in the other direction explains nothing.
    """
    if comparison.finding not in ("regressed", "improved") or not comparison.ratio or comparison.ratio <= 0:
        return None
    change = comparison.ratio if comparison.measure.lower_is_better else 1 / comparison.ratio  # of the cost
    if change == 1:
        return None
    readings = [_reading(comparison, one, change) for one in examinations]
    found = _best(comparison, [one for one in readings if one is not None])
    if found:
        sentence = _explained(comparison, found, change) + _in_native_code(found.examination, examinations, change)
        sentence += other_primitives(comparison, found.examination, examinations)
        sentence += _in_the_kernel(found.examination, examinations)
        sentence = _of_waiting(sentence, found, examinations)
    else:
        sentence = _not_explained(comparison, examinations, change)
    return Cause(one_line(sentence), tuple(examinations))


def _of_waiting(sentence: str, found: _Reading, examinations: Sequence[Examination]) -> str:
    """The sentence of a reading that names nothing but waiting, which is an effect: what other threads do meanwhile
    explains it, and where no native function was seen, nothing is explained."""
    if not found.waits:
        return sentence
    if found.examination.source != "resources":
        sentence += "; it waits for other threads, whose work was not seen"
    native = next((one for one in examinations if one.source == "native functions"), None)
    if native is None or native.difference_ci is not None:
        return sentence
    said = sentence.removeprefix("partly explained: ")
    return f"not explained: {said}; native functions: {native.note.partition('; ')[0]}"


def _reading(comparison: Comparison, examination: Examination, change: float) -> _Reading | None:
    """What an examination can claim; None for nothing."""
    examination = _of_libraries(examination)
    own = _change(examination)
    if own is None or examination.explained is None or not _leads(examination):
        return None
    if examination.unit not in EXPLAINED_BY.get(_unit(comparison), ("ns", "instructions")):
        return None
    if (own > 0) != (change > 1) or _leads(examination)[0].name == USER_CODE:
        return None
    if examination.source in OF_A_PART:
        return _reading_of_a_part(comparison, examination, own)
    found = _Reading(examination, own, min(1.0, math.log(max(1 + own, 1e-9)) / math.log(change)))
    return found if found.explained >= LEAST_REACH else None


def _reading_of_a_part(comparison: Comparison, examination: Examination, own: float) -> _Reading | None:
    """What an examination can claim that sees only a part of a call: its candidates' shares of what the case's time
    changed by. Their intervals reach from the least to the most that both intervals allow."""
    if _unit(comparison) != examination.unit or comparison.ci is None or comparison.control is None:
        return None
    sides = (examination.control, comparison.control), (examination.treatment, comparison.treatment)
    if any((seen or 0.0) > MOST_OF_A_CALL * (measured or 0.0) for seen, measured in sides):
        return None  # what watching costs is a large part of what was seen
    low, high = (comparison.control * (limit - 1) for limit in comparison.ci)
    whole = (examination.treatment or 0.0) - (examination.control or 0.0)
    if low <= 0 <= high or comparison.ratio is None:
        return None
    share = whole / (comparison.control * (comparison.ratio - 1))
    scales = whole / low, whole / high
    candidates = tuple(_scaled(one, share, scales) for one in examination.candidates)
    explained = sum(one.share or 0.0 for one in candidates if is_named(one))
    seen = replace(examination, candidates=candidates, explained=explained)
    return _Reading(seen, own, 1.0) if _leads(seen) and explained >= LEAST_REACH else None


def _scaled(candidate: Candidate, share: float, scales: tuple[float, float]) -> Candidate:
    if candidate.share is None or candidate.ci is None:
        return candidate
    limits = [limit * scale for limit in candidate.ci for scale in scales]
    return replace(candidate, share=candidate.share * share, ci=(min(limits), max(limits)))


def _unit(comparison: Comparison) -> str:
    return comparison.measure.unit if comparison.metric != "error" else "error"


def _change(examination: Examination) -> float | None:
    """The whole difference as a share of the control; None where there is none, or it has no control."""
    if examination.treatment is None or not examination.control or examination.control <= 0:
        return None
    return examination.treatment / examination.control - 1


def _of_libraries(examination: Examination) -> Examination:
    """The same without native functions of Python's own interpreter: what they execute follows from the Python code
    that they run, and explains nothing."""
    if examination.source != "native functions" or examination.explained is None:
        return examination
    candidates = tuple(one for one in examination.candidates if not is_of_the_interpreter(one))
    return replace(
        examination, candidates=candidates, explained=sum(one.share or 0.0 for one in candidates if is_named(one))
    )


def _leads(examination: Examination) -> list[Candidate]:
    """The candidates to name, the largest share first: those that changed in the direction of the whole. Where they
    are enough, only those that came or went are named beside them: they are what to look for in the code."""
    named = sorted((one for one in examination.candidates if is_named(one) and (one.share or 0) > 0), key=_by_share)
    found: list[Candidate] = []
    for one in named[:NAMED]:
        enough = sum(lead.share or 0 for lead in found) >= ENOUGH
        if not found or ((one.share or 0) >= LEAST_NAMED and not (enough and one.control and one.treatment)):
            found.append(one)
    return found


def _by_share(candidate: Candidate) -> tuple[float, str]:
    return -(candidate.share or 0.0), candidate.name


def _best(comparison: Comparison, readings: Sequence[_Reading]) -> _Reading | None:
    """The reading that explains most; of those that explain as much, the one with names that a person can act on.
    One that names a function that waits comes last."""
    if not readings:
        return None
    readings = [one for one in readings if not one.waits] or readings
    most = max(readings, key=lambda one: one.explained)
    as_good = [one for one in readings if one.explained >= most.explained - AS_GOOD or _overlap(one, most)]
    return min(as_good, key=lambda one: (_rank(comparison, one.examination), -one.explained))


def _overlap(one: _Reading, most: _Reading) -> bool:
    """Whether the first candidates' shares overlap, and the weaker reading explains half or more."""
    a, b = one.leads[0].ci, most.leads[0].ci
    if a is None or b is None or one.explained < PARTLY:
        return False
    return a[1] * one.reach >= b[0] * most.reach and b[1] * most.reach >= a[0] * one.reach


def _rank(comparison: Comparison, examination: Examination) -> int:
    """The place in ``PREFERENCE``; the last for a case's only operator, which says what the case is and no more."""
    lead = _leads(examination)[0]
    name = lead.name.rpartition(".")[2].lower()
    alone = (lead.control, lead.treatment) == (examination.control, examination.treatment)
    if examination.source == "operators" and (alone or name == comparison.operator.rpartition(".")[2].lower()):
        return len(PREFERENCE)
    return PREFERENCE.index(examination.source)


def _explained(comparison: Comparison, reading: _Reading, change: float) -> str:
    noun = _noun(reading.examination.unit)
    partly = "partly explained: " if reading.explained < PARTLY else ""
    case = METRIC_NOUNS.get(comparison.metric) or _noun(_unit(comparison))
    grew, whole = _moved(noun, reading.change), change - 1
    if reading.reach >= COMPARABLE:
        added = f"of the {'added ' + noun if whole > 0 else noun + ' saved'}"
        other = f"; {grew}, {case} by {_percent(whole)}" if noun != case else ""
        return partly + (_exchanged(reading.examination, added) or claims(reading.leads, added)) + other
    exchanged = _exchanged(reading.examination, "of that")
    said = f"{partly}{grew}" + (f": {exchanged}" if exchanged else f", of which {claims(reading.leads, '')}")
    if noun == case:
        return f"{said}; as measured, {_moved(case, whole)}"
    return f"{said}; the other {_percent(whole - reading.change)} of the {case} is not explained"


def _exchanged(examination: Examination, added: str) -> str:
    """``f and 2 more gave way to g: together 98 % of the added instructions``, where parts that changed one way make up
    for others; empty elsewhere."""
    named = sorted(filter(is_named, examination.candidates), key=_by_share)
    more, less = ([one for one in named if (one.difference > 0) == way] for way in (True, False))
    if not less or sum(max(0.0, one.share or 0.0) for one in named) <= EXCHANGED:
        return ""
    net = sum(one.share or 0.0 for one in named)
    more, less = (sorted(group, key=lambda one: (-abs(one.difference), one.name)) for group in (more, less))
    if all(one.control == 0 for one in more) and all(one.treatment == 0 for one in less):
        words = f"{listed(less)} gave way to {listed(more)}"
    else:
        words = f"less in {listed(less)}, more in {listed(more)}"
    return f"{words}: together {100 * net:.0f} % {added}"


def _in_native_code(chosen: Examination, examinations: Sequence[Examination], whole: float) -> str:
    """``; in native code, f and 1 more gave way to g``: what the Python function of the sentence runs, where native
    functions that only one side has make up a good part of a call. That says what differs, and claims no share.  Else
    ``; in native code, f accounts for 98 % of the added instructions``, where the function runs as often as before.
    ``whole`` is the case's change, a ratio."""
    native = next((_of_libraries(one) for one in examinations if one.source == "native functions"), None)
    if chosen.source != "Python functions" or native is None or not native.control or not native.treatment:
        return ""
    parts = [one for one in native.candidates if is_named(one) and not one.was]
    gone = [one for one in parts if one.treatment == 0 and one.control >= LEAST_NAMED * native.control]
    new = [one for one in parts if one.control == 0 and one.treatment >= LEAST_NAMED * native.treatment]
    if not gone or not new:
        return _by_native_functions(_leads(chosen)[0], native, whole)
    gone, new = (sorted(group, key=lambda one: (-abs(one.difference), one.name)) for group in (gone, new))
    return f"; in native code, {listed(gone)} gave way to {listed(new)}"


def _by_native_functions(python: Candidate, native: Examination, whole: float) -> str:
    """What the native functions claim of a Python function that both sides call equally often: what it runs is
    slower."""
    often = [calls for calls in python.calls if calls]
    alike = len(often) == len(SIDES) and math.isclose(*often, rel_tol=SAME_CALLS)
    if not alike and python.name != CALL_ITSELF:
        return ""
    change = _change(native) or 0.0
    if math.log(max(1 + change, 1e-9)) / math.log(whole) < LEAST_REACH:  # also where it is the other way round
        return ""
    leads = _leads(native)
    if sum(one.share or 0.0 for one in leads) < PARTLY:
        return ""
    added = f"of the {'added instructions' if change > 0 else 'instructions saved'}"
    return f"; in native code, {_exchanged(native, added) or claims(leads, added)}"


def _in_the_kernel(chosen: Examination, examinations: Sequence[Examination]) -> str:
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


def _not_explained(comparison: Comparison, examinations: Sequence[Examination], change: float) -> str:
    """What each source says, or why it says nothing; resources that changed, where nothing else did."""
    case = METRIC_NOUNS.get(comparison.metric) or _noun(_unit(comparison))
    hints = [hint for one in examinations if (hint := _resource(comparison, one, change))]
    same = next((one for one in examinations if one.unit == "instructions" and _same(one)), None)
    if hints and _unit(comparison) == "ns":
        rest = ", while instructions are the same" if same else f"; its share of the {case} is open"
        return "; ".join(hints) + rest
    said = [words for one in examinations if (words := _says(one, case, change))]
    return "not explained: " + ("; ".join(said) if said else "nothing could be looked at")


def _same(examination: Examination) -> bool:
    own, interval = _change(examination), examination.difference_ci
    if own is None or interval is None or not examination.control:
        return False
    return max(abs(limit) for limit in interval) / examination.control < 0.01


def _resource(comparison: Comparison, examination: Examination, change: float) -> str:
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


def _says(examination: Examination, case: str, change: float) -> str:
    own, source = _change(examination), examination.source
    if own is None or examination.difference_ci is None:
        return f"{source}: {examination.note}" if examination.note else ""
    kind, noun = source.removesuffix("s").split()[-1], _noun(examination.unit)
    moved = f"although {_moved(case, change - 1)}"
    low, high = examination.difference_ci
    if low <= 0 <= high or examination.explained is None:
        return f"{noun} by {kind}: no clear difference ({_percent(own)}) {moved}"
    if (own > 0) != (change > 1):
        return f"{noun} by {kind} {_verb(own)} {moved}"
    if (interpreter := (examination.explained or 0.0) - (_of_libraries(examination).explained or 0.0)) > 0:
        its = f"{_percent(interpreter)} of that in the Python interpreter itself"
        return f"{noun} by {kind} {_verb(own)}, {its}: look at the Python functions"
    return f"{noun} by {kind} {_verb(own)}, with nothing that accounts for it"


def _noun(unit: str) -> str:
    return NOUNS.get(unit, "the value" if unit != "count" else "counts")


def _verb(change: float) -> str:
    return f"{'grew' if change > 0 else 'fell'} by {_percent(change)}"


def _moved(noun: str, change: float) -> str:
    return f"{noun} {_verb(change)}"


def _percent(share: float) -> str:
    return f"{abs(share) * 100:.2g} %" if abs(share) < 0.1 else f"{abs(share) * 100:.0f} %"
