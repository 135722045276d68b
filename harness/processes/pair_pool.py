"""Process pairs, started ahead: while one pair measures, the next imports the framework on another processor."""

import random
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from opduel.frameworks.environment import HASH_SEED, HASH_SEEDS
from opduel.harness.machine.cpus import WIPING_VARIABLE, CpuPlan, Wiping
from opduel.harness.processes.channel import Background, Steps, Waiting
from opduel.harness.processes.process import Worker
from opduel.harness.processes.restarting_worker import RestartingWorker
from opduel.harness.processes.worker_errors import WorkerLostError
from opduel.records import Build
from opduel.records.measurement import SIDES, Side

PADDING_BYTES = 4096  # the environment's size shifts the stack (Mytkowicz et al., ASPLOS 2009)

Pair = dict[Side, Worker]


@dataclass(frozen=True)
class Counting:
    """How instructions are counted: valgrind's path, the functions to count in (none: in whole calls), and the whole
    environment."""

    valgrind: str
    functions: Sequence[str]
    environment: Mapping[str, str]


@dataclass(frozen=True)
class Bench:
    """What stays the same for every process pair of a run."""

    builds: Mapping[Side, Build]
    adaptor: Path
    environment: Mapping[str, str]
    cpus: CpuPlan
    counting: Counting | None = None  # None: no instructions are counted in this run
    wiping: Wiping | None = None  # None: the caches are left alone
    memory_environment: Mapping[str, str] = field(default_factory=dict)  # beyond ``environment``, to measure storage

    def worker(self, side: Side, environment: Mapping[str, str], cpus: frozenset[int]) -> RestartingWorker:
        """Return workers of one side, one at a time, that are no part of a pair."""
        return RestartingWorker(side, self.builds[side], self.adaptor, environment, cpus)


def draw_variables(rng: random.Random) -> dict[Side, dict[str, str]]:
    """Draw, for both sides of a pair in the order in which they start, variables that change what a call takes without
    a change of the code: an environment size for each side, and one seed of Python's hashes for both, by which sets and
    dictionaries are in another order. A variable of the run's environment comes before one of these."""
    hash_seed = str(rng.randrange(HASH_SEEDS))
    return {
        side: {HASH_SEED: hash_seed, "OPDUEL_PADDING": "x" * rng.randrange(PADDING_BYTES)}
        for side in rng.sample(SIDES, 2)
    }


class PairStart:
    """A pair that is being started: sides in random order, with variables of ``draw_variables``.

    In the background one side starts after the other; ``finish`` lets both go on at once, on all processors. Of
    ``aa``, both are of the control's build.
    """

    def __init__(self, bench: Bench, rng: random.Random, aa: bool = False) -> None:
        self._bench = bench
        self._aa = aa
        self._drawn = draw_variables(rng)
        self._pair: Pair = {}
        self.steps = Background(self._starting(), WorkerLostError)

    def finish(self) -> Pair:
        """Wait until the pair is ready, and return it. Raises WorkerLostError: a side didn't start."""
        if not self.steps.over:
            for side in self._drawn:
                self._start(side)
            for worker in self._pair.values():
                worker.pin(self._bench.cpus.start)
        self.steps.finish()
        for worker in self._pair.values():  # what it forks begins where it disturbs nobody
            worker.pin(self._bench.cpus.prepare)
        return self._pair

    def close(self) -> None:
        """End both sides, but for those that were released."""
        for worker in self._pair.values():
            worker.close()

    def release(self, side: Side) -> Worker | None:
        """Return a side that is not to be ended with the pair; None if it has never started."""
        return self._pair.pop(side, None)

    def _starting(self) -> Steps[None]:
        for side in self._drawn:
            self._start(side)
            yield from self._pair[side].readying()

    def _start(self, side: Side) -> None:
        if side in self._pair:
            return
        bench = self._bench
        environment = {**self._drawn[side], **bench.environment}
        if bench.wiping:
            environment[WIPING_VARIABLE] = str(bench.wiping.size)
        build: Side = "control" if self._aa else side
        self._pair[side] = Worker(build, bench.builds[build], bench.adaptor, environment, bench.cpus.prepare)


class PairPool(AbstractContextManager["PairPool"]):
    """Hands out fresh pairs. Use as a context manager: leaving it ends what is being started.

    ``previous_control`` is the control's process of the round before, kept alive for the A/A checks: a second process
    of the same build that costs no import. None in the first round.
    """

    def __init__(self, bench: Bench, rng: random.Random) -> None:
        self.bench = bench
        self._rng = rng
        self._coming: PairStart | None = None
        self.previous_control: Worker | None = None

    def __exit__(self, *_: object) -> None:
        self.retire(None)
        if self._coming:
            self._coming.close()
            self._coming = None

    def take(self, aa: bool = False) -> PairStart:
        """Return the next pair; ``finish`` it before use, ``close`` it after."""
        if aa:
            return PairStart(self.bench, self._rng, aa=True)
        start = self._coming or PairStart(self.bench, self._rng)
        self._coming = None
        return start

    def retire(self, successor: Worker | None) -> None:
        """End the previous control; ``successor`` takes its place."""
        # first: an interrupt leaves no process that nobody knows
        previous_control, self.previous_control = self.previous_control, successor
        if previous_control:
            previous_control.close()

    def advance(self) -> Waiting | None:
        """Get the next pair on its way, or further, without waiting: where that disturbs no measurement. Returns what
        that waits for."""
        if not self.bench.cpus.can_overlap:
            return None
        if self._coming is None:
            self._coming = PairStart(self.bench, self._rng)
        return self._coming.steps.advance()
