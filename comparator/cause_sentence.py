"""Why a case changed, in one sentence: which examination explains its change best, and how far."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from opduel.comparator.cause_device import by_launches, is_busy, launched_otherwise, without_hidden
from opduel.comparator.cause_leads import (
    LEAST_REACH,
    PARTLY,
    called_otherwise,
    change_of,
    exchanged,
    leads_of,
    of_libraries,
)
from opduel.comparator.cause_native import OTHER_CODE, by_compiler, in_native_code, is_other_code
from opduel.comparator.cause_primitives import other_primitives
from opduel.comparator.cause_processor import (
    BRANCHES,
    PLACEMENT,
    SAME_WORK,
    as_much_work,
    by_branches,
    by_placement,
    by_vectors,
)
from opduel.comparator.cause_resources import (
    OF_MEMORY,
    by_allocations,
    by_cache_misses,
    changed_resource,
    concerns_memory,
    in_the_kernel,
    same_instructions,
)
from opduel.comparator.cause_wording import NOUNS, claims, described
from opduel.comparator.causes import is_named
from opduel.records import Comparison
from opduel.records.cause import ELSEWHERE, OF_MEASURED, Candidate, Cause, Examination, Source
from opduel.records.text import one_line

# What a person can act on comes first, where several sources explain the change to the same degree.
PREFERENCE: tuple[Source, ...] = (
    "Python functions",
    "primitives",
    "kernels",
    "operators",
    "native functions",
    "sampled functions",
    "resources",
    *OF_MEMORY,
)
BESIDE: Source = "sampled functions"  # said beside Python functions
AS_GOOD = 0.1  # shares of the change that are closer than this explain it to the same degree
COMPARABLE = 0.8  # share of the case's change (of logs) from which on a source's own change is as large

# In which a thread waits for others, by the last part of their names: functions of MXNet, PyTorch and Python, and the
# resource.
WAITING = frozenset(
    ("wait_to_read", "wait_to_write", "waitall", "synchronize", "acquire", "wait", "join", "poll", "waiting")
)

USER_CODE = "user code"  # a resource: that it takes longer is what was to be explained

OF_A_PART = ("primitives", "kernels", "operators")  # sources that don't see the whole call
MOST_OF_A_CALL = 1.1  # times a call's measured time, that such a source may see
# What the case's metric counts -> units of the sources that its change can follow from; the first is its own.
EXPLAINED_BY = {"ns": ("ns", "instructions"), "instructions": ("instructions",), "bytes": ("bytes",)}
UNEXPLAINED_WORK = "not explained by what is executed"
HOW_IT_DIVIDES = "but how that divides among functions is not clear"
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
        return leads_of(self.examination)

    @property
    def waits(self) -> bool:
        """Whether it names a function that waits for other threads: what those do is the cause."""
        return self.leads[0].name.rpartition(".")[2] in WAITING

    @property
    def explained(self) -> float:
        """The share of the case's change that its candidates explain, 0 to 1."""
        return self.reach * max(0.0, min(1.0, self.examination.explained or 0.0))


def cause_of(
    comparison: Comparison, examinations: Sequence[Examination], compilers: Mapping[str, str] | None = None
) -> Cause | None:
    """Why a case changed; None of one that did not, or that the treatment breaks (its failure says why).

    ``compilers``: a library's file name, or "" for the framework's -> ``GCC 14.2.1, before GCC 12.2.1``, of those that
    another compiler compiled.
    An examination explains the change as far as its own whole difference goes: in the same direction, and by as large
    a ratio.  One whose difference is clear of 0 in the other direction explains nothing.
    """
    if comparison.finding not in ("regressed", "improved") or not comparison.ratio or comparison.ratio <= 0:
        return None
    change = comparison.ratio if comparison.measure.lower_is_better else 1 / comparison.ratio  # of the cost
    if change == 1:
        return None
    readings = [_reading(comparison, one, change) for one in without_hidden(_without_other_code(examinations))]
    found = _best(comparison, [one for one in readings if one is not None])
    if found:
        sentence = _explained(comparison, found, change) + in_native_code(found.examination, examinations, change)
        if found.examination.source == "native functions" and is_other_code(found.examination):
            sentence += OTHER_CODE
        sentence += other_primitives(comparison, found.examination, examinations)
        sentence += launched_otherwise(found.examination, examinations)
        sentence += by_vectors(examinations) + by_branches(comparison, examinations)
        if SAME_WORK in sentence:
            sentence += by_placement(examinations)
        sentence += in_the_kernel(found.examination, examinations)
        if concerns_memory(examinations, change):
            sentence += by_allocations(examinations, change > 1)
            sentence += by_cache_misses(comparison, examinations, change)
        sentence = _of_waiting(sentence, found, examinations)
    else:
        sentence = _not_explained(comparison, examinations, change)
    sentence += by_compiler(found.examination if found else None, examinations, sentence, compilers or {})
    return Cause(one_line(sentence), tuple(examinations))


def _without_other_code(examinations: Sequence[Examination]) -> list[Examination]:
    """The examinations that may explain a change. Samples do in place of counts that name code for other instructions
    than the processor may run; else they are only said beside Python functions."""
    native = next((of_libraries(one) for one in examinations if one.source == "native functions"), None)
    sampled = next((one for one in examinations if one.source == BESIDE), None)
    other_code = native is not None and is_other_code(native)
    left_out = "native functions" if other_code and sampled and sampled.explained is not None else BESIDE
    return [one for one in examinations if one.source != left_out]


def _of_waiting(sentence: str, found: _Reading, examinations: Sequence[Examination]) -> str:
    """The sentence of a reading that names nothing but waiting, which is an effect: what other threads do meanwhile
    explains it, and where no native function was seen, nothing is explained."""
    if not found.waits:
        return sentence
    if found.examination.source != "resources":
        sentence += "; it waits for other threads, whose work was not seen"
    native = next((one for one in examinations if one.source == "native functions"), None)
    if native is None or native.difference_ci is not None:
        same = _same_work(examinations)
        return sentence + (same if SAME_WORK not in sentence else "")
    said = sentence.removeprefix("partly explained: ")
    return f"not explained: {said}; native functions: {native.note.partition('; ')[0]}"


def _reading(comparison: Comparison, examination: Examination, change: float) -> _Reading | None:
    """What an examination can claim; None for nothing."""
    examination = of_libraries(examination)
    own = change_of(examination)
    if own is None or examination.explained is None or not leads_of(examination):
        return None
    if OF_MEASURED in examination.note:
        return _Reading(examination, change - 1, 1.0) if examination.explained >= LEAST_REACH else None
    if examination.unit not in EXPLAINED_BY.get(_unit(comparison), ("ns", "instructions")):
        return None
    if (own > 0) != (change > 1) or leads_of(examination)[0].name == USER_CODE:
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
    if examination.source == "kernels" and not is_busy(comparison, examination):
        return None
    low, high = (comparison.control * (limit - 1) for limit in comparison.ci)
    whole = (examination.treatment or 0.0) - (examination.control or 0.0)
    if low <= 0 <= high or comparison.ratio is None:
        return None
    share = whole / (comparison.control * (comparison.ratio - 1))
    scales = whole / low, whole / high
    candidates = tuple(_scaled(one, share, scales) for one in examination.candidates)
    explained = sum(one.share or 0.0 for one in candidates if is_named(one))
    seen = replace(examination, candidates=candidates, explained=explained)
    return _Reading(seen, own, 1.0) if leads_of(seen) and explained >= LEAST_REACH else None


def _scaled(candidate: Candidate, share: float, scales: tuple[float, float]) -> Candidate:
    if candidate.share is None or candidate.ci is None:
        return candidate
    limits = [limit * scale for limit in candidate.ci for scale in scales]
    return replace(candidate, share=candidate.share * share, ci=(min(limits), max(limits)))


def _unit(comparison: Comparison) -> str:
    return comparison.measure.unit if comparison.metric != "error" else "error"


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
    lead = leads_of(examination)[0]
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
        return partly + (exchanged(reading.examination, added) or claims(reading.leads, added)) + other
    both_ways = exchanged(reading.examination, "of that")
    said = f"{partly}{grew}" + (f": {both_ways}" if both_ways else f", of which {claims(reading.leads, '')}")
    if noun == case:
        return f"{said}; as measured, {_moved(case, whole)}"
    return f"{said}; the other {_percent(whole - reading.change)} of the {case} is not explained"


def _same_work(examinations: Sequence[Examination]) -> str:
    """That native code executes as much as before, in the same functions, and where it lies; empty where it doesn't."""
    native = [one for one in examinations if one.source == "native functions"]
    said = as_much_work(native[0]) if same_instructions(native) else ""
    return said and said + by_placement(examinations)


def _not_explained(comparison: Comparison, examinations: Sequence[Examination], change: float) -> str:
    """What each source says, or why it says nothing; resources that changed, where nothing else did."""
    case = METRIC_NOUNS.get(comparison.metric) or _noun(_unit(comparison))
    hints = [hint for one in examinations if (hint := changed_resource(comparison, one, change))]
    if branches := by_branches(comparison, examinations).removeprefix("; "):
        hints.insert(0, branches)
    same = same_instructions(examinations)
    memory = ""
    if concerns_memory(examinations, change):
        memory = by_allocations(examinations, change > 1) + by_cache_misses(comparison, examinations, change)
    if hints and _unit(comparison) == "ns":
        rest = ", while instructions are the same" if same else f"; its share of the {case} is open"
        return "; ".join(hints) + rest + memory
    if launches := by_launches(comparison, examinations, change):
        return launches
    others = [one for one in without_hidden(examinations) if one.source != BESIDE]
    if (work := _same_work(examinations)) and _unit(comparison) == "ns":
        rather = "perhaps where code lies" if ELSEWHERE in work else UNEXPLAINED_WORK
        differ = [one for one in others if one.unit != "instructions" and _is_clear(one)]
        said = [work.removeprefix("; "), *(words for one in differ if (words := _says(one, case, change)))]
        return f"{rather}: {'; '.join(said)}{memory}"
    for one in others:
        if _is_clear(one) and (often := called_otherwise(one)) and ((change_of(one) or 0.0) > 0) == (change > 1):
            grew = _moved(_noun(one.unit), change_of(one) or 0.0)
            function = described(often).rstrip(",")
            return f"partly explained: {function}; {grew}, {HOW_IT_DIVIDES}{memory}"
    said = [words for one in others if (words := _says(one, case, change))]
    return "not explained: " + ("; ".join(said) if said else "nothing could be looked at") + memory


def _is_clear(examination: Examination) -> bool:
    """Whether its own difference is clear of 0, and its shares are of that."""
    low, high = examination.difference_ci or (0.0, 0.0)
    return (low > 0 or high < 0) and examination.explained is not None and OF_MEASURED not in examination.note


def _says(examination: Examination, case: str, change: float) -> str:
    own, source = change_of(examination), examination.source
    if source in (
        *OF_MEMORY,
        BRANCHES,
        PLACEMENT,
    ):  # what is allocated, missed or mispredicted explains no time by itself
        return ""
    if own is None or examination.difference_ci is None:
        return f"{source}: {examination.note}" if examination.note else ""
    kind, noun = source.removesuffix("s").split()[-1], _noun(examination.unit)
    moved = f"although {_moved(case, change - 1)}"
    if not _is_clear(examination):
        return f"{noun} by {kind}: no clear difference ({_percent(own)}) {moved}"
    if (own > 0) != (change > 1):
        return f"{noun} by {kind} {_verb(own)} {moved}"
    if (interpreter := (examination.explained or 0.0) - (of_libraries(examination).explained or 0.0)) > 0:
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
