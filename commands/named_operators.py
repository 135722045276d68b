"""Operators, and names in lines of Python, that the command line or the user's own spec names and no build has:
misspelt ones, found before anything is timed."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from opduel.commands.harness_options import HarnessOptions
from opduel.frameworks import Framework
from opduel.frameworks.base import SPECIFICATIONS
from opduel.frameworks.python.framework import STATEMENT
from opduel.harness.other_runs.smoke_check import LIMIT_S, SmokeCheck, smoke_check
from opduel.harness.specs import list_specs, read_plain
from opduel.records import Build, Case, UsageError
from opduel.records.measurement import MISSING
from opduel.support.command_names import command_name

_IN_SETUP = "in the setup: "  # so begins the reason of what a setup raises (opduel_common/statements.py)
LINE_S = 3.0  # for a line and its setup, until it is taken for one that works


def refuse_failing_lines(
    options: HarnessOptions, cases: Sequence[Case], framework: Framework, builds: Sequence[Build]
) -> None:
    """Check that each line of Python among the cases works in at least one of the builds: that this has its names, and
    that the setup doesn't raise. UsageError: a line works in none; RunError: a build can't be started."""
    case_by_line = {case.inputs["statement"]: case for case in cases if case.operator == STATEMENT}
    for check in _failing_in_all(options, [*case_by_line.values()], framework, builds, LINE_S):
        raise UsageError(_cannot_execute(options, check.case.inputs, str(check.reason)))


def _failing_in_all(
    options: HarnessOptions, cases: Sequence[Case], framework: Framework, builds: Sequence[Build], limit_s: float
) -> list[SmokeCheck]:
    """Return how the cases went that no build can run, as it lacks a name or a setup raises; ``limit_s``: for each."""
    failing: list[SmokeCheck] = []
    for build in builds:
        if not cases:
            return []
        tried = smoke_check(build, framework, cases, limit_s=limit_s, env=options.variables)
        failing = [
            check
            for check in tried
            if check.failure and (check.failure.kind == MISSING or check.failure.reason.startswith(_IN_SETUP))
        ]
        cases = [check.case for check in failing]
    return failing


def _cannot_execute(options: HarnessOptions, inputs: Mapping[str, Any], reason: str) -> str:
    """Say that neither build can execute a line of Python, or its setup."""
    line, setup = inputs["statement"], inputs["setup"]
    if reason.startswith(_IN_SETUP):
        return f"{options.label('setup')} {setup}: neither build can execute it: {reason.removeprefix(_IN_SETUP)}"
    if line.strip().isidentifier():
        why = "is taken as a line of Python, which neither build can execute"
        others = "--suite and --bench choose benchmarks, --base_commit a commit"
        return f"{options.label('statement')} {line}: {why}: {reason}; {others}"
    return f"{options.label('statement')} {line}: neither build can execute it: {reason}"


def refuse_unknown_operators(
    options: HarnessOptions,
    cases: Sequence[Case],
    framework: Framework,
    builds: Sequence[Build],
    spec: Path | None = None,
) -> None:
    """Check that at least one of the builds has each operator that the user names: in ``--operators`` for ``--inputs``,
    or in a ``spec`` that isn't ours.

    Only those that no spec of ours has are looked for in the builds: that takes as long as importing the framework.
    What comes from a file (a saved network) isn't an operator of any build, and a program has none. UsageError: one is
    in none; RunError: a build can't be started.
    """
    if not framework.cases.has_operators:
        return
    for_inputs = set(options.operators or ()) if options.inputs and not options.network else set()
    whole_spec = spec is not None and SPECIFICATIONS not in spec.parents  # ours have what only some releases have
    named: dict[str, Case] = {}
    for case in cases:
        if not case.files and (whole_spec or case.operator in for_inputs):
            named.setdefault(case.operator, case)
    spec_operators = _operators_of_specs(framework.name) if named else frozenset()
    unlisted = [case for name, case in named.items() if name not in spec_operators]
    for check in _failing_in_all(options, unlisted, framework, builds, LIMIT_S):
        case, operator = check.case, check.case.operator
        place = f"--operators {operator}" if operator in for_inputs else f"{spec}: {case.id}: operator {operator}"
        similar = get_close_matches(operator, spec_operators, 2)
        advice = f"similar: {', '.join(similar)}" if similar else f"see {command_name('list')}"
        raise UsageError(f"{place}: none of the builds has this operator: {advice}")


@cache
def _operators_of_specs(framework_name: str) -> frozenset[str]:
    """Return every operator of the framework's specs that come with opduel, which are read once for many runs."""
    documents = [read_plain(SPECIFICATIONS / name) for name in list_specs()]
    return frozenset(
        str(test["operator"])
        for document in documents
        if document.get("framework") == framework_name
        for test in document.get("tests") or ()
        if "operator" in test
    )
