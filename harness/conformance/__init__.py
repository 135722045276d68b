"""Does a framework keep what the harness relies on? Checks for any framework, of ours or of another package.

``Subject`` says what is checked: a framework, two builds, and cases that run on both. Each of ``CHECKS`` is one check;
``check(name, subject)`` makes it, in processes of its own, and returns what it found. A package's tests call that, and
the command ``opduel conformance`` calls it for all of them.
"""

from collections.abc import Callable, Mapping

from opduel.harness.conformance.adaptor import check_adaptor, check_environment, check_start
from opduel.harness.conformance.computing import (
    check_cases,
    check_directions,
    check_fork,
    check_inputs,
    check_memory,
    check_outputs,
)
from opduel.harness.conformance.failing import check_faults, check_refusals
from opduel.harness.conformance.subject import Outcome, Subject

# Name -> check, those first that make others pointless when they fail.
CHECKS: Mapping[str, Callable[[Subject, Outcome], None]] = {
    "adaptor": check_adaptor,
    "start": check_start,
    "environment": check_environment,
    "cases": check_cases,
    "refusals": check_refusals,
    "inputs": check_inputs,
    "outputs": check_outputs,
    "memory": check_memory,
    "directions": check_directions,
    "fork": check_fork,
    "faults": check_faults,
}

__all__ = ["CHECKS", "Outcome", "Subject", "check"]


def check(name: str, subject: Subject) -> Outcome:
    """Make one of ``CHECKS``, and return its outcome: a line for each problem.

    Raises:
        KeyError: there is no such check.
        UsageError, RunError: the builds can't be started at all, or the host has no processor for them.
    """
    outcome = Outcome(name)
    CHECKS[name](subject, outcome)
    return outcome
