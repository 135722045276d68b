"""What a cause's sentence adds on the native code that a Python function runs, counted by callgrind or sampled."""

import math
import re
from collections.abc import Mapping, Sequence

from opduel.causes.attribution.matching import INSTRUCTION_SET, SAME_CALLS
from opduel.causes.attribution.shares import find_examination, is_named
from opduel.causes.function_names import short_name
from opduel.causes.wording.leads import (
    LEAST_NAMED,
    LEAST_REACH,
    PARTLY,
    by_difference,
    change_of,
    exchanged,
    leads_of,
    of_libraries,
)
from opduel.causes.wording.phrases import NOUNS, claims, listed, of_the_change
from opduel.causes.wording.processor import SAME_WORK, as_much_work
from opduel.causes.wording.resources import has_same_instructions
from opduel.records.cause import NO_AVX512, Candidate, Examination, Source
from opduel.records.measurement import SIDES, Side

CALL_ITSELF = "(the call itself)"  # of Python functions: a call that goes straight to native code
OTHER_CODE = "; valgrind has no AVX-512, with which other code may run"
INTRODUCTIONS: dict[Source, str] = {
    "native functions": "in native code",
    "sampled functions": "in native code, as sampled",
}


def in_native_code(chosen: Examination, examinations: Sequence[Examination], case_change: float) -> str:
    """Return ``; in native code, f and 1 more gave way to g``: what the sentence's Python function runs.
    ``case_change``: a ratio. Instruction counts are preferred to samples of the time, unless they say nothing, or name
    functions that the processor itself may not run, since valgrind lacks AVX-512."""
    if chosen.source != "Python functions":
        return ""
    libraries_by_source = {
        examination.source: of_libraries(examination)
        for examination in examinations
        if examination.source in INTRODUCTIONS
    }
    counted, sampled = (libraries_by_source.get(source) for source in INTRODUCTIONS)
    python = leads_of(chosen)[0]
    words = _describe_native_code(python, counted, case_change)
    other_code = counted is not None and _is_chosen_by_processor(counted, words)
    if words and not other_code:
        return words
    same = "" if words or counted is None or not _is_called_equally_often(python) else _same_work(counted)
    sampled_words = _describe_native_code(python, sampled, case_change)
    return same + sampled_words if same or sampled_words else words + (OTHER_CODE if other_code else "")


def by_compiler(
    chosen: Examination | None, examinations: Sequence[Examination], sentence: str, compilers: Mapping[str, str]
) -> str:
    """Return ``; compiled by GCC 14.2.1, before GCC 12.2.1`` for the library of the native function that the sentence
    names, or for the framework if native code executes as many instructions as before. It claims no share."""
    if SAME_WORK in sentence:
        return f"; compiled by {compilers['']}" if "" in compilers else ""
    for examination in (chosen, *(find_examination(examinations, source) for source in INTRODUCTIONS)):
        if examination is None or examination.source not in INTRODUCTIONS or examination.explained is None:
            continue
        leads = leads_of(of_libraries(examination))
        if leads and re.search(rf"(?:^|[ ,]){re.escape(short_name(leads[0].name))}(?=[ ,;:]|$)", sentence):
            compiler = compilers.get(leads[0].where if ".so" in leads[0].where else "")
            return f"; compiled by {compiler}" if compiler else ""
    return ""


def is_other_code(native: Examination) -> bool:
    """Return whether the named native functions are code for other instructions than the processor may run."""
    leads = leads_of(native)
    return bool(leads) and _is_chosen_by_processor(native, exchanged(native, "") or claims(leads, ""))


def _is_chosen_by_processor(native: Examination, words: str) -> bool:
    if NO_AVX512 not in native.note:
        return False
    one_sided = (
        candidate
        for candidate in native.candidates
        if is_named(candidate) and not (candidate.control and candidate.treatment)
    )
    return any(
        INSTRUCTION_SET.search(candidate.name.lower()) and short_name(candidate.name) in words
        for candidate in one_sided
    )


def _describe_native_code(python: Candidate, native: Examination | None, case_change: float) -> str:
    """Return which native functions gave way to which, without a share, if those that only one side has are a good part
    of a call. Otherwise return ``; in native code, f accounts for 98 % of the added instructions``, if the Python
    function runs as often as before."""
    if native is None or not native.control or not native.treatment:
        return ""
    parts = [candidate for candidate in native.candidates if is_named(candidate) and not candidate.was]

    def only_on(side: Side, other_side: Side) -> list[Candidate]:
        least = LEAST_NAMED * getattr(native, side)
        one_sided = [part for part in parts if getattr(part, other_side) == 0 and getattr(part, side) >= least]
        return sorted(one_sided, key=by_difference)

    only_control, only_treatment = only_on("control", "treatment"), only_on("treatment", "control")
    introduction = INTRODUCTIONS["native functions" if native.source == "native functions" else "sampled functions"]
    if not only_control or not only_treatment:
        claim = _by_native_functions(python, native, case_change)
        return f"; {introduction}, {claim}" if claim else ""
    return f"; {introduction}, {listed(only_control)} gave way to {listed(only_treatment)}"


def _by_native_functions(python: Candidate, native: Examination, case_change: float) -> str:
    """Return what the native functions explain of a Python function that both sides call equally often."""
    if not _is_called_equally_often(python):
        return ""
    native_change = change_of(native) or 0.0
    reach = math.log(max(1 + native_change, 1e-9)) / math.log(case_change)  # below 0 if in the other direction
    if reach < LEAST_REACH:
        return ""
    leads = leads_of(native)
    if sum(lead.share or 0.0 for lead in leads) < PARTLY:
        return ""
    added = of_the_change(NOUNS[native.unit], native_change > 0)
    return exchanged(native, added) or claims(leads, added)


def _is_called_equally_often(python: Candidate) -> bool:
    often = [calls for calls in python.calls if calls]
    return python.name == CALL_ITSELF or (len(often) == len(SIDES) and math.isclose(*often, rel_tol=SAME_CALLS))


def _same_work(native: Examination) -> str:
    return as_much_work(native) if has_same_instructions([native]) else ""
