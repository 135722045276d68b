"""What rounds measured, lost and spent, added to the result of the measurement."""

from collections import defaultdict
from dataclasses import replace

from opduel.harness.measurement_plan import MeasurementResult
from opduel.harness.planning.aa_selection import AASchedule
from opduel.harness.processes.worker_errors import merged_failure
from opduel.harness.rounds.pair import Round, RoundResult
from opduel.records import Failure, Incident, RunError

LOST_FOR_GOOD = 2  # rounds that a case may be lost in before it has failed: a single loss may have had another cause
FAILED_STARTS = 3  # in a row


class Collector:
    """Adds rounds to ``result``; an A/A check that can't be measured any more is dropped from ``aa_schedule``."""

    def __init__(self, result: MeasurementResult, aa_schedule: AASchedule) -> None:
        self._result = result
        self._aa_schedule = aa_schedule
        self._case_failures: defaultdict[str, list[Failure]] = defaultdict(list)  # of rounds without its sample
        self._failed_starts = 0

    def absorb(self, round_result: RoundResult, this_round: Round) -> None:
        """Add what a round measured, and which cases and processes it lost. Raises RunError: no worker could be started
        for ``FAILED_STARTS`` rounds in a row."""
        result, number, lost_worker = self._result, this_round.number, round_result.lost_worker
        result.rounds = number + 1
        result.timed_s += round_result.timed_s
        result.add_spent(round_result.spent_s)
        for case_id, failure in round_result.refused.items():
            again = bool(result.samples[case_id])  # the framework has run it in an earlier round
            self._absorb_failure(case_id, failure, number, again)
        for sample in round_result.samples:
            result.samples[sample.case_id].append(sample)
        for case_id, failure in round_result.lost.items():  # what is too slow for both sides is so another time
            again = bool(result.samples[case_id]) or (failure.kind, failure.side) != ("timeout", "both")
            self._absorb_failure(case_id, failure, number, again)
        failures = [*round_result.lost.values(), *self._absorb_aa_checks(round_result.aa_result, number)]
        result.mhz += round_result.mhz
        result.nice = result.nice if round_result.nice is None else round_result.nice
        if lost_worker and lost_worker not in failures:
            result.incidents.append(Incident(number, None, lost_worker, "a fresh pair was started"))
        started = lost_worker is None or len(round_result.unmeasured) < len(this_round.requests)
        self._failed_starts = 0 if started else self._failed_starts + 1
        if lost_worker and self._failed_starts >= FAILED_STARTS:
            side = "either" if lost_worker.side == "both" else f"the {lost_worker.side}"
            reason = f"could not be started {FAILED_STARTS} times in a row: {lost_worker.reason}"
            raise RunError(f"{side} worker {reason}")

    def _absorb_failure(self, case_id: str, failure: Failure, number: int, again: bool = True) -> None:
        """Give up a case that fails the second time, or is not to be tried ``again``; it has failed on "both" sides
        unless always on one."""
        result, case_failures = self._result, self._case_failures[case_id]
        case_failures.append(failure)
        consequence = "the round's sample is missing; the case goes on in the next round"
        if not again or len(case_failures) >= LOST_FOR_GOOD:
            merged = merged_failure(case_failures)
            result.failures[case_id] = merged if again else replace(failure, side=merged.side)
            consequence = "the case has failed"
        if again:
            result.incidents.append(Incident(number, case_id, failure, consequence))

    def _absorb_aa_checks(self, round_result: RoundResult | None, number: int) -> list[Failure]:
        """Add the A/A checks' samples; drop a check that can't be measured, and report it if it cost a process."""
        if round_result is None:
            return []
        for sample in round_result.samples:
            self._result.aa_samples.setdefault(sample.case_id, []).append(sample)
        for case_id in (*round_result.refused, *round_result.lost):
            self._aa_schedule.drop(case_id)
        for case_id, failure in round_result.lost.items():
            consequence = "it was being measured as an A/A check, which it no longer is"
            self._result.incidents.append(Incident(number, case_id, failure, consequence))
        return list(round_result.lost.values())
