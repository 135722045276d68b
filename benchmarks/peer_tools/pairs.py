"""The procedures that time calls in their own processes: naive, tango, benchstat and the paired t test.

They use opduel's workers, which time a call as the framework's adaptor makes it, and differ from opduel's harness in
the number of processes, their order, and the rule.
"""

import math
import random
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial

from benchmarks.peer_tools import rules
from benchmarks.peer_tools.trial import Answer, Answers, Tool, Trial
from opduel.harness.machine.cpus import this_thread_on
from opduel.harness.processes.case_request import CaseRequest
from opduel.harness.processes.channel import complete
from opduel.harness.processes.pair_pool import Pair
from opduel.harness.processes.process import CaseProcess, Worker
from opduel.harness.processes.worker_errors import CaseLostError, CaseRefusedError, WorkerLostError
from opduel.harness.rounds.blocks import Processes
from opduel.records import Case, RunError
from opduel.records.measurement import SIDES, Side

BLOCK_NS = 8_000_000
TANGO_SAMPLE_NS = 10_000_000

Rule = Callable[[Sequence[float], Sequence[float]], Answer]
Values = dict[Side, list[float]]  # ns a call
Sample = Callable[[Processes, Case, float, random.Random], Values]  # the float: ns of a call, about
Starts = Callable[[random.Random], Iterable[Sequence[Side]]]  # the sides whose processes are started together, in order


def naive(seconds: float, threshold: float) -> Tool:
    """Return the tool of one process pair, blocks of calls in turn (A B A B), all calls of a side pooled: ``seconds``
    of timed calls a case. Two rules decide on the same calls, the strict one with the threshold (a share)."""

    def sample(processes: Processes, case: Case, call_ns: float, rng: random.Random) -> Values:
        calls = _calls(BLOCK_NS, call_ns)
        values: Values = {side: [] for side in SIDES}
        for _ in range(_calls(seconds * 1e9 / 2, calls * call_ns)):
            for side in SIDES:
                values[side] += _block(processes[side], case, calls=calls)
        return values

    rule_by_name: dict[str, Rule] = {
        "naive: Mann-Whitney on calls, p < 0.05": rules.naive,
        f"naive, strict: p < 0.01 and beyond {100 * threshold:g} %": partial(rules.strict, share=threshold),
    }
    return _tool("naive", f"one process pair, {seconds:g} s of 8 ms blocks in turn", _pairs(1), sample, rule_by_name)


def tango(seconds: float, threshold: float) -> Tool:
    """Return the tool of two processes in lock step: samples of some 10 ms in turn, of which each pair gives one
    difference. Its rule decides without and with its outlier filter, at its own 1 % and at a threshold below that."""

    def sample(processes: Processes, case: Case, call_ns: float, rng: random.Random) -> Values:
        inner = _calls(TANGO_SAMPLE_NS, call_ns)
        values: Values = {side: [] for side in SIDES}
        for number in range(max(2, round(seconds * 1e9 / 2 / inner / call_ns))):
            for side in SIDES if number % 2 else SIDES[::-1]:
                values[side] += _block(processes[side], case, inner=inner)
        return values

    rule_by_name: dict[str, Rule] = {
        f"tango{option}: z >= 2.6 and > {100 * share:g} %": partial(
            rules.tango, share=share, filter_outliers=bool(option)
        )
        for share in sorted({rules.TANGO_SHARE, min(threshold, rules.TANGO_SHARE)})
        for option in ("", " -o")
    }
    return _tool("tango", f"one process pair, {seconds:g} s of 10 ms samples in turn", _pairs(1), sample, rule_by_name)


def benchstat(seconds: float, runs: int = 10) -> Tool:
    """Return the tool like ``go test -count``: one process a side, one side after the other, each case so many runs; a
    run gives a mean."""
    run_s, rule_by_name = seconds / 2 / runs, {f"benchstat on {runs} runs of one process": rules.benchstat}
    settings = f"-count={runs} -benchtime={run_s:.3g}s, control first"
    return _tool("benchstat", settings, lambda _: [[side] for side in SIDES], _means(run_s, runs), rule_by_name)


def benchstat_pairs(seconds: float, runs: int = 10) -> Tool:
    """Return the tool of a careful user of benchstat: so many fresh processes a side, in turn; a process gives one
    mean. The order of the sides, in starting and in timing, is random, so that no position belongs to a side."""
    run_s, rule_by_name = seconds / 2 / runs, {f"benchstat on {runs} process pairs": rules.benchstat}
    settings = f"{runs} fresh process pairs, {run_s:.3g} s a process, the sides in random order"
    return _tool("benchstat-pairs", settings, _pairs(runs), _means(run_s, 1), rule_by_name)


def paired_t(threshold: float, pairs: int = 10) -> Tool:
    """Return a statistician's procedure: fresh process pairs, in each as many ABBA quads as there is time for, one log
    ratio a pair, and a paired t test with a minimum change; in the time that opduel took for the session.

    Four rules decide on the same log ratios: with a strict or a looser minimum change, and with Benjamini and
    Hochberg's correction over the cases, as opduel has it, or without.
    """

    def measure(trial: Trial) -> Mapping[str, Answers]:
        if trial.opduel_seconds is None:
            raise RunError("paired-t takes as long as opduel did: add opduel to --tools")
        rng, start, samples = random.Random(f"quads {trial.seed}"), time.monotonic(), Samples(trial)
        end_of_pair = start

        def sample(processes: Processes, case: Case, call_ns: float, rng: random.Random) -> Values:
            now, cases_to_come = time.monotonic(), len(trial.cases) - trial.cases.index(case)
            quads = _quads(processes, case, call_ns, now + (end_of_pair - now) / cases_to_come, rng)
            return {side: [statistics.geometric_mean(blocks)] for side, blocks in quads.items()}

        for number in range(1, pairs + 1):
            end_of_pair = start + number / pairs * trial.opduel_seconds
            samples.add(rng.sample(SIDES, 2), sample, rng)
        ratios = {
            case_id: [math.log(after / before) for before, after in zip(*values.values(), strict=True)]
            for case_id, values in samples.by_case.items()
        }
        answers: dict[str, Answers] = {}
        for strict in (True, False):
            for corrected in (True, False):
                test = "interval" if strict else "p < 0.05, estimate"
                rule = f"paired t: {test} beyond {100 * threshold:g} %{', FDR 5 %' if corrected else ''}"
                answers[rule] = rules.paired_t(ratios, threshold, strict, corrected)
        return answers

    settings = f"{pairs} fresh process pairs, ABBA quads of {BLOCK_NS / 1e6:g} ms blocks, as long as opduel"
    return Tool("paired-t", settings, measure)


def _tool(name: str, settings: str, starts: Starts, sample: Sample, rule_by_name: Mapping[str, Rule]) -> Tool:
    """Return the tool that samples every case after each of the starts, and decides by the rules."""

    def measure(trial: Trial) -> Mapping[str, Answers]:
        rng, samples = random.Random(trial.seed), Samples(trial)
        for sides in starts(rng):
            samples.add(sides, sample, rng)
        return {rule_name: samples.decide(rule) for rule_name, rule in rule_by_name.items()}

    return Tool(name, settings, measure)


def _pairs(count: int) -> Starts:
    """Return what draws the order of the sides of each of so many pairs."""
    return lambda rng: [rng.sample(SIDES, 2) for _ in range(count)]


def _means(run_s: float, runs: int) -> Sample:
    """Return the function that takes so many means of each process, whose calls take ``run_s`` together, one process
    after the other in random order."""

    def sample(processes: Processes, case: Case, call_ns: float, rng: random.Random) -> Values:
        inner = _calls(run_s * 1e9, call_ns)
        sides = rng.sample(list(processes), len(processes))
        return {side: [_block(processes[side], case, inner=inner)[0] for _ in range(runs)] for side in sides}

    return sample


def _quads(processes: Processes, case: Case, call_ns: float, deadline: float, rng: random.Random) -> Values:
    """Return blocks of both sides in quads, of which the last begins before the deadline."""
    inner = _calls(BLOCK_NS, call_ns)
    values: Values = {side: [] for side in SIDES}
    while not values["control"] or time.monotonic() < deadline:
        first, second = rng.sample(SIDES, 2)
        for side in (first, second, second, first):
            values[side] += _block(processes[side], case, discard=1, inner=inner)
    return values


class Samples:
    """What a tool has measured of each case of a trial; nothing of those that can't be measured."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self.by_case: dict[str, Values] = {case.id: {side: [] for side in SIDES} for case in trial.cases}

    def add(self, sides: Sequence[Side], sample: Sample, rng: random.Random) -> None:
        """Start a process of each side, in this order, and sample every case in them.

        Raises:
            RunError: a worker was lost.
        """
        with _workers(self._trial, sides) as workers:
            for case in self._trial.cases:
                with _prepared(self._trial, workers, case) as (processes, call_ns):
                    values = sample(processes, case, call_ns, rng) if call_ns is not None else {}
                    for side in values:
                        self.by_case[case.id][side] += values[side]

    def decide(self, rule: Rule) -> dict[str, Answer]:
        """Return the rule's answers; a case has failed with fewer than two values of a side."""
        return {
            case_id: rule(values["control"], values["treatment"]) if min(map(len, values.values())) >= 2 else "failed"
            for case_id, values in self.by_case.items()
        }


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
                side: stack.enter_context(
                    Worker(side, bench.builds[side], bench.adaptor, bench.environment, bench.cpus.start)
                )
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
    request = CaseRequest(case, trial.seed, trial.share if case.id in trial.injected else 0.0)
    processes: Processes = {}
    call_ns: list[float] = []
    for side, worker in pair.items():
        processes[side] = complete(worker.beginning(fork=True))
        with suppress(CaseRefusedError, CaseLostError):
            call_ns.append(processes[side].ask(request.message(side), case.timeout_s)["call_ns"])
    with suppress(CaseRefusedError, CaseLostError):
        yield processes, sum(call_ns) / len(call_ns) if len(call_ns) == len(pair) else None
    for process in processes.values():
        complete(process.ended())


def _calls(time_ns: float, call_ns: float) -> int:
    return max(1, round(time_ns / call_ns))


def _block(process: CaseProcess, case: Case, discard: int = 0, calls: int = 1, inner: int = 1) -> list[float]:
    """Return the nanoseconds a call of ``calls`` timed regions, each of ``inner`` calls."""
    request = {"op": "block", "discard": discard, "calls": calls, "inner": inner}
    return [float(value) for value in process.ask(request, case.timeout_s)["ns"]]
