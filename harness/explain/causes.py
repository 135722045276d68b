"""The cause of each change, after all measuring: every source looks at both sides in several fresh process pairs.

What goes wrong here costs the cause alone: no verdict depends on it.
"""

import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from opduel.comparator import cause_of, concerns_memory, divide_by_call, examine, rename_moved_functions
from opduel.harness.explain import libraries, operators, primitives, python_functions, resources, samples
from opduel.harness.explain.allocations import ALLOCATIONS, MAPPED, Kind, observe_allocations
from opduel.harness.explain.flame import flame_of_stacks, same_functions
from opduel.harness.explain.native import observe_native
from opduel.harness.explain.process_pairs import Answers, ask_in_pairs
from opduel.harness.explain.valgrind_pairs import Observed
from opduel.harness.measurement_plan import MeasurementResult
from opduel.harness.profiles import Profiling
from opduel.records import FLAGGED, Build, Case, Cause, Comparison, Examination
from opduel.records.measurement import Side
from opduel.records.text import one_line

EXPLAINED = ("time", "instructions")  # metrics
MOST = 20  # cases of a run, the largest changes first
LONGEST_S = 300.0  # for all of them; ten take less than 180 s on two cores
# A time budget keeps time for so many causes, each of which takes as long as so many profiles (ten: less than 180 s).
KEPT = 5
PROFILES = 6
BRANCHES = "conditional branches and indirect jumps, by valgrind's model of a processor"
log = logging.getLogger(__name__)
TOO_MANY = f"its cause was not looked for: the run has {MOST} larger changes"


@dataclass(frozen=True)
class Explaining:
    """Looks for causes by ``profiling``, after whose deadline nothing further is begun.

    ``which``: "confirmed", "all" or "none" of the changed cases. ``replicates``: the run measures again what an earlier
    one had flagged, so that all that it flags is confirmed. ``env``: the user's own variables.
    ``folder``: where callgrind's files are kept, ``<case>/<side>/callgrind.out``; None: nowhere. ``among``: all cases
    of the run, which have profiles there.
    """

    profiling: Profiling
    which: str
    replicates: bool
    env: Mapping[str, str]
    folder: Path | None = None
    among: Sequence[Case] = ()


def to_explain(comparisons: Sequence[Comparison], which: str, replicates: bool) -> list[Comparison]:
    """The comparisons whose cause is looked for, the largest change first: those that stand, and were not injected."""
    if which == "none":
        return []
    changed = [
        one
        for one in comparisons
        if one.verdict in FLAGGED and one.ratio and one.metric in EXPLAINED and not one.injected
    ]
    if which == "confirmed" and not replicates:
        changed = [one for one in changed if one.verification is not None and one.verification.verdict == one.verdict]
    return sorted(changed, key=lambda one: -abs(math.log(one.ratio or 1.0)))


def as_profiles(cases: Sequence[Case], which: str, confirms: bool) -> int:
    """As how many profiles a time budget counts the causes that will be looked for; how many there are is not known
    before the cases are measured. ``confirms``: the run has a second measurement, or is one."""
    if which == "none" or (which == "confirmed" and not confirms):
        return 0
    return PROFILES * min(KEPT, sum(case.metric in EXPLAINED for case in cases))


def add_causes(
    comparisons: Sequence[Comparison], cases: Sequence[Case], findings: MeasurementResult, explaining: Explaining
) -> list[Comparison]:
    """The comparisons in their order, those of ``to_explain`` with a cause, whose sentence is added to the note.

    A run that was aborted gets none; a signal meanwhile is noted in ``findings``.
    """
    changed = to_explain(comparisons, explaining.which, explaining.replicates)
    if findings.aborted or not changed:
        return list(comparisons)
    by_id = {case.id: case for case in cases}
    chosen, left_out = changed[:MOST], {one.case for one in changed[MOST:]}
    try:
        seen, rebuilt = _look([by_id[one.case] for one in chosen], explaining, {one.case: one for one in chosen})
    except KeyboardInterrupt as error:
        findings.stop(error)
        return list(comparisons)
    except Exception as error:  # a fault of ours
        lost = _lost(error)
        return [_with_cause(one, None, lost if one in chosen else "") for one in comparisons]
    words = dict.fromkeys(left_out, TOO_MANY)
    causes: dict[str, Cause | None] = {}
    for one in chosen:
        try:
            causes[one.case] = cause_of(one, seen[one.case], rebuilt[one.case])
        except Exception as error:  # likewise, which costs this case its cause
            words[one.case] = _lost(error)
    return [_with_cause(one, causes.get(one.case), words.get(one.case, "")) for one in comparisons]


def _lost(error: Exception) -> str:
    """Why there is no cause, in one line, for a note and for whoever reports it."""
    log.warning("a cause was lost", exc_info=error if log.isEnabledFor(logging.DEBUG) else None)
    return f"its cause was not found: {type(error).__name__}: {' '.join(str(error).split())}"


def _with_cause(one: Comparison, cause: Cause | None, words: str) -> Comparison:
    said = cause.words if cause else words
    return replace(one, cause=cause, note="; ".join(filter(None, (one.note, said)))) if said else one


def _look(
    cases: Sequence[Case], explaining: Explaining, changed: Mapping[str, Comparison]
) -> tuple[dict[str, list[Examination]], dict[str, dict[str, str]]]:
    """Case id -> what every source saw of it, and -> what compiled its libraries, where that differs."""
    ends = min(explaining.profiling.deadline, time.monotonic() + LONGEST_S)
    profiling = replace(explaining.profiling, deadline=ends)
    questions = [python_functions.QUESTION, resources.QUESTION, samples.QUESTION, libraries.QUESTION]
    answers = ask_in_pairs(profiling, cases, questions)
    builds = profiling.bench.builds
    seen = {
        case.id: _of_answers(answers[case.id], changed[case.id]) + _of_libraries(answers[case.id], builds)
        for case in cases
    }
    rebuilt = {case.id: libraries.rebuilt([answers[case.id]], builds) for case in cases}
    if profiling.framework.logging_environment():
        for case_id, found in primitives.ask_for_primitives(profiling, cases).items():
            seen[case_id].append(_of_primitives(found))
    native = observe_native(
        profiling.bench,
        profiling.framework,
        cases,
        profiling.seed,
        env=explaining.env,
        deadline=ends,
        folder=explaining.folder,
        among=explaining.among,
    )
    for case_id, one in native.items():
        seen[case_id].append(_of_native(one))
        if one.branches:
            seen[case_id].append(examine("mispredicted branches", "count", one.branches, BRANCHES))
        if one.placement:
            seen[case_id].append(Examination("code placement", "", 1, note=one.placement))
    if operators.has_profiler(profiling.framework):
        for case_id, found in operators.ask_for_operators(profiling, cases).items():
            seen[case_id] += _of_operators(found)
    concerned = [case for case in cases if concerns_memory(seen[case.id], changed[case.id].ratio or 1.0)]
    if concerned:
        for case_id, several in _of_memory(profiling, concerned, explaining.env).items():
            seen[case_id] += several
    return seen, rebuilt


def _of_memory(profiling: Profiling, cases: Sequence[Case], env: Mapping[str, str]) -> dict[str, list[Examination]]:
    """Case id -> where its calls would miss a cache, and what they map, and allocate; what takes longest comes last."""
    bench, framework, seed, ends = profiling.bench, profiling.framework, profiling.seed, profiling.deadline
    missed = observe_native(bench, framework, cases, seed, env=env, deadline=ends, misses=True)
    found = {case.id: [_of_misses(missed[case.id])] for case in cases}
    for kind in (MAPPED, ALLOCATIONS):
        seen = observe_allocations(bench, framework, cases, seed, kind, env=env, deadline=ends)
        for case_id, (numbers, sizes) in seen.items():
            found[case_id] += _of_allocations(kind, numbers, sizes)
    return found


def _measured(comparison: Comparison) -> tuple[float, float, float] | None:
    """What a call's time changed by as measured, in ns, between the limits of its interval."""
    if comparison.unit != "ns" or comparison.control is None or comparison.ratio is None or comparison.ci is None:
        return None
    low, high = (comparison.control * (limit - 1) for limit in comparison.ci)
    return low, comparison.control * (comparison.ratio - 1), high


def _of_answers(answers: Answers, comparison: Comparison) -> list[Examination]:
    """What the sources saw of a case that need nothing of the framework; where one saw nothing, its note says why."""
    found = []
    functions = python_functions.function_observations(answers)
    if isinstance(functions, str):
        found.append(Examination("Python functions", "ns", 0, note=functions))
    else:
        functions, note = rename_moved_functions(functions), python_functions.function_note(answers)
        seen = examine("Python functions", "ns", divide_by_call(functions), note, _measured(comparison))
        stacks = python_functions.function_stacks(answers)
        found.append(replace(seen, flame=flame_of_stacks(stacks, same_functions(functions))))
    sampled = samples.sample_observations(answers)
    if isinstance(sampled, str):
        found.append(Examination("sampled functions", "ns", 0, note=sampled))
    else:
        found.append(examine("sampled functions", "ns", sampled, samples.NOTE))
    counted = resources.resource_observations(answers)
    if isinstance(counted, str):
        found.append(Examination("resources", "count", 0, note=counted))
    else:
        found += [examine("resources", resources.unit_of(name), seen, resources.NOTE) for name, seen in counted.items()]
    return found


def _of_libraries(answers: Answers, builds: Mapping[Side, Build]) -> list[Examination]:
    around = libraries.library_differences([answers], builds)
    return [Examination("libraries", "", 1, note=one_line(around))] if around else []


def _of_operators(answers: Answers) -> list[Examination]:
    """Of operators; before them of kernels, where there are any."""
    kernels, seen = (operators.operator_observations(answers, of_kernels) for of_kernels in (True, False))
    found = [] if isinstance(kernels, str) else [examine("kernels", "ns", kernels)]
    if isinstance(seen, str):
        return [*found, Examination("operators", "ns", 0, note=seen)]
    return [*found, examine("operators", "ns", seen, operators.NOTE)]


def _of_primitives(answers: Answers) -> Examination:
    seen = primitives.primitive_observations(answers)
    if isinstance(seen, str):
        return Examination("primitives", "ns", 0, note=seen)
    note = "; ".join(filter(None, (primitives.NOTE, primitives.released(answers))))
    return examine("primitives", "ns", seen, note)


def _of_misses(missed: Observed) -> Examination:
    return examine("simulated cache misses", "count", missed.observations, missed.note)


def _of_allocations(kind: Kind, numbers: Observed, sizes: Observed) -> list[Examination]:
    """By the number of allocations, and by bytes; of memory that the kernel gives by bytes alone."""
    found = [examine(kind, "bytes", sizes.observations, sizes.note)]
    if kind == ALLOCATIONS and numbers.observations:
        found.insert(0, examine(kind, "count", numbers.observations, numbers.note))
    return found


def _of_native(native: Observed) -> Examination:
    return replace(examine("native functions", "instructions", native.observations, native.note), flame=native.flame)
