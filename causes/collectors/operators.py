"""Asks which operators of the framework a call's time goes into on either side, and which kernels of a device: by the
framework's own profiler."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from opduel.causes.collectors.process_pairs import Answers, Question, ask_in_pairs
from opduel.frameworks import Framework, adaptor_names
from opduel.harness.profiles import Profiling, operator_times
from opduel.records import Case, Part
from opduel.records.cause import Observation

QUESTION = Question("profile", work_ns=100_000_000, most=20)
NOTE = "the profiler adds to what each operator takes"
NOTHING = "the framework's profiler saw no operator"


def has_profiler(framework: Framework) -> bool:
    """Return whether the framework's adaptor can profile; else there are no answers to ask for."""
    return QUESTION.op in adaptor_names(framework.adaptor)


def ask_for_operators(profiling: Profiling, cases: Sequence[Case]) -> dict[str, Answers]:
    """Return for each case id the answers to ``QUESTION``, in process pairs of their own, which have the profiler's
    environment; each case in the form in which its operators can be seen."""
    framework, bench = profiling.framework, profiling.bench
    environment = {**bench.environment, **framework.profiling.variables}
    watched = replace(profiling, bench=replace(bench, environment=environment))
    return ask_in_pairs(watched, [framework.profiling.as_profiled(case) for case in cases], [QUESTION])


def operator_observations(answers: Answers, kernels: bool = False) -> list[Observation]:
    """Return an observation for each process pair, in ns a call. The parts of a side add up to the operators' time,
    which is only a part of the call's; or, with ``kernels``, to the kernels' time. Raises UnansweredError."""
    return answers.observations(QUESTION.op, lambda answer: _parts(answer, kernels), NOTHING)


def _parts(answer: Mapping[str, Any], kernels: bool) -> dict[str, Part]:
    calls = answer["calls"][1:] or answer["calls"]  # the first one sets the profiler up, too
    of_device = {name for call in calls for name in call.get("kernels", ())}
    rows = operator_times(calls)
    return {row.name: Part(row.ns, row.count) for row in rows if (row.name in of_device) == kernels}
