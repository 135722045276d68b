"""Verification: the flagged cases of a run are measured again, later, in fresh processes."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from comparator import FLAGGED, confirm, fit_priors
from harness.host import HostMonitor
from harness.judging import judged
from harness.recall import Recall
from harness.schedule import Earlier, Findings, Order, Progress, Schedule
from harness.supply import Bench
from records import Comparison

FIRST_SHARE = 0.7  # of a time budget, for the first measurement; the second has what is left of the whole
ENDED = "the run ended before"


def first_order(order: Order, after_s: float = 0.0) -> Order:
    """The order of a first measurement that leaves time for a wait of ``after_s`` and a second one."""
    if order.time_budget is None:
        return order
    words = f"the first measurement's share, {FIRST_SHARE:.0%} of {order.budget}"
    words += f" less a wait of {after_s:g} s," if after_s else ","
    return replace(order, time_budget=FIRST_SHARE * max(0.0, order.time_budget - after_s), budget_words=words)


@dataclass
class Verifier:
    """Measures flagged cases again.

    ``order`` is the whole run's, its time budget included; ``began`` is when that began (``time.monotonic``);
    ``after_s`` is how long to wait before. ``host`` is the noise meanwhile, as in ``HostMonitor.summary``. Of a
    verification that ``recall`` knows, what was kept is taken over, and nobody waits again.
    """

    bench: Bench
    order: Order
    began: float
    after_s: float
    on_progress: Callable[[Progress], None]
    host: dict[str, Any] | None = None
    recall: Recall = field(default_factory=lambda: Recall(None, ""))

    def verify(self, findings: Findings, comparisons: Sequence[Comparison]) -> list[Comparison]:
        """The comparisons, of which only what holds twice stays flagged; what the second measurement found and cost is
        added to ``findings``.

        The screen's samples and the run's priors are taken over: they made the cases suspects. The samples that
        decide are fresh.
        """
        flagged = {one.case for one in comparisons if one.verdict in FLAGGED}
        if not flagged or findings.broken:
            return confirm(comparisons, {}, ENDED)
        try:
            self._begin(findings, len(flagged))
            order = self._second_order(findings, flagged)
            second = self._measure(order)
            again = judged(order, second)
            self._add(findings, second)
        except KeyboardInterrupt as error:
            findings.stop(error)
            return confirm(comparisons, {}, ENDED)
        return confirm(comparisons, {one.case: one for one in again})

    def _begin(self, findings: Findings, cases: int) -> None:
        """Wait, and keep that the first measurement is over, and why."""
        if self.recall.verifying:
            self.began = time.monotonic() - self.recall.verifying.elapsed_s - self.order.spent_s
            return
        self._wait(findings, cases)
        self.recall.begin_verifying(time.monotonic() - self.began, findings.stopped)

    def _wait(self, findings: Findings, cases: int) -> None:
        end = time.monotonic() + self.after_s
        while (left := end - time.monotonic()) > 0:
            self.on_progress(Progress(findings.rounds, cases, cases, time.monotonic() - self.began, left, True))
            time.sleep(min(left, 1.0))

    def _second_order(self, findings: Findings, flagged: set[str]) -> Order:
        order = self.order
        screens = {
            case_id: [sample for sample in findings.samples[case_id] if sample.stage == "screen"] for case_id in flagged
        }
        earlier = Earlier(
            samples=screens,
            priors=fit_priors(order.cases, findings.samples, order.looks),
            injected=order.injected,
            sentinels=tuple(case for case in order.sentinel_cases if case.id in findings.sentinels),
            rounds=findings.rounds,
        )
        budget = order.time_budget
        left = None if budget is None else budget - (time.monotonic() - self.began)
        cases = [case for case in order.cases if case.id in flagged]
        words = "" if budget is None else order.budget
        return replace(order, cases=cases, time_budget=left, earlier=earlier, spent_s=0.0, budget_words=words)

    def _measure(self, order: Order) -> Findings:
        monitor = HostMonitor(allowed=self.bench.cpus.measure | self.bench.cpus.control)
        monitor.begin()
        kept = self.recall.phase("verify", monitor)
        before_s = time.monotonic() - self.began

        def tell(progress: Progress) -> None:
            monitor.sample()
            self.on_progress(replace(progress, elapsed_s=before_s + progress.elapsed_s))

        second = Schedule(self.bench, order, tell, kept).run()
        self.began = time.monotonic() - before_s - second.wall_s
        self.host = kept.noise()
        return second

    def _add(self, findings: Findings, second: Findings) -> None:
        """Add the second measurement's to the run's; the samples that the first verdicts rest on stay as they are."""
        for case_id, samples in second.sentinels.items():
            findings.sentinels.setdefault(case_id, []).extend(samples)
        findings.mhz += second.mhz
        findings.incidents += second.incidents
        findings.rounds = second.rounds
        findings.timed_s += second.timed_s
        for name, seconds in second.spent_s.items():
            findings.spent_s[name] = findings.spent_s.get(name, 0.0) + seconds
        findings.wall_s = time.monotonic() - self.began
        if second.broken:
            findings.stopped, findings.broken, findings.interrupted = second.stopped, True, second.interrupted
        elif second.stopped:
            findings.stopped = f"{second.stopped} while verifying"
        else:
            findings.closed = True
