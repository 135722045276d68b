"""Operators that the command line names and no build has: misspelt ones, found before anything is timed."""

import argparse
from collections.abc import Sequence
from difflib import get_close_matches

from frameworks import Framework
from frameworks.base import SPECIFICATIONS
from harness.specs import list_specs, read_plain
from harness.trial import try_cases
from records import Build, Case, UsageError


def refuse_unknown_operators(
    options: argparse.Namespace, cases: Sequence[Case], framework: Framework, builds: Sequence[Build]
) -> None:
    """See that each operator that ``--operators`` names for ``--inputs`` is one of at least one of the builds.

    Only those that no spec of ours has are looked for in the builds: that takes as long as importing the framework.

    Raises:
        UsageError: one is in none; RunError: a build can't be started.
    """
    if not options.inputs or options.network or not options.operators:
        return
    known = _operators_of_specs(framework)
    named = {case.operator: case for case in cases if case.operator in set(options.operators) - known}
    for build in builds:
        if not named:
            return
        tried = try_cases(build, framework, list(named.values()))
        named = {one.case.operator: one.case for one in tried if one.failure and one.failure.kind == "missing"}
    for operator in named:
        similar = get_close_matches(operator, known, 3)
        advice = f"similar: {', '.join(similar)}" if similar else "see run_bench.py --list"
        raise UsageError(f"--operators {operator}: no build that is measured has such an operator: {advice}")


def _operators_of_specs(framework: Framework) -> set[str]:
    """Every operator of the specs that come with opduel."""
    documents = [read_plain(SPECIFICATIONS / name) for name in list_specs()]
    return {
        str(test["operator"])
        for document in documents
        if document.get("framework") == framework.name
        for test in document.get("tests") or ()
        if "operator" in test
    }
