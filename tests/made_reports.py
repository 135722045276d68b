"""Reports of runs that never took place, for what the command makes of a report."""

import dataclasses
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from opduel.harness.run_request import RunRequest
from opduel.records import Build, Comparison, Failure, Report, Verdict
from opduel.records.host_record import HostRecord
from opduel.records.run_record import RunRecord


def comparison(verdict: Verdict, side: str | None = None, number: int = 0, kind: str = "crash") -> Comparison:
    """A comparison with that verdict; ``side`` is the one that failed."""
    failure = None if side is None else Failure(side, kind, "killed by SIGSEGV")  # type: ignore[arg-type]
    ratio = None if failure else 1.25
    return Comparison(
        case=f"exp_{number}/forward",
        operator="nd.exp",
        direction="forward",
        metric="time",
        unit="ns",
        verdict=verdict,
        ratio=ratio,
        ci=None if failure else (1.2, 1.3),
        p_value=None,
        q_value=None,
        threshold=0.02,
        mde=None,
        control=None,
        treatment=None,
        rounds=3,
        decided_on=None,
        failure=failure,
        injected=False,
    )


def build(requested: str) -> Build:
    """A build that was asked for in these words."""
    return Build("mxnet", requested, "release", "/no/python", "1.0", "3.11.0", "00")


def run_ab_giving(*comparisons: Comparison, **run: Any) -> Callable[..., Report]:
    """A stand-in for ``opduel.harness.run.run_ab``: its report has these comparisons, and ``run`` among its keys."""

    def run_ab(request: RunRequest, on_progress: object = None) -> Report:
        ending = {"complete": True, "resumable": False, "aborted": False, "stop_reason": None}
        configuration = request.configuration
        labels = {
            "configuration": dataclasses.asdict(configuration),
            "platform": configuration.platform,
            "run_type": configuration.run_type,
        }
        labels |= {"threshold": configuration.threshold.get("time"), "user_identifier": configuration.user_identifier}
        how = {"id": "made", **ending, **labels, **asdict(request.labels), **run}
        return Report(
            RunRecord.of({**how, "framework": "mxnet"}), request.control, request.treatment, HostRecord(), comparisons
        )

    return run_ab


class Measuring:
    """Stands in for building and measuring: any build is there, and a run gives the report that its test says."""

    def __init__(self) -> None:
        self.resolve: Callable[..., Build] = lambda requested, *_: build(requested)
        self.requests: list[RunRequest] = []
        self.give(comparison("unchanged"))

    def give(self, *comparisons: Comparison, **run: Any) -> None:
        """Give these comparisons from now on; ``run`` as in ``run_ab_giving``."""
        self.measure = run_ab_giving(*comparisons, **run)

    def run_ab(self, request: RunRequest, on_progress: object = None) -> Report:
        self.requests.append(request)
        return self.measure(request)
