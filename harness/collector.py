"""What rounds measured, lost and spent, added to a run's findings."""

from collections import defaultdict
from dataclasses import replace

from opduel.harness.measurement_plan import MeasurementResult
from opduel.harness.planning.aa_selection import Turns
from opduel.harness.processes.worker_errors import merged_failure
from opduel.harness.rounds.pair import Round, RoundResult
from opduel.records import Failure, Incident, RunError

LOST_FOR_GOOD = 2  # rounds that a case may be lost in before it has failed: a single loss may have had another cause
FAILED_STARTS = 3  # in a row


class Collector:
    """Adds rounds to ``findings``; a case that can't be measured as an A/A case any more is dropped from ``turns``."""

    def __init__(self, findings: MeasurementResult, turns: Turns) -> None:
        self.findings = findings
        self._turns = turns
        # each case, in rounds without its sample
        self._case_failures: defaultdict[str, list[Failure]] = defaultdict(list)
        self._failed_starts = 0

    def absorb(self, result: RoundResult, this_round: Round) -> None:
        """Add what a round measured, and which cases and processes it lost.

        Raises:
            RunError: no worker could be started for ``FAILED_STARTS`` rounds in a row.
        """
        findings = self.findings
        findings.rounds = this_round.number + 1
        findings.timed_s += result.timed_s
        for name, seconds in _spending(result).items():
            findings.spent_s[name] = findings.spent_s.get(name, 0.0) + seconds
        for case_id, failure in result.refused.items():
            again = bool(findings.samples[case_id])  # the framework has run it in an earlier round
            self._absorb_failure(case_id, failure, this_round.number, again)
        for sample in result.samples:
            findings.samples[sample.case_id].append(sample)
        for case_id, failure in result.lost.items():
            self._absorb_failure(case_id, failure, this_round.number)
        incidents = [*result.lost.values(), *self._absorb_aa_samples(result.aa_cases, this_round.number)]
        findings.mhz += result.mhz
        findings.nice = findings.nice if result.nice is None else result.nice
        if result.lost_worker and result.lost_worker not in incidents:
            findings.incidents.append(Incident(this_round.number, None, result.lost_worker, "a fresh pair was started"))
        started = result.lost_worker is None or len(result.unmeasured) < len(this_round.requests)
        self._failed_starts = 0 if started else self._failed_starts + 1
        if result.lost_worker and self._failed_starts >= FAILED_STARTS:
            side = "either" if result.lost_worker.side == "both" else f"the {result.lost_worker.side}"
            reason = f"could not be started {FAILED_STARTS} times in a row: {result.lost_worker.reason}"
            raise RunError(f"{side} worker {reason}")

    def _absorb_failure(self, case_id: str, failure: Failure, number: int, again: bool = True) -> None:
        """The case has failed the second time, or if not ``again`` to be tried: on "both" sides if not always one."""
        findings, case_failures = self.findings, self._case_failures[case_id]
        case_failures.append(failure)
        if not again or len(case_failures) >= LOST_FOR_GOOD:
            findings.failures[case_id] = (
                merged_failure(case_failures) if again else replace(failure, side=merged_failure(case_failures).side)
            )
            consequence = "the case has failed"
        else:
            consequence = "the round's sample is missing; the case goes on in the next round"
        if again:
            findings.incidents.append(Incident(number, case_id, failure, consequence))

    def _absorb_aa_samples(self, result: RoundResult | None, number: int) -> list[Failure]:
        """Keep the A/A checks' samples; one that can't be measured is dropped, and told if it cost a process."""
        if result is None:
            return []
        for sample in result.samples:
            self.findings.aa_cases.setdefault(sample.case_id, []).append(sample)
        for case_id in (*result.refused, *result.lost):
            self._turns.drop(case_id)
        for case_id, failure in result.lost.items():
            consequence = "it was being measured as an A/A check, which it no longer is"
            self.findings.incidents.append(Incident(number, case_id, failure, consequence))
        return list(result.lost.values())


def _spending(result: RoundResult) -> dict[str, float]:
    """Where the round's wall time went, in seconds; the parts sum to the whole."""
    parts = {
        "waiting for a pair": result.start_s,
        "waiting for a case": result.prepare_s,
        "timed calls": result.timed_s,
        "between timed calls": result.block_s - result.timed_s,
    }
    return {**parts, "ending and the rest": result.wall_s - sum(parts.values())}
