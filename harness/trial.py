"""Every case once, on one build: does it run at all, and how long does a call take, about?"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from frameworks import Framework, worker_environment
from harness.blocks import CaseRequest
from harness.cpus import plan_cpus
from harness.solo import Solo
from records import Build, Case, Failure

LIMIT_S = 10.0  # for one case, inputs and several calls


@dataclass(frozen=True)
class Attempt:
    """How one case went."""

    case: Case
    call_ns: float | None  # the lower quartile of some calls; None if it failed
    failure: Failure | None = None

    @property
    def reason(self) -> str | None:
        """Why it failed."""
        return self.failure.reason if self.failure else None


def try_cases(
    build: Build, framework: Framework, cases: Sequence[Case], *, seed: int = 0, limit_s: float = LIMIT_S
) -> Iterator[Attempt]:
    """Try each case in a process of its own, which may crash, or hang for ``limit_s`` at most; in order, as they come.

    Raises:
        RunError: the build can't be started.
    """
    environment = {**worker_environment(), **framework.environment(1)}
    with Solo("treatment", build, framework.adaptor, environment, plan_cpus(1).start) as solo:
        for case in cases:
            request = CaseRequest(case, seed).message("treatment")
            answer = solo.ask([request], limit_s, fork=framework.can_fork(1, case.context))
            if isinstance(answer, Failure):
                yield Attempt(case, None, answer)
            else:
                yield Attempt(case, answer[0]["call_ns"])
