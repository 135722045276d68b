"""Why a case changed, in one sentence: which examination explains its change best, and how far."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from opduel.causes.attribution.shares import find_examination, scaled
from opduel.causes.wording import leads, processor, resources
from opduel.causes.wording.device import by_launches, is_busy, launched_otherwise, without_hidden
from opduel.causes.wording.leads import change_of, leads_of, of_libraries, with_candidates
from opduel.causes.wording.native import OTHER_CODE, by_compiler, in_native_code, is_other_code
from opduel.causes.wording.phrases import NOUNS, claims, described, of_the_change
from opduel.causes.wording.primitives import other_primitives
from opduel.records import Comparison
from opduel.records.cause import ELSEWHERE, OF_MEASURED, Candidate, Cause, Examination, Source
from opduel.support.text import one_line

# If several sources explain the change to the same degree, the one that a person can best act on comes first.
PREFERENCE: tuple[Source, ...] = (
    "Python functions",
    "primitives",
    "kernels",
    "operators",
    "native functions",
    "sampled functions",
    "resources",
    *resources.OF_MEMORY,
)
BESIDE: Source = "sampled functions"  # only named beside Python functions
AS_GOOD = 0.1  # shares of the change that are closer than this explain it to the same degree
COMPARABLE = 0.8  # from this share of the case's change (in logs) on, a source's own change counts as equally large

# The last parts of names of functions (of MXNet, PyTorch and Python) in which a thread waits for others, and of the
# resource.
WAITING = frozenset(
    ("wait_to_read", "wait_to_write", "waitall", "synchronize", "acquire", "wait", "join", "poll", "waiting")
)

USER_CODE = "user code"  # a resource, whose time is what is to be explained

PARTIAL_SOURCES = ("primitives", "kernels", "operators")  # they see only a part of a call
MOST_OF_A_CALL = 1.1  # the most that such a source may see, in units of a call's measured time
# Unit of the case's metric -> units of the sources that can explain its change; the first is its own.
EXPLAINED_BY = {"ns": ("ns", "instructions"), "instructions": ("instructions",), "bytes": ("bytes",)}
UNEXPLAINED_WORK = "not explained by what is executed"
HOW_IT_DIVIDES = "but how that divides among functions is not clear"
METRIC_NOUNS = {"error": "the error"}


@dataclass(frozen=True)
class _Reading:
    """What one examination says about a case's change: ``change`` is its own change (a share), and ``reach`` how much
    of the case's change that is (at most 1, for all of it)."""

    examination: Examination
    change: float
    reach: float

    @property
    def leads(self) -> list[Candidate]:
        """The candidates to name."""
        return leads_of(self.examination)

    @property
    def waits(self) -> bool:
        """Whether the first lead is a function that waits for other threads, whose work is the cause."""
        return self.leads[0].name.rpartition(".")[2] in WAITING

    @property
    def explained(self) -> float:
        """The share of the case's change that its candidates explain, 0 to 1."""
        return self.reach * max(0.0, min(1.0, self.examination.explained or 0.0))


def cause_of(
    comparison: Comparison, examinations: Sequence[Examination], compilers: Mapping[str, str] | None = None
) -> Cause | None:
    """Return why a case changed; None if it did not change, or failed on the treatment (its failure says why).

    ``compilers``: for libraries that another compiler compiled, the file name ("" for the framework's library) -> ``GCC
    14.2.1, before GCC 12.2.1``.  An examination explains the change as far as its own total difference goes in the same
    direction.
    """
    if comparison.finding not in ("regressed", "improved") or not comparison.ratio or comparison.ratio <= 0:
        return None
    change = comparison.ratio if comparison.measure.lower_is_better else 1 / comparison.ratio  # of the cost
    if change == 1:
        return None
    readings = [
        _reading(comparison, examination, change) for examination in without_hidden(_without_other_code(examinations))
    ]
    reading = _best(comparison, [reading for reading in readings if reading is not None])
    if reading:
        sentence = _explain(comparison, reading, examinations, change)
    else:
        sentence = _not_explained(comparison, examinations, change)
    sentence += by_compiler(reading.examination if reading else None, examinations, sentence, compilers or {})
    cause = Cause(one_line(sentence), tuple(examinations))
    if cause.is_explained or not cause.changed_words:
        return cause
    return replace(cause, sentence=one_line(f"{sentence}; {cause.changed_words}"))


def _without_other_code(examinations: Sequence[Examination]) -> list[Examination]:
    """Return the examinations that may explain a change: native code either counted, or sampled if the counts name code
    for other instructions than the processor may run."""
    native, sampled = find_examination(examinations, "native functions"), find_examination(examinations, BESIDE)
    other_code = native is not None and is_other_code(of_libraries(native))
    left_out = "native functions" if other_code and sampled and sampled.explained is not None else BESIDE
    return [examination for examination in examinations if examination.source != left_out]


def _explain(comparison: Comparison, reading: _Reading, examinations: Sequence[Examination], change: float) -> str:
    chosen = reading.examination
    sentence = _explained(comparison, reading, change) + in_native_code(chosen, examinations, change)
    if chosen.source == "native functions" and is_other_code(chosen):
        sentence += OTHER_CODE
    sentence += other_primitives(comparison, chosen, examinations)
    sentence += launched_otherwise(chosen, examinations)
    sentence += processor.by_vectors(examinations) + processor.by_branches(comparison, examinations)
    if processor.SAME_WORK in sentence:
        sentence += processor.by_placement(examinations)
    sentence += resources.in_the_kernel(chosen, examinations)
    if resources.concerns_memory(examinations, change):
        sentence += resources.by_allocations(examinations, change > 1)
        sentence += resources.by_cache_misses(comparison, examinations, change)
    return _with_waiting(sentence, reading, examinations)


def _with_waiting(sentence: str, reading: _Reading, examinations: Sequence[Examination]) -> str:
    """Return the sentence of a reading, with what follows if it names a function that waits. Waiting is an effect: the
    work of other threads explains it, and if no native function was seen, nothing is explained."""
    if not reading.waits:
        return sentence
    if reading.examination.source != "resources":
        sentence += "; it waits for other threads, whose work was not seen"
    native = find_examination(examinations, "native functions")
    if native is None or native.difference_ci is not None:
        same = _same_work(examinations)
        return sentence + (same if processor.SAME_WORK not in sentence else "")
    claim = sentence.removeprefix("partly explained: ")
    return f"not explained: {claim}; native functions: {native.note.partition('; ')[0]}"


def _reading(comparison: Comparison, examination: Examination, change: float) -> _Reading | None:
    """Return what an examination says about a case's change; None if it explains nothing."""
    examination = of_libraries(examination)
    own = change_of(examination)
    if own is None or examination.explained is None or not leads_of(examination):
        return None
    if OF_MEASURED in examination.note:
        return _Reading(examination, change - 1, 1.0) if examination.explained >= leads.LEAST_REACH else None
    if examination.unit not in EXPLAINED_BY.get(_unit(comparison), ("ns", "instructions")):
        return None
    if (own > 0) != (change > 1) or leads_of(examination)[0].name == USER_CODE:
        return None
    if examination.source in PARTIAL_SOURCES:
        return _reading_of_partial_source(comparison, examination, own)
    reading = _Reading(examination, own, min(1.0, math.log(max(1 + own, 1e-9)) / math.log(change)))
    return reading if reading.explained >= leads.LEAST_REACH else None


def _reading_of_partial_source(comparison: Comparison, examination: Examination, own: float) -> _Reading | None:
    """Return what an examination of a part of a call says, with its candidates' shares of the case's own change. Their
    intervals reach from the least to the most that both intervals allow."""
    if _unit(comparison) != examination.unit or comparison.ci is None or comparison.control is None:
        return None
    sides = (examination.control, comparison.control), (examination.treatment, comparison.treatment)
    if any((part or 0.0) > MOST_OF_A_CALL * (call or 0.0) for part, call in sides):
        return None  # much of what the source saw is its own overhead
    if examination.source == "kernels" and not is_busy(comparison, examination):
        return None
    low, high = (comparison.control * (limit - 1) for limit in comparison.ci)
    difference = (examination.treatment or 0.0) - (examination.control or 0.0)
    if low <= 0 <= high or comparison.ratio is None:
        return None
    share = difference / (comparison.control * (comparison.ratio - 1))
    limits = difference / low, difference / high
    candidates = tuple(scaled(candidate, share, limits) for candidate in examination.candidates)
    reading = _Reading(with_candidates(examination, candidates), own, 1.0)
    return reading if reading.leads and reading.explained >= leads.LEAST_REACH else None


def _unit(comparison: Comparison) -> str:
    return comparison.measure.unit if comparison.metric != "error" else "error"


def _best(comparison: Comparison, readings: Sequence[_Reading]) -> _Reading | None:
    """Return the reading that explains most; of several that explain equally much, the one that a person can best act
    on. A reading that names a function that waits comes last."""
    if not readings:
        return None
    readings = [reading for reading in readings if not reading.waits] or readings
    strongest = max(readings, key=lambda reading: reading.explained)
    as_good = [
        reading
        for reading in readings
        if reading.explained >= strongest.explained - AS_GOOD or _overlap(reading, strongest)
    ]
    return min(as_good, key=lambda reading: (_rank(comparison, reading.examination), -reading.explained))


def _overlap(weaker: _Reading, strongest: _Reading) -> bool:
    """Return whether the first candidates' shares overlap, and the weaker reading explains half or more."""
    a, b = weaker.leads[0].ci, strongest.leads[0].ci
    if a is None or b is None or weaker.explained < leads.PARTLY:
        return False
    return a[1] * weaker.reach >= b[0] * strongest.reach and b[1] * strongest.reach >= a[0] * weaker.reach


def _rank(comparison: Comparison, examination: Examination) -> int:
    """Return the place in ``PREFERENCE``; the last for a case's only operator, which only says what the case is."""
    lead = leads_of(examination)[0]
    name = lead.name.rpartition(".")[2].lower()
    alone = (lead.control, lead.treatment) == (examination.control, examination.treatment)
    if examination.source == "operators" and (alone or name == comparison.operator.rpartition(".")[2].lower()):
        return len(PREFERENCE)
    return PREFERENCE.index(examination.source)


def _explained(comparison: Comparison, reading: _Reading, change: float) -> str:
    noun = _noun(reading.examination.unit)
    partly = "partly explained: " if reading.explained < leads.PARTLY else ""
    case = METRIC_NOUNS.get(comparison.metric) or _noun(_unit(comparison))
    grew, case_change = _moved(noun, reading.change), change - 1
    if reading.reach >= COMPARABLE:
        added = of_the_change(noun, case_change > 0)
        other = f"; {grew}, {case} by {_percent(case_change)}" if noun != case else ""
        return partly + (leads.exchanged(reading.examination, added) or claims(reading.leads, added)) + other
    both_ways = leads.exchanged(reading.examination, "of that")
    claim = f"{partly}{grew}" + (f": {both_ways}" if both_ways else f", of which {claims(reading.leads, '')}")
    if noun == case:
        return f"{claim}; as measured, {_moved(case, case_change)}"
    return f"{claim}; the other {_percent(case_change - reading.change)} of the {case} is not explained"


def _same_work(examinations: Sequence[Examination]) -> str:
    """Return that native code executes as much as before, in the same functions, and where it lies; empty otherwise."""
    native = find_examination(examinations, "native functions")
    words = processor.as_much_work(native) if native and resources.has_same_instructions([native]) else ""
    return words and words + processor.by_placement(examinations)


def _not_explained(comparison: Comparison, examinations: Sequence[Examination], change: float) -> str:
    """Return the sentence of a change that no examination explains: resources that changed if nothing else did, or what
    each source says."""
    case = METRIC_NOUNS.get(comparison.metric) or _noun(_unit(comparison))
    resource_words = (resources.changed_resource(comparison, examination, change) for examination in examinations)
    hints = list(filter(None, resource_words))
    if branches := processor.by_branches(comparison, examinations).removeprefix("; "):
        hints.insert(0, branches)
    same = resources.has_same_instructions(examinations)
    memory = ""
    if resources.concerns_memory(examinations, change):
        memory = resources.by_allocations(examinations, change > 1)
        memory += resources.by_cache_misses(comparison, examinations, change)
    if hints and _unit(comparison) == "ns":
        remainder = ", while instructions are the same" if same else f"; its share of the {case} is open"
        return "; ".join(hints) + remainder + memory
    if launches := by_launches(comparison, examinations, change):
        return launches
    visible = [examination for examination in without_hidden(examinations) if examination.source != BESIDE]
    if (work := _same_work(examinations)) and _unit(comparison) == "ns":
        rather = "perhaps where code lies" if ELSEWHERE in work else UNEXPLAINED_WORK
        differ = [
            examination for examination in visible if examination.unit != "instructions" and _is_clear(examination)
        ]
        return f"{rather}: {'; '.join([work.removeprefix('; '), *_sayings(differ, case, change)])}{memory}"
    for examination in visible:
        if (
            _is_clear(examination)
            and (often := leads.called_otherwise(examination))
            and ((change_of(examination) or 0.0) > 0) == (change > 1)
        ):
            grew = _moved(_noun(examination.unit), change_of(examination) or 0.0)
            function = described(often).rstrip(",")
            return f"partly explained: {function}; {grew}, {HOW_IT_DIVIDES}{memory}"
    sentences = _sayings(visible, case, change)
    return "not explained: " + ("; ".join(sentences) if sentences else "nothing could be looked at") + memory


def _is_clear(examination: Examination) -> bool:
    """Return whether an examination's total difference is clear of 0, and its shares are of that."""
    low, high = examination.difference_ci or (0.0, 0.0)
    return (low > 0 or high < 0) and examination.explained is not None and OF_MEASURED not in examination.note


def _sayings(examinations: Sequence[Examination], case: str, change: float) -> list[str]:
    """Return what each examination says; of several that differ in a number alone, what the first does."""
    words = [_says(examination, case, change) for examination in examinations]
    return list({text.partition(" (")[0]: text for text in reversed(words) if text}.values())[::-1]


def _says(examination: Examination, case: str, change: float) -> str:
    """Return why an examination does not explain the change of the ``case`` (such as ``time``)."""
    own, source = change_of(examination), examination.source
    if source in (*resources.OF_MEMORY, processor.BRANCHES, processor.PLACEMENT):
        return ""  # counts of these explain no time by themselves
    if own is None or examination.difference_ci is None:
        return f"{source}: {examination.note}" if examination.note else ""
    kind, noun = source.removesuffix("s").split()[-1], _noun(examination.unit)
    moved = f"although {_moved(case, change - 1)}"
    if not _is_clear(examination):
        return f"{noun} by {kind}: no clear difference ({_percent(own)}) {moved}"
    if (own > 0) != (change > 1):
        return f"{noun} by {kind} {_verb(own)} {moved}"
    if (interpreter := (examination.explained or 0.0) - (of_libraries(examination).explained or 0.0)) > 0:
        interpreter_words = f"{_percent(interpreter)} of that in the Python interpreter itself"
        return f"{noun} by {kind} {_verb(own)}, {interpreter_words}: look at the Python functions"
    return f"{noun} by {kind} {_verb(own)}, with nothing that accounts for it"


def _noun(unit: str) -> str:
    return NOUNS.get(unit, "the value" if unit != "count" else "counts")


def _verb(change: float) -> str:
    return f"{'grew' if change > 0 else 'fell'} by {_percent(change)}"


def _moved(noun: str, change: float) -> str:
    return f"{noun} {_verb(change)}"


def _percent(share: float) -> str:
    return f"{abs(share) * 100:.2g} %" if abs(share) < 0.1 else f"{abs(share) * 100:.0f} %"
