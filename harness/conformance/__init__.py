"""Does a framework keep what the harness relies on? Checks for any framework, of ours or of another package.

``Subject`` says what is checked: a framework, two builds, and cases that run on both. Each of ``CHECKS`` is one check;
``check(name, subject)`` makes it, in processes of its own, and returns what it found. A package's tests call that, and
the command ``opduel conformance`` calls it for all of them.
"""

from collections.abc import Callable, Mapping

from opduel.harness.conformance import adaptor, computing, failing
from opduel.harness.conformance.subject import Outcome, Subject

# Name -> check, those first that make others pointless when they fail.
CHECKS: Mapping[str, Callable[[Subject, Outcome], None]] = {
    "adaptor": adaptor.check_adaptor,
    "start": adaptor.check_start,
    "environment": adaptor.check_environment,
    "cases": computing.check_cases,
    "refusals": failing.check_refusals,
    "inputs": computing.check_inputs,
    "outputs": computing.check_outputs,
    "memory": computing.check_memory,
    "directions": computing.check_directions,
    "fork": computing.check_fork,
    "faults": failing.check_faults,
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
