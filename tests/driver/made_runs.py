"""Reports of runs that nobody measured, and a harness whose answers are given for each revision."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from opduel.comparator import replicate_report
from opduel.driver.revisions import UnbuildableError
from opduel.driver.runs import RunOrder
from opduel.records import (
    Build,
    Commit,
    Comparison,
    Failure,
    Forecast,
    HostRecord,
    OpduelError,
    Report,
    RunRecord,
    Verdict,
)
from opduel.records.measurement import Side
from opduel.records.reach import Reach

NOTHING: dict[str, Any] = dict.fromkeys(("p_value", "q_value", "mde", "control", "treatment", "decided_on"))

BIASED = {"valid": False, "hold": True, "aa_checks": [{"case": "a", "ratio": 1.06, "flagged": True}]}


def a_commit(number: int) -> Commit:
    return Commit(f"{number:012x}{number:028x}", 1_700_000_000 + number, "Ada <ada@toy.example>", f"Change {number}")


def a_build(name: str, commit: Commit | None = None) -> Build:
    return Build("toy", name, "source", "/python", "1.0", "3.11", f"digest of {name}", commit=commit)


def a_comparison(
    case: str, verdict: Verdict, ratio: float | None = 1.0, side: Side | None = None, held_back: Verdict | None = None
) -> Comparison:
    failure = Failure(side, "crash", "died") if side else None
    interval = None if ratio is None else (ratio * 0.99, ratio * 1.01)
    return Comparison(
        case, "toy.op", "forward", "time", "ns", verdict, ratio, interval, threshold=0.05, rounds=5, failure=failure,
        injected=False, held_back=held_back, **NOTHING,
    )  # fmt: skip


def a_report(comparisons: Sequence[Comparison], control: Build, treatment: Build, **run: Any) -> Report:
    run = {"id": "1", "aborted": False, "interrupted": False, "stop_reason": None, **run}
    return Report(RunRecord.of(run), control, treatment, HostRecord(), tuple(comparisons))


@dataclass
class MadeHarness:
    """Measures nothing. ``level``: case -> what it takes at each build, by name; None where it fails.

    ``rounds`` are kept in each run before it ends; ``ends``: what becomes of the next runs, in turn ("interrupted",
    "broken", "held", "biased": its A/A check found a difference, "open": out of time, "short": the same where nothing
    looks changed, "untested": the same before any test, or an exception), all others being complete. A time budget is
    ``budget_s``.
    """

    level: Mapping[str, Mapping[str, float | None]]
    rounds: int = 2
    endings: list[str | BaseException] = field(default_factory=list)
    orders: list[RunOrder] = field(default_factory=list)
    delivered: list[str] = field(default_factory=list)
    started_runs: int = 0  # runs, not counting those that were gone on with
    budget_s: float = 20.0
    forecast: Mapping[str, Any] | None = None  # of each report
    resumed: int = 0  # starts that went on from rounds
    refuse: BaseException | None = None  # when asked to report
    reports: dict[str, Report] = field(default_factory=dict)
    hosts: int = 1  # that measure at the same time
    ahead: list[RunOrder] = field(default_factory=list)  # measured, but not ordered yet

    def measure_ahead(self, order: RunOrder, rank: int, is_given_up: Callable[[], bool]) -> Report | None:
        self.ahead.append(order)
        order.log.keep("ahead")
        cases = self.level if order.cases is None else order.cases
        comparisons = [self._compare(case, order, is_held_back=False) for case in cases]
        return None if is_given_up() else a_report(comparisons, order.control, order.treatment, run_type=order.run_type)

    def measure(self, order: RunOrder) -> Report:
        self.orders.append(order)
        if not order.log.rounds():
            self.started_runs += 1
            order.log.keep(str(self.started_runs))  # the run's id, for whoever resumes it
        else:
            self.resumed += 1
        for number in range(len(order.log.rounds()), self.rounds + 1):
            order.log.keep(f"round {number}")
        end = self.endings.pop(0) if self.endings else ""
        if isinstance(end, BaseException):
            raise end
        cases = self.level if order.cases is None else order.cases
        comparisons = [self._compare(case, order, is_held_back=end == "held") for case in cases]
        if end in ("open", "untested"):
            p_value = 0.2 if end == "open" else None
            comparisons = [
                replace(comparison, verdict="inconclusive", suspected="regressed", p_value=p_value)
                for comparison in comparisons
            ]
        if end == "short":
            comparisons = [
                replace(comparison, verdict="inconclusive", p_value=0.2, forecast=Forecast(0.9, 3, 7.0))
                for comparison in comparisons
            ]
        earlier_s = (order.earlier.configuration.time_budget or 0.0) if order.earlier else 0.0
        flags = {"interrupted": end == "interrupted", "aborted": end in ("broken", "interrupted")}
        stopped = "by a signal" if end and end != "biased" else None
        names = f"{order.control.requested}..{order.treatment.requested}"
        name = f"{order.log.rounds()[0]}-{order.run_type}-{names}"
        return a_report(
            comparisons,
            order.control,
            order.treatment,
            id=name,
            run_type=order.run_type,
            stop_reason=stopped,
            complete=stopped is None,
            rounds=self.rounds * order.budgets,
            validity=BIASED if end == "biased" else {},
            resumable=end in ("interrupted", "short"),
            resumed=[2] * self.resumed,
            forecast=self.forecast,
            configuration={"run_type": order.run_type, "time_budget": earlier_s + self.budget_s},
            **flags,
        )

    def reaches(self, order: RunOrder) -> Sequence[Mapping[str, Reach]] | None:
        return None

    def replicate(self, first: Report, second: Report) -> Report:
        return replicate_report(first, second)

    def dump(self, report: Report) -> str:
        self.reports[report.run.id] = report
        return json.dumps(report.run.id)

    def parse(self, text: str) -> Report:
        return self.reports[json.loads(text)]

    def deliver(self, report: Report) -> None:
        if self.refuse:
            raise self.refuse
        self.delivered.append(report.run.id)

    def _compare(self, case: str, order: RunOrder, is_held_back: bool) -> Comparison:
        control, treatment = (self.level[case][build.requested] for build in (order.control, order.treatment))
        if control is None or treatment is None:
            side: Side = "both" if control == treatment else "control" if control is None else "treatment"  # type: ignore[assignment]
            return a_comparison(case, "failed", None, side)
        change = math.log(treatment / control)
        verdict: Verdict = "unchanged" if abs(change) < 0.05 else "regressed" if change > 0 else "improved"
        if is_held_back:
            return a_comparison(case, "inconclusive", treatment / control, held_back=verdict)
        return a_comparison(case, verdict, treatment / control)


@dataclass
class MadePoint:
    """A point that is built by being asked, unless it can't be: being ``broken``, or because of something ``amiss``."""

    number: int
    broken: bool = False
    amiss: OpduelError | None = None
    cached: bool = False
    build_count: int = 0

    @property
    def name(self) -> str:
        return f"p{self.number}"

    @property
    def commit(self) -> Commit | None:
        return a_commit(self.number)

    def build(self) -> Build:
        self.build_count += 1
        if self.broken:
            raise UnbuildableError(self.name, "does not compile", lasting=True)
        if self.amiss:
            raise self.amiss
        return a_build(self.name, self.commit)

    def is_cached(self) -> bool:
        return self.cached

    def difference(self, build: Build) -> None:
        pass
