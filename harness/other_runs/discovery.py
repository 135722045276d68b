"""Which values the programs of a spec print: each is run once on both builds, and each value becomes a case.

What only one build prints is a case, too, which then fails on the other side.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from opduel.frameworks import Framework, run_environment
from opduel.harness.machine.cpus import plan_cpus
from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.processes.restarting_worker import RestartingWorker
from opduel.records import VALUE, Build, Case, Failure, UsageError
from opduel.records.measurement import SIDES, Side
from opduel.support.digests import cut, with_digest
from opduel.support.text import counted

LONGEST_NAME = 150  # bytes of a value's name in an id
_UNFIT = re.compile(r"[^\w.+=,@:<>\[\]-]+")


def with_values(
    cases: Sequence[Case],
    framework: Framework,
    builds: Mapping[Side, Build],
    threads: int,
    env: Mapping[str, str],
    on_message: Callable[[str], None] = lambda _: None,
) -> list[Case]:
    """Return the cases, with those of the metric ``value`` replaced by one for each value that their programs print. A
    case whose program prints none on any side stays, and fails when it is measured. ``on_message`` hears what is run.
    Raises RunError: a worker can't be started. UsageError: as ``run_environment``, and as ``all_cases``."""
    commands = [case for case in cases if case.metric == VALUE]
    on_message(f"running {counted(len(commands), 'command')} once on each build, to see what it prints")
    printed: dict[str, dict[Side, list[dict[str, Any]] | Failure]] = {case.id: {} for case in commands}
    environment = run_environment(framework, threads, env, list(builds.values()))
    for side in SIDES:
        with RestartingWorker(side, builds[side], framework.adaptor, environment, plan_cpus(threads).measure) as worker:
            for case in commands:
                question = {"op": "values", "case": CaseRequest(case, 0).description(), "seed": 0}
                answer = worker.ask([question], case.timeout_s)
                printed[case.id][side] = answer if isinstance(answer, Failure) else answer[0]["values"]
    return all_cases(
        [(case, cases_of(case, printed[case.id], on_message) if case.id in printed else [case]) for case in cases]
    )


def all_cases(cases_of_commands: Sequence[tuple[Case, Sequence[Case]]]) -> list[Case]:
    """Return the cases of all commands, each given with those that it has become. Raises UsageError: two commands
    have a case of the same id."""
    owners: dict[str, Case] = {}
    for command, cases in cases_of_commands:
        for case in cases:
            if (other := owners.setdefault(case.id, command)) is not command:
                raise UsageError(
                    f"the commands {other.operator!r} and {command.operator!r} of the spec both have a case {case.id}: "
                    'give one of them another "identifier"'
                )
    return [case for _, cases in cases_of_commands for case in cases]


def cases_of(
    case: Case,
    printed: Mapping[Side, list[dict[str, Any]] | Failure],
    on_message: Callable[[str], None] = lambda _: None,
) -> list[Case]:
    """Return a case for each value that either side prints, in the control's order, then the treatment's; ``case``
    itself where there is none."""
    lists = {side: answer for side, answer in printed.items() if not isinstance(answer, Failure)}
    values: dict[str, dict[str, Any]] = {}
    for side in SIDES:
        for value in lists.get(side, ()):
            values.setdefault(value["name"], value)
    for side, values_of_side in lists.items():
        missing = [name for name in values if name not in {value["name"] for value in values_of_side}]
        if missing and len(lists) == len(SIDES):
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            on_message(f"{case.time_id}: the {side} does not print {missing[0]}{more}")
    # whatever the order of values: one that would be called as another has a digest
    parts = {name: cut(_UNFIT.sub("_", name).strip("_") or "value", LONGEST_NAME) for name in values}
    uses = Counter(parts.values())
    return [
        _case(case, value, part if uses[part] == 1 or part == name else with_digest(part, name))
        for (name, value), part in zip(values.items(), parts.values(), strict=True)
    ] or [case]


def _case(case: Case, value: Mapping[str, Any], name: str) -> Case:
    head, slash, tail = case.id.partition("/")
    return replace(
        case,
        id=f"{head}.{name}{slash}{tail}",
        inputs={**case.inputs, "value": value["name"], "unit": value["unit"]},
        unit=value["unit"],
        lower_is_better=value["lower_is_better"],
    )
