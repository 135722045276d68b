"""The procedures that time calls in their own processes: naive, tango, benchstat and the paired t test.

They use opduel's workers, which time a call as the framework's adaptor makes it, and differ from opduel's harness in
the number of processes, their order, and the rule.
"""

import logging
import math
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

from benchmarks.peer_tools import rules
from benchmarks.peer_tools.trial import Answer, Answers, Bench, Trial
from opduel.harness.machine.cpus import this_thread_on
from opduel.harness.processes.channel import complete
from opduel.harness.processes.pair_pool import Pair
from opduel.harness.processes.process import CaseProcess, Worker
from opduel.harness.processes.worker_errors import CaseLostError, CaseRefusedError, WorkerLostError
from opduel.harness.rounds.blocks import Processes
from opduel.records import Case, RunError
from opduel.records.measurement import SIDES, Side

BLOCK_NS = 8_000_000
TANGO_SAMPLE_NS = 10_000_000

log = logging.getLogger(__name__)
Rule = Callable[[Sequence[float], Sequence[float]], Answer]
Samples = dict[Side, list[float]]  # ns a call


class NeedsNoSetUp:
    """A tool whose workers are opduel's."""

    def set_up(self, bench: Bench) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class Naive(NeedsNoSetUp):
    """One process pair, blocks of calls in turn (A B A B), all calls of a side pooled."""

    seconds: float  # of timed calls a case
    threshold: float  # a share, of the strict rule
    name: str = "naive"

    @property
    def settings(self) -> str:
        """Time a case and block size."""
        return f"one process pair, {self.seconds:g} s of 8 ms blocks in turn"

    def measure(self, trial: Trial) -> Mapping[str, Answers]:
        """Apply two rules to the same calls."""

        def sample(processes: Processes, case: Case, call_ns: float) -> Samples:
            calls = max(1, round(BLOCK_NS / call_ns))
            values: Samples = {side: [] for side in SIDES}
            for _ in range(max(1, round(self.seconds * 1e9 / 2 / calls / call_ns))):
                for side in SIDES:
                    values[side] += _block(processes[side], case, calls=calls)
            return values

        samples = _one_pair(trial, sample, random.Random(trial.seed))
        strict = partial(rules.strict, share=self.threshold)
        return {
            "naive: Mann-Whitney on calls, p < 0.05": _decide(trial, samples, rules.naive),
            f"naive, strict: p < 0.01 and beyond {100 * self.threshold:g} %": _decide(trial, samples, strict),
        }


@dataclass(frozen=True)
class Tango(NeedsNoSetUp):
    """Two processes in lock step: samples of some 10 ms in turn, of which each pair gives one difference."""

    seconds: float  # of timed calls a case
    threshold: float  # a share, by which the rule decides, too, where it is smaller than tango's own 1 %
    name: str = "tango"

    @property
    def settings(self) -> str:
        """Time a case and sample size."""
        return f"one process pair, {self.seconds:g} s of 10 ms samples in turn"

    def measure(self, trial: Trial) -> Mapping[str, Answers]:
        """Apply its rule without and with its outlier filter, at its own threshold and at a smaller one of ours."""

        def sample(processes: Processes, case: Case, call_ns: float) -> Samples:
            inner = max(1, round(TANGO_SAMPLE_NS / call_ns))
            values: Samples = {side: [] for side in SIDES}
            for number in range(max(2, round(self.seconds * 1e9 / 2 / inner / call_ns))):
                for side in SIDES if number % 2 else SIDES[::-1]:
                    values[side] += _block(processes[side], case, inner=inner)
            return values

        samples = _one_pair(trial, sample, random.Random(trial.seed))
        answers: dict[str, Answers] = {}
        for share in sorted({rules.TANGO_SHARE, min(self.threshold, rules.TANGO_SHARE)}):
            for option, filter_outliers in (("", False), (" -o", True)):
                rule = partial(rules.tango, share=share, filter_outliers=filter_outliers)
                answers[f"tango{option}: z >= 2.6 and > {100 * share:g} %"] = _decide(trial, samples, rule)
        return answers


@dataclass(frozen=True)
class Benchstat(NeedsNoSetUp):
    """``go test -count``: one process a side, one side after the other, each case so many runs; a run gives a mean."""

    seconds: float  # of timed calls a case
    runs: int = 10
    name: str = "benchstat"

    @property
    def settings(self) -> str:
        """Count and time of the runs, as options of go test."""
        return f"-count={self.runs} -benchtime={self.seconds / 2 / self.runs:.3g}s, control first"

    def measure(self, trial: Trial) -> Mapping[str, Answers]:
        """Apply its rule to one value a run."""
        samples: dict[str, Samples] = {case.id: {side: [] for side in SIDES} for case in trial.bench.cases}
        for side in SIDES:
            with _workers(trial, [side]) as pair:
                for case in trial.bench.cases:
                    with _prepared(trial, pair, case) as (processes, call_ns):
                        if call_ns is None:
                            continue
                        inner = max(1, round(self.seconds * 1e9 / 2 / self.runs / call_ns))
                        blocks = [_block(processes[side], case, inner=inner) for _ in range(self.runs)]
                        samples[case.id][side] = [value for block in blocks for value in block]
        return {f"benchstat on {self.runs} runs of one process": _decide(trial, samples, rules.benchstat)}


@dataclass(frozen=True)
class BenchstatPairs(NeedsNoSetUp):
    """A careful user of benchstat: so many fresh processes a side, in turn; a process gives one mean."""

    seconds: float  # of timed calls a case
    runs: int = 10
    name: str = "benchstat-pairs"

    @property
    def settings(self) -> str:
        """Number of processes and time of each."""
        each = self.seconds / 2 / self.runs
        return f"{self.runs} fresh process pairs, {each:.3g} s a process, the sides in random order"

    def measure(self, trial: Trial) -> Mapping[str, Answers]:
        """Apply its rule to one value a process. The order of the sides, in starting and in timing, is random, so that
        no position belongs to a side."""
        rng = random.Random(f"order {trial.seed}")

        def sample(processes: Processes, case: Case, call_ns: float) -> Samples:
            inner = max(1, round(self.seconds * 1e9 / 2 / self.runs / call_ns))
            return {side: _block(processes[side], case, inner=inner) for side in rng.sample(SIDES, 2)}

        samples: dict[str, Samples] = {case.id: {side: [] for side in SIDES} for case in trial.bench.cases}
        for _ in range(self.runs):
            for case_id, values in _one_pair(trial, sample, rng).items():
                for side in SIDES:
                    samples[case_id][side] += values[side]
        return {f"benchstat on {self.runs} process pairs": _decide(trial, samples, rules.benchstat)}


@dataclass(frozen=True)
class PairedT(NeedsNoSetUp):
    """A statistician's procedure: fresh process pairs, in each as many ABBA quads as there is time for, one log ratio a
    pair, and a paired t test with a minimum change; in the time that opduel took for the session."""

    threshold: float  # a share
    pairs: int = 10
    name: str = "paired-t"

    @property
    def settings(self) -> str:
        """Number of processes and block size."""
        return f"{self.pairs} fresh process pairs, ABBA quads of {BLOCK_NS / 1e6:g} ms blocks, as long as opduel"

    def measure(self, trial: Trial) -> Mapping[str, Answers]:
        """Apply four rules to the same log ratios: with a strict or a looser minimum change, and with Benjamini and
        Hochberg's correction over the cases, as opduel has it, or without.

        Raises:
            RunError: opduel did not measure the session.
        """
        if trial.opduel_seconds is None:
            raise RunError("paired-t takes as long as opduel did: add opduel to --tools")
        rng, start = random.Random(f"quads {trial.seed}"), time.monotonic()
        cases, ratios = trial.bench.cases, {case.id: list[float]() for case in trial.bench.cases}
        for number in range(1, self.pairs + 1):
            deadline = start + number / self.pairs * trial.opduel_seconds

            def sample(processes: Processes, case: Case, call_ns: float, deadline: float = deadline) -> Samples:
                now, cases_to_come = time.monotonic(), len(cases) - cases.index(case)
                return _quads(processes, case, call_ns, now + (deadline - now) / cases_to_come, rng)

            for case_id, values in _one_pair(trial, sample, rng).items():
                logs = {side: statistics.fmean(map(math.log, values[side])) for side in SIDES}
                ratios[case_id].append(logs["treatment"] - logs["control"])
        answers: dict[str, Answers] = {}
        for strict in (True, False):
            for corrected in (True, False):
                test = "interval" if strict else "p < 0.05, estimate"
                rule = f"paired t: {test} beyond {100 * self.threshold:g} %{', FDR 5 %' if corrected else ''}"
                answers[rule] = rules.paired_t(ratios, self.threshold, strict, corrected)
        return answers


def _quads(processes: Processes, case: Case, call_ns: float, deadline: float, rng: random.Random) -> Samples:
    """Return blocks of both sides in quads, of which the last begins before the deadline."""
    inner = max(1, round(BLOCK_NS / call_ns))
    values: Samples = {side: [] for side in SIDES}
    while not values["control"] or time.monotonic() < deadline:
        first, second = rng.sample(SIDES, 2)
        for side in (first, second, second, first):
            values[side] += _block(processes[side], case, discard=1, inner=inner)
    return values


def _decide(trial: Trial, samples: Mapping[str, Samples], rule: Rule) -> dict[str, Answer]:
    answers: dict[str, Answer] = dict.fromkeys((case.id for case in trial.bench.cases), "failed")
    for case_id, values in samples.items():
        if min(len(values[side]) for side in SIDES) >= 2:
            answers[case_id] = rule(values["control"], values["treatment"])
    return answers


def _one_pair(
    trial: Trial, sample: Callable[[Processes, Case, float], Samples], rng: random.Random
) -> dict[str, Samples]:
    """Sample every case once in one process pair, whose sides are started in random order; leave out cases that can't
    be measured.

    Raises:
        RunError: a worker was lost.
    """
    samples: dict[str, Samples] = {}
    with _workers(trial, rng.sample(SIDES, 2)) as pair:
        for case in trial.bench.cases:
            with _prepared(trial, pair, case) as (processes, call_ns):
                if call_ns is not None:
                    samples[case.id] = sample(processes, case, call_ns)
    return samples


@contextmanager
def _workers(trial: Trial, sides: Sequence[Side]) -> Iterator[Pair]:
    """Start the sides' workers, and yield them on the measuring processor.

    Raises:
        RunError: one was lost, at any time.
    """
    bench = trial.bench
    with this_thread_on(bench.cpus.control), ExitStack() as stack:
        try:
            pair = {
                side: stack.enter_context(Worker(side, bench.build, bench.adaptor, bench.environment, bench.cpus.start))
                for side in sides
            }
            for worker in pair.values():
                worker.wait_ready()
                worker.pin(bench.cpus.measure)
            yield pair
        except WorkerLostError as error:
            raise RunError(f"the {error.failure.side} worker was lost: {error.failure.reason}") from None


@contextmanager
def _prepared(trial: Trial, pair: Mapping[Side, Worker], case: Case) -> Iterator[tuple[Processes, float | None]]:
    """Prepare the case in a child of each worker, and end them afterwards. Yield the children and the nanoseconds of a
    call, or None if the framework refuses the case.

    If a child fails, dies or hangs within the context, the context ends, and only this case fails.
    """
    processes: Processes = {}
    call_ns: list[float] = []
    for side, worker in pair.items():
        processes[side] = complete(worker.beginning(fork=True))
        try:
            call_ns.append(processes[side].ask(trial.prepare(case.id, side), case.timeout_s)["call_ns"])
        except (CaseRefusedError, CaseLostError):
            continue
    try:
        yield processes, sum(call_ns) / len(call_ns) if len(call_ns) == len(pair) else None
    except (CaseRefusedError, CaseLostError) as error:
        log.warning("%s, %s: %s", case.id, error.failure.side, error.failure.reason)
    for process in processes.values():
        complete(process.ended())


def _block(process: CaseProcess, case: Case, discard: int = 0, calls: int = 1, inner: int = 1) -> list[float]:
    """Return the nanoseconds a call of ``calls`` timed regions, each of ``inner`` calls."""
    request = {"op": "block", "discard": discard, "calls": calls, "inner": inner}
    return [float(value) for value in process.ask(request, case.timeout_s)["ns"]]
