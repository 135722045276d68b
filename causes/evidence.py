"""Asks every collector about changed cases, and divides what it saw among the parts of a call: the examinations."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from opduel.causes.attribution.call_division import changed_functions, divide_by_call
from opduel.causes.attribution.flame import flame_of_stacks, same_functions
from opduel.causes.attribution.moved_functions import rename_moved_functions
from opduel.causes.attribution.shares import examine
from opduel.causes.collectors import libraries, operators, primitives, python_functions, resources, sampled_functions
from opduel.causes.collectors.allocations import ALLOCATIONS, MAPPED, observe_allocations
from opduel.causes.collectors.native_functions import observe_native
from opduel.causes.collectors.process_pairs import Answers, UnansweredError, ask_in_pairs
from opduel.causes.collectors.valgrind_pairs import Observed
from opduel.causes.wording.resources import concerns_memory
from opduel.harness.profiles import Profiling
from opduel.harness.run_request import RunRequest
from opduel.records import Build, Case, Comparison, Examination
from opduel.records.cause import Observation, Source
from opduel.records.measurement import Side
from opduel.support.text import one_line

LONGEST_S = 300.0  # for all cases; ten take less than 180 s on two cores
BRANCHES = "conditional branches and indirect jumps, by valgrind's model of a processor"


@dataclass(frozen=True)
class Evidence:
    """What was seen of one case. ``compilers``: see ``libraries.other_compilers``."""

    examinations: list[Examination]
    compilers: Mapping[str, str]


def collect_evidence(
    changes: Mapping[str, Comparison],
    cases: Mapping[str, Case],
    request: RunRequest,
    profiling: Profiling,
) -> dict[str, Evidence]:
    """Return the evidence of each change (by case id); ``cases`` are all cases of the run by id.

    It takes ``LONGEST_S``, and nothing is begun after the deadline of ``profiling``. What takes longest comes last, and
    memory is looked at only where instructions don't explain the change.
    """
    profiling = replace(profiling, deadline=min(profiling.deadline, time.monotonic() + LONGEST_S))
    changed_cases, builds = [cases[case_id] for case_id in changes], profiling.bench.builds
    questions = [module.QUESTION for module in (python_functions, resources, sampled_functions, libraries)]
    answers = ask_in_pairs(profiling, changed_cases, questions)
    evidence = {
        case_id: _examine_answers(answers[case_id], comparison, builds) for case_id, comparison in changes.items()
    }
    if profiling.framework.profiling.log_variables:
        for case_id, logged in primitives.ask_for_primitives(profiling, changed_cases).items():
            note = "; ".join(filter(None, (primitives.NOTE, primitives.describe_releases(logged))))
            evidence[case_id].examinations.append(
                _examine("primitives", logged, primitives.primitive_observations, note)
            )
    folder = callgrind_folder(request)
    native = observe_native(profiling, changed_cases, env=request.env, folder=folder, among=request.cases)
    for case_id, observed in native.items():
        evidence[case_id].examinations.extend(_examine_native(observed))
    if operators.has_profiler(profiling.framework):
        for case_id, profiled in operators.ask_for_operators(profiling, changed_cases).items():
            evidence[case_id].examinations.extend(_examine_operators(profiled))
    of_memory = [
        case for case in changed_cases if concerns_memory(evidence[case.id].examinations, changes[case.id].ratio or 1.0)
    ]
    if of_memory:
        misses = observe_native(profiling, of_memory, env=request.env, misses=True)
        for case_id, observed in misses.items():
            examination = examine("simulated cache misses", "count", observed.observations, observed.note)
            evidence[case_id].examinations.append(examination)
        for kind in (MAPPED, ALLOCATIONS):
            allocated = observe_allocations(profiling, of_memory, kind, env=request.env)
            for case_id, (numbers, sizes) in allocated.items():
                if kind == ALLOCATIONS and numbers.observations:
                    evidence[case_id].examinations.append(examine(kind, "count", numbers.observations, numbers.note))
                evidence[case_id].examinations.append(examine(kind, "bytes", sizes.observations, sizes.note))
    return evidence


def callgrind_folder(request: RunRequest) -> Path | None:
    """Return the folder in which callgrind's files are kept; None: nowhere."""
    profile_output = request.configuration.profile_output
    return request.callgrind if profile_output is None else Path(profile_output)


def _examine_answers(answers: Answers, comparison: Comparison, builds: Mapping[Side, Build]) -> Evidence:
    examinations = [
        _examine_python(answers, comparison),
        _examine("sampled functions", answers, sampled_functions.sample_observations, sampled_functions.NOTE),
        *_examine_resources(answers),
    ]
    if differences := libraries.describe_differences(answers, builds):
        examinations.append(Examination("libraries", "", 1, note=one_line(differences)))
    return Evidence(examinations, libraries.other_compilers(answers, builds))


def _examine_python(answers: Answers, comparison: Comparison) -> Examination:
    try:
        functions = rename_moved_functions(python_functions.function_observations(answers))
    except UnansweredError as error:
        return Examination("Python functions", "ns", 0, note=str(error))
    note = python_functions.function_note(answers)
    examination = examine("Python functions", "ns", divide_by_call(functions), note, _measured_change(comparison))
    flame = flame_of_stacks(python_functions.function_stacks(answers), same_functions(functions))
    return replace(examination, flame=flame, changed=changed_functions(functions))


def _measured_change(comparison: Comparison) -> tuple[float, float, float] | None:
    """Return what a call's time changed by as measured, in ns, between the limits of its interval; None for another
    metric."""
    if comparison.unit != "ns" or comparison.control is None or comparison.ratio is None or comparison.ci is None:
        return None
    low, high = (comparison.control * (limit - 1) for limit in comparison.ci)
    return low, comparison.control * (comparison.ratio - 1), high


def _examine_resources(answers: Answers) -> list[Examination]:
    try:
        observations = resources.resource_observations(answers)
    except UnansweredError as error:
        return [Examination("resources", "count", 0, note=str(error))]
    return [
        examine("resources", resources.unit_of(resource), of_resource, resources.NOTE)
        for resource, of_resource in observations.items()
    ]


def _examine(
    source: Source, answers: Answers, observe: Callable[[Answers], list[Observation]], note: str = ""
) -> Examination:
    try:
        return examine(source, "ns", observe(answers), note)
    except UnansweredError as error:
        return Examination(source, "ns", 0, note=str(error))


def _examine_native(observed: Observed) -> list[Examination]:
    """Return the examinations of native functions, of mispredicted branches, and of code placement."""
    functions = examine("native functions", "instructions", observed.observations, observed.note)
    examinations = [replace(functions, flame=observed.flame)]
    if observed.branches:
        examinations.append(examine("mispredicted branches", "count", observed.branches, BRANCHES))
    if observed.placement:
        examinations.append(Examination("code placement", "", 1, note=observed.placement))
    return examinations


def _examine_operators(answers: Answers) -> list[Examination]:
    kernels = _examine("kernels", answers, partial(operators.operator_observations, kernels=True))
    profiled = _examine("operators", answers, operators.operator_observations, operators.NOTE)
    return [kernels, profiled] if kernels.pairs else [profiled]
