"""One round: a fresh process pair measures a list of cases, and every way in which that can go wrong.

While one case is measured, the next is prepared, and the next round's pair is started, on another processor. Cases on a
device, such as a GPU, come one after the other, and share processes: a process takes longer to set up the device than
to measure a case.
"""

import math
import random
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field

from opduel.harness.machine.cpus import current_mhz, this_thread_on
from opduel.harness.planning.effort import PILOT, CaseTime, Repetitions
from opduel.harness.processes.case_request import CaseRequest, shuffled
from opduel.harness.processes.channel import Waiting
from opduel.harness.processes.pair_pool import Pair, PairPool
from opduel.harness.processes.worker_errors import CaseLostError, CaseRefusedError, WorkerLostError, merged_failure
from opduel.harness.rounds.block_plan import Regions, plan_blocks
from opduel.harness.rounds.blocks import BlockTimer
from opduel.harness.rounds.fork_values import ForkValue, pair_sample, summarise
from opduel.harness.rounds.preparation import Preparation
from opduel.records import DEFAULT_METRIC, Failure, PairSample
from opduel.records.measurement import SIDES

# A pilot whose first fork costs as much as a pair's start (a network, a call that takes seconds) has no second one.
FORKED_S = 2.0
MOST_FORKS: int | None = None  # of a case and pair; None: as many as its noise asks for. Most tests set it to 1


@dataclass
class RoundResult:
    """What one process pair brought home.

    ``refused``: the framework raised, cleanly; ``lost``: a process was lost during these cases; ``lost_worker``: the
    pair itself could not start or go on, and ``unmeasured`` are the cases that it then did not get to (or for want of
    time). ``aa_result``: what both control processes measured. ``nice``: the sides' priority, the lower one; ``mhz``:
    of the measuring processors after each case. Times are in seconds: ``start_s`` waiting for the pair, ``start_cpu_s``
    of a processor for its start, ``prepare_s`` waiting for cases to be ready, ``block_s`` in blocks, ``timed_s`` within
    that in timed calls; ``times`` what went into each case, by its id.
    """

    samples: list[PairSample] = field(default_factory=list)
    refused: dict[str, Failure] = field(default_factory=dict)
    lost: dict[str, Failure] = field(default_factory=dict)
    lost_worker: Failure | None = None
    unmeasured: list[CaseRequest] = field(default_factory=list)
    aa_result: "RoundResult | None" = None
    nice: int | None = None
    mhz: list[float] = field(default_factory=list)
    start_s: float = 0.0
    start_cpu_s: float = 0.0
    prepare_s: float = 0.0
    block_s: float = 0.0
    timed_s: float = 0.0
    wall_s: float = 0.0
    times: dict[str, CaseTime] = field(default_factory=dict)

    @property
    def case_ids(self) -> set[str]:
        """The ids of the cases that were measured, refused or lost."""
        return {*(sample.case_id for sample in self.samples), *self.refused, *self.lost}

    @property
    def spent_s(self) -> dict[str, float]:
        """What the round's wall time went into, in seconds; the parts sum to all of it."""
        parts = {
            "waiting for a pair": self.start_s,
            "waiting for a case": self.prepare_s,
            "timed calls": self.timed_s,
            "between timed calls": self.block_s - self.timed_s,
        }
        return {**parts, "ending and the rest": self.wall_s - sum(parts.values())}


@dataclass(frozen=True)
class Round:
    """One process pair to run: its cases, all of one metric, its number in the run, and when to stop.

    With ``fork``, each case is measured in children of either side's process, forked after the import. Without, the
    round may hold one case only. The A/A checks, ``aa_requests``, are measured exactly as the others, at random places
    among them, but on two processes of the control's build: this round's and that of the round before, so that the
    first round measures none; a round of A/A checks alone starts two. ``repetitions``: by case id; a case without is
    measured as a pilot.
    """

    requests: Sequence[CaseRequest]
    number: int
    fork: bool = True
    deadline: float = math.inf  # of the monotonic clock: no further case is begun after it
    aa_requests: Sequence[CaseRequest] = ()
    repetitions: Mapping[str, Repetitions] = field(default_factory=dict)
    most_s: float = math.inf  # no further case is begun when measuring, without the pair's start, has taken so long
    prepare_s: float = math.inf  # a side that takes longer to prepare a case has lost it
    in_order: bool = False  # cases are measured in the order of the requests, not in a random one

    @property
    def metric(self) -> str:
        """What is measured."""
        return self.requests[0].case.metric if self.requests else DEFAULT_METRIC

    @property
    def on_device(self) -> bool:
        """Whether a case of it runs on a GPU or the like."""
        return not all(request.case.on_processor for request in (*self.requests, *self.aa_requests))

    def forks_of(self, case_id: str) -> int:
        """Return how often the pair measures a case, each time in a fork of its own."""
        if not self.fork:
            return 1
        forks = self.repetitions[case_id].forks if case_id in self.repetitions else PILOT.forks
        return forks if MOST_FORKS is None else min(forks, MOST_FORKS)

    def quads_of(self, case_id: str) -> int | None:
        """Return how many quads a fork measures; None for a pilot."""
        return self.repetitions[case_id].quads if case_id in self.repetitions else None


def run_round(pool: PairPool, this_round: Round, rng: random.Random, result: RoundResult) -> None:
    """Measure the round's cases, in random order, in one fresh process pair, and fill ``result`` as it goes.

    Never raises for what a worker does; when it is interrupted, what was measured is in ``result``.
    """
    with closing(_Running(pool, this_round, rng, result)) as running:
        running.run()


@dataclass
class _Share:
    """The ordinary cases of a round, or its A/A checks: who measures them, and the result."""

    pair: Pair
    requests: Sequence[CaseRequest]
    result: RoundResult
    values: dict[str, list[ForkValue]] = field(default_factory=lambda: defaultdict(list))
    spent_s: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def has_failed(self, case_id: str) -> bool:
        return case_id in self.result.refused or case_id in self.result.lost

    def note(self, failures: dict[str, Failure], case_id: str, failure: Failure) -> None:
        """Record a fork's failure, merged with an earlier one of the same case."""
        before = [failures[case_id]] if case_id in failures else []
        failures[case_id] = merged_failure([*before, failure])

    def put_together(self, this_round: Round) -> None:
        """Make samples from the forks that were measured."""
        for request in self.requests:
            case = request.case
            if self.has_failed(case.id):
                continue
            if values := self.values.get(case.id):
                self.result.samples.append(pair_sample(request, this_round.number, values))
            else:
                self.result.unmeasured.append(request)


_Task = tuple[_Share, Preparation]  # one fork of one case


class _Running:
    """A round in progress.

    The processes of a case on a device are left to the next one of its share there, unless they have measured that one:
    each fork of a case is another process. Those of a case that failed are not: an error of a device may stay.
    """

    def __init__(self, pool: PairPool, this_round: Round, rng: random.Random, result: RoundResult) -> None:
        self._pool, self._plan, self._rng, self._result = pool, this_round, rng, result
        self._began = time.monotonic()
        self._last_begin = this_round.deadline  # of a case
        result.aa_result = RoundResult() if this_round.aa_requests else None
        self._start = pool.take(aa=not this_round.requests)
        self._shares = [_Share({}, this_round.requests, result)]
        if result.aa_result:
            self._shares.append(_Share({}, this_round.aa_requests, result.aa_result))
        # By the share's place: whose processes its next case on a device gets.
        self._handed_on: dict[int, Preparation] = {}
        tasks = [
            (share, request)
            for share in self._shares
            for request in share.requests
            for _ in range(this_round.forks_of(request.case.id))
        ]
        self._queue = tasks if this_round.in_order else shuffled(tasks, lambda task: task[1].case, rng)

    def run(self) -> None:
        try:
            pair = self._start.finish()
            self._result.start_s = time.monotonic() - self._began
            self._result.nice = max(worker.nice for worker in pair.values())
            self._result.start_cpu_s = sum(worker.start_cpu_s for worker in pair.values())
            self._shares[0].pair = pair
            if self._plan.aa_requests and self._plan.requests:  # on this round's control and the one before
                previous = self._pool.previous_control
                processes = self._rng.sample([pair["control"], previous], 2) if previous else []
                self._shares[-1].pair = dict(zip(SIDES, processes, strict=False))
            else:
                self._shares[-1].pair = pair
            self._measure_all()
        except WorkerLostError as error:
            if not is_out_of_time(error, self._plan):
                self._result.lost_worker = error.failure

    def close(self) -> None:
        """Collect the samples and end the pair; the control's process stays and becomes the previous control.

        In this order: an interrupt while processes end costs no sample.
        """
        try:
            for share in self._shares:
                share.put_together(self._plan)
            for preparation in self._handed_on.values():
                preparation.end(self._rng)
            if self._plan.fork and self._result.lost_worker is None:
                self._pool.retire(self._start.release("control"))
        finally:
            self._start.close()
            self._result.wall_s = time.monotonic() - self._began

    def _measure_all(self) -> None:
        """Measure on the measuring processors: asking for blocks costs least there, and where others prepare, this
        thread would have to wait for them. Raises WorkerLostError: a worker was lost, and with it the pair."""
        cpus = self._pool.bench.cpus
        self._last_begin = min(self._plan.deadline, time.monotonic() + self._plan.most_s)
        with this_thread_on(cpus.measure):
            present = self._prepare_next()
            while present:
                following = self._prepare_next() if cpus.can_overlap and not self._plan.on_device else None
                self._measure(present, following)
                self._result.mhz += current_mhz(cpus.measure)
                present = following if following else self._prepare_next()

    def _prepare_next(self) -> _Task | None:
        """Begin to prepare the next case; None when none is left, or no time."""
        while self._queue and time.monotonic() < self._last_begin:
            share, request = self._queue.pop(0)
            able = share.pair and not any(worker.closed for worker in share.pair.values())
            enough = self._plan.quads_of(request.case.id) is None and share.spent_s[request.case.id] > FORKED_S
            if able and not enough and not share.has_failed(request.case.id):
                plan, before = self._plan, self._handed_on_to(share, request)
                rest = plan.fork, plan.deadline, self._rng, before, plan.prepare_s
                return share, Preparation(share.pair, request, *rest)
        return None

    def _handed_on_to(self, share: _Share, request: CaseRequest) -> Preparation | None:
        """Return the preparation whose processes a case gets; None if it has to begin its own, and end those."""
        before = self._handed_on.pop(self._shares.index(share), None)
        if before and (request.case.id in before.measured or request.case.context != before.request.case.context):
            before.end(self._rng)
            return None
        return before

    def _measure(self, present: _Task, following: _Task | None) -> None:
        """Measure one fork of a case and note what came of it; meanwhile get on with the following. Raises
        WorkerLostError: a worker was lost, and with it the pair."""
        (share, preparation), began = present, time.monotonic()
        case, is_complete = preparation.request.case, False
        spent = share.result.times.setdefault(case.id, CaseTime())
        known_s = spent.waited_s + spent.quads_s
        try:
            self._measure_fork(present, following)
            is_complete = True
        except CaseRefusedError as error:
            share.note(share.result.refused, case.id, error.failure)
        except (CaseLostError, WorkerLostError) as error:
            if not is_out_of_time(error, self._plan):
                share.note(share.result.lost, case.id, error.failure)
            if isinstance(error, WorkerLostError) and any(worker.closed for worker in self._shares[0].pair.values()):
                raise
        share.spent_s[case.id] += time.monotonic() - began
        spent.beside_s += time.monotonic() - began - (spent.waited_s + spent.quads_s - known_s)
        if is_complete and not case.on_processor:
            self._handed_on[self._shares.index(share)] = preparation
        else:
            preparation.end(self._rng)

    def _measure_fork(self, present: _Task, following: _Task | None) -> None:
        (share, preparation), began = present, time.monotonic()
        bench, round_result, processes = self._pool.bench, self._result, preparation.processes
        case, cpus = preparation.request.case, bench.cpus
        spent, in_turns = share.result.times[case.id], len(cpus.measure) == 1

        def advance() -> list[Waiting]:
            waiting = [following[1].steps.advance() if following else None, self._pool.advance()]
            return [step for step in waiting if step]

        call_ns = preparation.finish(cpus)
        ready = time.monotonic()
        round_result.prepare_s += ready - began
        spent.waited_s += ready - began
        spent.prepared_s += preparation.took_s
        for process in processes.values():  # every timed call runs there, on either side
            process.pin(cpus.measure)
        with ExitStack() as stack:
            for process in processes.values() if not in_turns else ():  # threads of the side that waits stop
                stack.enter_context(process.stopped())
            regions = Regions.of(preparation.answers.values(), bench.wiping.ns if bench.wiping else 0.0)
            prepared_ns = sum(float(answer["took_ns"]) for answer in preparation.answers.values())
            timer = BlockTimer(processes, case, self._rng, self._plan.deadline)
            settled_ns = timer.settle(call_ns, regions)
            plan = plan_blocks(settled_ns, regions, prepared_ns, in_turns, self._plan.quads_of(case.id))
            blocks_began = time.monotonic()
            if in_turns and plan.is_quick:
                stack.enter_context(this_thread_on(cpus.control))  # what it does meanwhile disturbs no block
                blocks = timer.measure_in_turns(plan, advance)
            else:
                blocks = timer.measure_blocks(plan, advance)
        spent.forks += 1
        spent.quads += max(1, len(blocks["control"]) // 2)
        spent.quads_s += time.monotonic() - blocks_began
        for process in processes.values():  # ending is work, too
            process.pin(cpus.prepare)
        share.values[case.id].append(summarise(blocks))
        round_result.block_s += time.monotonic() - ready
        round_result.timed_s += 1e-9 * sum(block.timed_ns for side in SIDES for block in blocks[side])


def is_out_of_time(error: CaseLostError | WorkerLostError, this_round: Round) -> bool:
    """Return whether it was the run's time that was up, and not the case's."""
    return error.failure.kind == "timeout" and time.monotonic() >= this_round.deadline
