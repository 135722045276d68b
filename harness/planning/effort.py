"""How often a case is repeated at each level, quads in a fork and forks in a process pair, by the noise that it shows:
the cheapest rounds to the precision that its threshold asks for (Kalibera and Jones 2013, "Rigorous Benchmarking in
Reasonable Time", ISMM, section 9).  Only variances, costs and thresholds decide, never the estimated change."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

# The precision that settles most cases: a standard error of the threshold over so many. A case that has not changed is
# then shown to be within it with a chance of about 90 % (t of the first look, 2.9, and 1.6 for the estimate).
ERRORS_IN_THRESHOLD = 4.5
LEAST_VARIANCE = 5e-4**2  # of a level: 0.05 %, below which no repetition is chosen by it
SPLIT = 1.2  # times the cost of one fork, two of half its quads may take


@dataclass(frozen=True)
class Repetitions:
    """Forks of each process pair, and ABBA quads of blocks in each fork."""

    forks: int
    quads: int


PILOT = Repetitions(2, 12)  # the fewest forks that tell what lies between them, and quads that
PILOT_S = 0.2  # take no longer than this, about (``block_plan.plan_blocks``)


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
        """Return the variance of one process pair's log ratio."""
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

    def of_pilot(self) -> float:
        """Return the seconds of a round of a case that nothing else is known of."""
        quads = max(1, min(PILOT.quads, math.floor(PILOT_S / self.quad_s)))
        return self.of_round(replace(PILOT, quads=quads))

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
        """Return the seconds that a round spends on the case."""
        quads_s = repetitions.quads * self.quad_s
        return self.pair_s + repetitions.forks * (
            self.fork_s + (max(self.prepare_s, quads_s) if self.overlaps else quads_s)
        )


@dataclass(frozen=True)
class Goal:
    """What a case still needs.  ``standard_error``: of its mean log ratio; ``information``: the sum of 1 / variance of
    the ``samples`` that it has; ``looks``: at how many samples it is looked at next, and after that; ``needs_pairs``:
    whether what it needs is process pairs, for its first look or since later ones have to agree, however precise."""

    standard_error: float
    information: float
    samples: int
    looks: Sequence[int]
    needs_pairs: bool = False


@dataclass(frozen=True)
class RoundsToGoal:
    """So many further rounds, each with these repetitions, and the seconds that they take."""

    rounds: int
    repetitions: Repetitions
    seconds: float


def cheapest_rounds(noise: Noise, costs: Costs, goal: Goal) -> RoundsToGoal | None:
    """Return the cheapest rounds to the goal at one of its looks: none for a case that is as precise as it; None if
    pairs alone vary too much for every look."""
    needed = 1 / goal.standard_error**2 - goal.information if goal.standard_error > 0 else math.inf
    if needed <= 0:
        return RoundsToGoal(0, Repetitions(1, costs.free_quads), 0.0)
    choices = []
    for look in goal.looks:
        rounds = look - goal.samples
        if repetitions := fewest_repetitions(noise, costs, rounds / needed):
            choices.append(RoundsToGoal(rounds, repetitions, rounds * costs.of_round(repetitions)))
    return min(choices, key=lambda choice: choice.seconds, default=None)


def choose_repetitions(noise: Noise, costs: Costs, goal: Goal) -> Repetitions:
    """Return the repetitions of the next of the cheapest rounds to the goal.

    The next rounds of a case that is as precise as its goal, and still open, bring as much information as those so far
    did. If pairs alone vary too much for every look, a round brings the most information a second.
    """
    cheapest = cheapest_rounds(noise, costs, goal)
    if cheapest and not cheapest.rounds and not goal.needs_pairs and goal.looks:
        information = goal.information * goal.looks[0] / goal.samples
        next_goal = replace(goal, standard_error=1 / math.sqrt(information), looks=goal.looks[:1])
        cheapest = cheapest_rounds(noise, costs, next_goal)
    return cheapest.repetitions if cheapest else most_informative(noise, costs)


def fewest_repetitions(noise: Noise, costs: Costs, variance: float) -> Repetitions | None:
    """Return the cheapest repetitions with which a sample has this variance at most; None if its pair has more."""
    within = variance - noise.pair
    if within <= 0:
        return None
    optimal = quads_of_fork(noise, costs)
    most_forks = max(1, math.ceil((noise.fork + noise.quad / optimal) / within))
    choices = [Repetitions(most_forks, optimal)]
    for forks in {most_forks, max(1, most_forks - 1)}:
        quads_variance = forks * within - noise.fork  # that a fork's mean may have
        if quads_variance > 0:
            choices.append(Repetitions(forks, max(costs.free_quads, math.ceil(noise.quad / quads_variance))))
    return min(choices, key=costs.of_round)


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


def share_out(planned: Mapping[str, Repetitions], costs: Mapping[str, Costs], start_s: float) -> dict[str, Repetitions]:
    """Return the repetitions, of a case that would take longer than all others of its round together, and than the
    start of a pair, with fewer forks and quads: it has more rounds instead, and others need not wait for it."""
    seconds = {case_id: costs[case_id].of_round(repetitions) for case_id, repetitions in planned.items()}
    round_s = sum(seconds.values())
    shared = dict(planned)
    for case_id, repetitions in planned.items():
        most_s = max(start_s, round_s - seconds[case_id])
        if len(planned) > 1 and seconds[case_id] > most_s:
            shared[case_id] = shorten(repetitions, most_s / seconds[case_id], costs[case_id])
    return shared


def shorten(repetitions: Repetitions, share: float, costs: Costs) -> Repetitions:
    """Return repetitions that take about this share of the time: fewer forks, and where one is left, fewer quads."""
    forks = max(1, math.floor(repetitions.forks * share))
    quads = math.floor(repetitions.quads * repetitions.forks / forks * share)
    return Repetitions(forks, max(costs.free_quads, min(repetitions.quads, quads)))


def within_time(
    planned: Mapping[str, Repetitions], rounds: Mapping[str, int], costs: Mapping[str, Costs], left_s: float
) -> dict[str, Repetitions]:
    """Return the repetitions, of a case whose ``rounds`` would take longer than its share of the time left, shortened.
    What a case doesn't need of an equal share goes to the others."""
    seconds = {case_id: costs[case_id].of_round(planned[case_id]) for case_id in rounds}
    limited, rounds_left = dict(planned), sum(rounds.values())
    for case_id in sorted(rounds, key=lambda case_id: seconds[case_id]):
        most_s = left_s / rounds_left
        if seconds[case_id] > most_s:
            limited[case_id] = shorten(planned[case_id], most_s / seconds[case_id], costs[case_id])
        rounds_left -= rounds[case_id]
        left_s -= rounds[case_id] * costs[case_id].of_round(limited[case_id])
    return limited


def fill(planned: Mapping[str, Repetitions], costs: Mapping[str, Costs], start_s: float) -> dict[str, Repetitions]:
    """Return the repetitions with more quads where a round would wait for its forks and for the next process pair,
    which are prepared on another processor in ``start_s`` and what each fork takes: as long as that lasts, quads cost
    nothing."""
    preparing_s, beside_s, quads_s = start_s, 0.0, 0.0
    for case_id, repetitions in planned.items():
        cost = costs[case_id]
        preparing_s += repetitions.forks * cost.prepare_s if cost.overlaps else 0.0
        beside_s += repetitions.forks * cost.fork_s
        quads_s += repetitions.forks * repetitions.quads * cost.quad_s
    share = max(1.0, (preparing_s - beside_s) / quads_s) if quads_s > 0 else 1.0
    return {
        case_id: Repetitions(repetitions.forks, math.floor(share * repetitions.quads))
        for case_id, repetitions in planned.items()
    }
