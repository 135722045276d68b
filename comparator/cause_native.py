"""What native code the Python function of a sentence runs: said beside it, counted by callgrind or sampled."""

import math
import re
from collections.abc import Mapping, Sequence

from opduel.comparator.cause_leads import LEAST_NAMED, LEAST_REACH, PARTLY, change_of, exchanged, leads_of, of_libraries
from opduel.comparator.cause_matching import INSTRUCTION_SET, SAME_CALLS
from opduel.comparator.cause_processor import SAME_WORK, as_much_work
from opduel.comparator.cause_resources import same_instructions
from opduel.comparator.cause_wording import NOUNS, claims, listed, short_name
from opduel.comparator.causes import is_named
from opduel.records.cause import NO_AVX512, Candidate, Examination, Source
from opduel.records.measurement import SIDES

CALL_ITSELF = "(the call itself)"  # of Python functions: a call that goes straight to native code
OTHER_CODE = "; valgrind has no AVX-512, with which other code may run"
HOW: dict[Source, str] = {"native functions": "in native code", "sampled functions": "in native code, as sampled"}


def in_native_code(chosen: Examination, examinations: Sequence[Examination], whole: float) -> str:
    """``; in native code, f and 1 more gave way to g``: what the Python function of the sentence runs. ``whole`` is the
    case's change, a ratio.

    Counts of instructions come first, and samples of the time where those say nothing, or name functions for other
    instructions that one side alone has, and valgrind lacks AVX-512: the processor itself may run other code.
    """
    if chosen.source != "Python functions":
        return ""
    seen = {one.source: of_libraries(one) for one in examinations if one.source in HOW}
    counted, sampled = (seen.get(source) for source in HOW)
    words = _words(leads_of(chosen)[0], counted, whole)
    other_code = counted is not None and _is_chosen_by_processor(counted, words)
    if words and not other_code:
        return words
    same = "" if words or counted is None or not _as_often(leads_of(chosen)[0]) else _same_work(counted)
    as_sampled = _words(leads_of(chosen)[0], sampled, whole)
    return same + as_sampled if same or as_sampled else words + (OTHER_CODE if other_code else "")


def by_compiler(
    chosen: Examination | None, examinations: Sequence[Examination], sentence: str, compilers: Mapping[str, str]
) -> str:
    """``; compiled by GCC 14.2.1, before GCC 12.2.1``: of the native function that the sentence names, or of the
    framework where native code executes as many instructions as before. It says what differs, and claims no share."""
    if SAME_WORK in sentence:
        return f"; compiled by {compilers['']}" if "" in compilers else ""
    for one in (chosen, *(one for source in HOW for one in examinations if one.source == source)):
        if one is None:
            continue
        leads = leads_of(of_libraries(one)) if one.source in HOW and one.explained is not None else []
        if leads and re.search(rf"(?:^|[ ,]){re.escape(short_name(leads[0].name))}(?=[ ,;:]|$)", sentence):
            said = compilers.get(leads[0].where if ".so" in leads[0].where else "")
            return f"; compiled by {said}" if said else ""
    return ""


def is_other_code(native: Examination) -> bool:
    """Whether what native functions claim is of code for other instructions than the processor may run."""
    leads = leads_of(native)
    return bool(leads) and _is_chosen_by_processor(native, exchanged(native, "") or claims(leads, ""))


def _is_chosen_by_processor(native: Examination, words: str) -> bool:
    if NO_AVX512 not in native.note:
        return False
    alone = (one for one in native.candidates if is_named(one) and not (one.control and one.treatment))
    return any(INSTRUCTION_SET.search(one.name.lower()) and short_name(one.name) in words for one in alone)


def _words(python: Candidate, native: Examination | None, whole: float) -> str:
    """Which native functions gave way to which, where those that only one side has make up a good part of a call: that
    says what differs, and claims no share. Else ``; in native code, f accounts for 98 % of the added instructions``,
    where the Python function runs as often as before."""
    if native is None or not native.control or not native.treatment:
        return ""
    parts = [one for one in native.candidates if is_named(one) and not one.was]
    gone = [one for one in parts if one.treatment == 0 and one.control >= LEAST_NAMED * native.control]
    new = [one for one in parts if one.control == 0 and one.treatment >= LEAST_NAMED * native.treatment]
    how = HOW["native functions" if native.source == "native functions" else "sampled functions"]
    if not gone or not new:
        said = _by_native_functions(python, native, whole)
        return f"; {how}, {said}" if said else ""
    gone, new = (sorted(group, key=lambda one: (-abs(one.difference), one.name)) for group in (gone, new))
    return f"; {how}, {listed(gone)} gave way to {listed(new)}"


def _by_native_functions(python: Candidate, native: Examination, whole: float) -> str:
    """What the native functions claim of a Python function that both sides call equally often: what it runs is
    slower."""
    if not _as_often(python):
        return ""
    change = change_of(native) or 0.0
    if math.log(max(1 + change, 1e-9)) / math.log(whole) < LEAST_REACH:  # also where it is the other way round
        return ""
    leads = leads_of(native)
    if sum(one.share or 0.0 for one in leads) < PARTLY:
        return ""
    noun = NOUNS[native.unit]
    added = f"of the {f'added {noun}' if change > 0 else f'{noun} saved'}"
    return exchanged(native, added) or claims(leads, added)


def _as_often(python: Candidate) -> bool:
    """Whether both sides call a Python function as often, so that what it runs is what differs."""
    often = [calls for calls in python.calls if calls]
    return python.name == CALL_ITSELF or (len(often) == len(SIDES) and math.isclose(*often, rel_tol=SAME_CALLS))


def _same_work(native: Examination) -> str:
    return as_much_work(native) if same_instructions([native]) else ""
