"""How often a case is repeated at each level, quads in a fork and forks in a process pair, by the noise that it shows.

After each round the variances of a case's log ratio are estimated by level, and with them and the costs of each level
the cheapest way to the precision that its threshold asks for (Kalibera and Jones 2013, "Rigorous Benchmarking in
Reasonable Time", ISMM, section 9).  Only variances, costs and thresholds decide, never the estimated change: so the
effort of a round says nothing about the samples that it will bring.  Pure: no clock, seconds in and out.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from opduel.records import Case, Effort, PairSample

# The precision that settles most cases: a standard error of the threshold over so many. A case that has not changed is
# then shown to be within it with a chance of about 90 % (t of the first look, 2.9, and 1.6 for the estimate).
ERRORS_IN_THRESHOLD = 4.5
# Degrees of freedom that the other cases of the run have in a case's variance, by level: its own quads tell soon.
QUAD_FREEDOM, FORK_FREEDOM, PAIR_FREEDOM = 4.0, 6.0, 6.0
LEAST_VARIANCE = 5e-4**2  # of a level: 0.05 %, below which no repetition is chosen by it
STRAY = 6.0  # times the median, a variance counts as that much: one stray process would be all that one sees
SPLIT = 1.2  # times the cost of one fork, two of half its quads may take
MOST_AT_ONCE = 4  # forks in a round that takes longer than all rounds of the case before it
WAITED_S = 0.05  # for a pair, and less tells nothing of how long its start took
TRIMMED = 0.2  # of the cases at either end, for the variances that all share


@dataclass(frozen=True)
class Repetitions:
    """Forks of each process pair, and ABBA quads of blocks in each fork."""

    forks: int
    quads: int


@dataclass
class CaseTime:
    """What a round spent on a case, in seconds, and in how many forks and quads of blocks.

    ``prepared_s``: what preparing both sides took, while others were measured if there was a processor for it;
    ``waited_s``: of that what had to be waited for; ``quads_s`` in quads; ``beside_s`` beside all of these.
    """

    forks: int = 0
    quads: int = 0
    prepared_s: float = 0.0
    waited_s: float = 0.0
    beside_s: float = 0.0
    quads_s: float = 0.0

    @property
    def spent_s(self) -> float:
        """Seconds of the measuring processor."""
        return self.waited_s + self.beside_s + self.quads_s


@dataclass(frozen=True)
class Noise:
    """Variances of a case's log ratio: of one quad, and of what a fork and a pair add to their parts' mean."""

    quad: float
    fork: float
    pair: float

    def of_sample(self, forks: int, quads: float) -> float:
        """The variance of one process pair's log ratio."""
        return self.pair + (self.fork + self.quad / max(0.5, quads)) / max(1, forks)


@dataclass(frozen=True)
class Costs:
    """Seconds of one more quad; of preparing one more fork, which is done while the fork before it is measured if
    ``overlaps``; of that fork beside both; and of one more pair beside its forks."""

    quad_s: float
    prepare_s: float
    beside_s: float
    pair_s: float = 0.0
    overlaps: bool = True

    def between(self, other: "Costs") -> "Costs":
        """Return costs half-way between these and others: a round on a machine that is busy for a while says little."""
        return replace(
            self,
            quad_s=math.sqrt(self.quad_s * other.quad_s),
            prepare_s=math.sqrt(self.prepare_s * other.prepare_s),
            beside_s=math.sqrt(self.beside_s * other.beside_s),
            pair_s=(self.pair_s + other.pair_s) / 2,
        )

    @property
    def fork_s(self) -> float:
        """Seconds of a fork for which its quads' number makes no difference."""
        return self.beside_s if self.overlaps else self.beside_s + self.prepare_s

    @property
    def free_quads(self) -> int:
        """Quads that a fork has time for while the next one is prepared; one at least."""
        return max(1, math.floor(self.prepare_s / self.quad_s)) if self.overlaps else 1

    def of_round(self, repetitions: Repetitions) -> float:
        """Seconds that a round spends on the case."""
        quads_s = repetitions.quads * self.quad_s
        return self.pair_s + repetitions.forks * (
            self.fork_s + (max(self.prepare_s, quads_s) if self.overlaps else quads_s)
        )


@dataclass(frozen=True)
class Goal:
    """What a case still needs.  ``standard_error``: of its mean log ratio; ``information``: the sum of 1 / variance of
    the ``samples`` that it has; ``looks``: at how many samples it is looked at next, and after that."""

    standard_error: float
    information: float
    samples: int
    looks: Sequence[int]


def choose_repetitions(noise: Noise, costs: Costs, goal: Goal) -> Repetitions:
    """Return the cheapest repetitions that reach the goal at one of its looks.

    A case that is as precise as its goal and still open lies near its threshold; it, and one whose pairs alone vary too
    much for every look, gets what costs least for each piece of information.
    """
    needed = 1 / goal.standard_error**2 - goal.information if goal.standard_error > 0 else 0.0
    cheapest, least_s = None, math.inf
    for look in goal.looks if needed > 0 else ():
        rounds = look - goal.samples
        repetitions = fewest_repetitions(noise, costs, rounds / needed)
        seconds = math.inf if repetitions is None else rounds * costs.of_round(repetitions)
        if seconds < least_s:
            cheapest, least_s = repetitions, seconds
    return cheapest or most_informative(noise, costs)


def fewest_repetitions(noise: Noise, costs: Costs, variance: float) -> Repetitions | None:
    """Return the cheapest repetitions with which a sample has this variance at most; None if its pair has more."""
    within = variance - noise.pair
    if within <= 0:
        return None
    quads = quads_of_fork(noise, costs)
    forks = math.ceil((noise.fork + noise.quad / quads) / within)
    if forks <= 1:  # one fork with fewer quads may do
        enough = math.ceil(noise.quad / max(within - noise.fork, LEAST_VARIANCE))
        quads = min(quads, max(costs.free_quads, enough))
    return Repetitions(max(1, forks), quads)


def most_informative(noise: Noise, costs: Costs) -> Repetitions:
    """Return the repetitions of which a second brings the most information."""
    quads = quads_of_fork(noise, costs)
    one_fork_s = costs.of_round(Repetitions(1, quads)) - costs.pair_s
    within = noise.fork + noise.quad / quads
    return Repetitions(max(1, round(math.sqrt(costs.pair_s / one_fork_s * within / noise.pair))), quads)


def in_two_forks(repetitions: Repetitions, costs: Costs) -> Repetitions:
    """Return two forks of half the quads in place of one where that costs little more: a single fork tells nothing of
    what lies between forks."""
    halved = Repetitions(2, math.ceil(repetitions.quads / 2))
    if repetitions.forks > 1 or costs.of_round(halved) > SPLIT * costs.of_round(repetitions):
        return repetitions
    return halved


def quads_of_fork(noise: Noise, costs: Costs) -> int:
    """Return the cost-optimal number of quads in a fork: no fewer than there is time for while the next is prepared."""
    return max(costs.free_quads, round(math.sqrt(costs.fork_s / costs.quad_s * noise.quad / noise.fork)))


def fill(planned: Mapping[str, Repetitions], costs: Mapping[str, Costs], seconds: float) -> dict[str, Repetitions]:
    """Return the repetitions with more forks where a round takes less than ``seconds``, for which it would wait for the
    next process pair in any case."""
    round_s = sum(costs[case_id].of_round(repetitions) for case_id, repetitions in planned.items())
    share = max(1.0, seconds / round_s) if round_s > 0 else 1.0
    return {
        case_id: Repetitions(max(repetitions.forks, math.floor(share * repetitions.forks)), repetitions.quads)
        for case_id, repetitions in planned.items()
    }


@dataclass
class _Observed:
    """A case's variances by level as its own samples have them, each with its degrees of freedom."""

    quad: tuple[float, float]
    fork: tuple[float, float]
    pair: tuple[float, float]


def _observe(samples: Sequence[PairSample]) -> _Observed:
    """Estimate the variances by moments: of each level's means less what the level below adds to them.

    As forks are boiled down, stray ones hardly count: of quads the median fork's variance, of forks the winsorised one.
    """
    of_quads, quads_freedom, forks_excess, forks_freedom = [], 0.0, 0.0, 0.0
    for sample in samples:
        quads = quads_of(sample)
        freedom = max(1.0, quads - 1)  # of a trimmed mean of twice as many differences
        squares = [standard_error**2 for _, standard_error in sample.fork_ratios]
        of_quads += [square * quads / (1 - 2 / (9 * freedom)) ** 3 for square in squares]  # a median's, as a mean's
        quads_freedom += len(squares) * freedom
        if len(squares) > 1:
            between = _winsorised_variance([ratio for ratio, _ in sample.fork_ratios])
            forks_excess += (len(squares) - 1) * (between - statistics.median(squares))
            forks_freedom += len(squares) - 1
    quad = statistics.median(of_quads)
    fork = forks_excess / forks_freedom if forks_freedom else 0.0
    pair, pair_freedom = 0.0, len(samples) - 1.0
    if pair_freedom > 0:
        inner = Noise(quad, max(0.0, fork), 0.0)
        within = statistics.fmean(inner.of_sample(sample.forks, quads_of(sample)) for sample in samples)
        pair = statistics.variance(sample.log_ratio for sample in samples) - within
    return _Observed((quad, quads_freedom), (fork, forks_freedom), (pair, pair_freedom))


def _winsorised_variance(values: Sequence[float]) -> float:
    """The variance that the mean of the middle half has, times the number of values (``blocks.middle_mean``)."""
    ordered, dropped = sorted(values), len(values) // 4
    middle = ordered[dropped : len(ordered) - dropped]
    winsorised = [min(max(value, middle[0]), middle[-1]) for value in ordered]
    squares = statistics.variance(winsorised) * (len(ordered) - 1)
    return squares * len(ordered) / (len(middle) * (len(middle) - 1))


def quads_of(sample: PairSample) -> float:
    """Return the quads of each of the sample's forks; a half where a fork had one block a side."""
    return sample.blocks / max(1, sample.forks) / 2


def noise_by_level(samples: Mapping[str, Sequence[PairSample]]) -> dict[str, Noise]:
    """Estimate each case's variances from its samples, by case id; the fewer it has, the more those of the other cases
    count.  Cases without a fork's standard errors have none."""
    timed = {case_id: [sample for sample in rows if sample.fork_ratios] for case_id, rows in samples.items()}
    observed = {case_id: _observe(rows) for case_id, rows in timed.items() if rows}
    shared = {
        level: _middle([getattr(case, level)[0] for case in observed.values() if getattr(case, level)[1]])
        for level in ("quad", "fork", "pair")
    }
    return {
        case_id: Noise(
            _shrunk(case.quad, shared["quad"], QUAD_FREEDOM),
            _shrunk(case.fork, shared["fork"], FORK_FREEDOM),
            _shrunk(case.pair, shared["pair"], PAIR_FREEDOM),
        )
        for case_id, case in observed.items()
    }


def _shrunk(own: tuple[float, float], shared: float, freedom: float) -> float:
    variance, own_freedom = own
    variance = min(variance, STRAY * max(shared, LEAST_VARIANCE)) if own_freedom < freedom else variance
    return max(LEAST_VARIANCE, (freedom * shared + own_freedom * variance) / (freedom + own_freedom))


def _middle(variances: Sequence[float]) -> float:
    """The mean of all but those at either end; before any is known, that of a usual host (0.5 %)."""
    if not variances:
        return 0.005**2
    cut = int(TRIMMED * len(variances))
    return max(0.0, statistics.fmean(sorted(variances)[cut : len(variances) - cut]))


@dataclass
class EffortPlanner:
    """Learns from rounds what cases cost and how noisy they are, and decides how the next rounds measure them.

    ``costs`` and ``noise`` begin with what earlier runs on the host say of cases, where there are any.
    """

    costs: dict[str, Costs] = field(default_factory=dict)
    noise: dict[str, Noise] = field(default_factory=dict)
    start_s: float = 0.0  # what a pair's start takes while others are measured
    measured_s: float = 0.0  # what the last round spent on its cases
    planned: dict[str, Repetitions] = field(default_factory=dict)
    spent_s: dict[str, float] = field(default_factory=dict)

    def note_round(self, times: Mapping[str, CaseTime], start_s: float, rest_s: float, overlaps: bool) -> None:
        """Take note of what a round spent: ``start_s`` waiting for its pair, ``rest_s`` beside pair and cases.
        ``overlaps``: a case is prepared while another is measured."""
        if start_s > WAITED_S or not self.start_s:
            self.start_s = self.measured_s + start_s  # it goes on while the round before is measured
        self.measured_s = sum(time.spent_s for time in times.values())
        for case_id, time in times.items():
            if time.forks and time.quads:
                latest = Costs(
                    time.quads_s / time.quads,
                    time.prepared_s / time.forks,
                    time.beside_s / time.forks,
                    rest_s / len(times),
                    overlaps,
                )
                self.costs[case_id] = latest.between(self.costs.get(case_id, latest))
            self.spent_s[case_id] = self.spent_s.get(case_id, 0.0) + time.spent_s

    def learn(self, samples: Mapping[str, Sequence[PairSample]]) -> None:
        """Estimate the noise by level from all samples of the run."""
        self.noise |= noise_by_level(samples)

    def plan(
        self, cases: Iterable[Case], samples: Mapping[str, Sequence[PairSample]], looks: Sequence[int]
    ) -> dict[str, Repetitions]:
        """Decide the repetitions of the next round that these cases share; one that nothing is known of has none, and
        is measured as a pilot."""
        known = [case for case in cases if case.id in self.costs and case.id in self.noise]
        chosen = {case.id: self._choose(case, samples.get(case.id, ()), looks) for case in known}
        chosen = fill(chosen, self.costs, self.start_s)
        self.planned |= chosen
        return chosen

    def _choose(self, case: Case, samples: Sequence[PairSample], looks: Sequence[int]) -> Repetitions:
        noise = self.noise[case.id]
        information = sum(1 / noise.of_sample(sample.forks, quads_of(sample)) for sample in samples)
        goal = Goal(
            math.log1p(case.threshold) / ERRORS_IN_THRESHOLD,
            information,
            len(samples),
            [count for count in looks if count > len(samples)],
        )
        chosen = choose_repetitions(noise, self.costs[case.id], goal)
        return in_two_forks(self._doubling(case.id, chosen), self.costs[case.id])

    def _doubling(self, case_id: str, chosen: Repetitions) -> Repetitions:
        """No more forks than double what was spent on the case: what a few samples say of its noise may be far off."""
        costs = self.costs[case_id]
        one_fork_s = costs.of_round(Repetitions(1, chosen.quads)) - costs.pair_s
        most = max(MOST_AT_ONCE, math.floor(self.spent_s[case_id] / one_fork_s))
        return Repetitions(min(chosen.forks, most), chosen.quads)

    def round_s(self, case_id: str) -> float:
        """Seconds that the next round is planned to spend on a case."""
        return self.costs[case_id].of_round(self.planned[case_id])

    def effort(self, case_id: str, samples: Sequence[PairSample]) -> Effort | None:
        """What a report says of how a case was measured; None of one that was measured without blocks."""
        timed = [sample for sample in samples if sample.fork_ratios]
        if not timed or case_id not in self.costs:
            return None
        noise, costs, last = self.noise.get(case_id), self.costs[case_id], timed[-1]
        deviations = [math.sqrt(value) for value in (noise.quad, noise.fork, noise.pair)] if noise else [None] * 3
        seconds = self.spent_s.get(case_id, 0.0)
        return Effort(
            last.forks, max(1, round(quads_of(last))), *deviations, costs.quad_s, costs.fork_s, costs.pair_s, seconds
        )
