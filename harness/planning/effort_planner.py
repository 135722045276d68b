"""What a run learns of its cases, their costs and their noise, and how often it repeats them next."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from opduel.harness.planning import effort
from opduel.harness.planning.effort import CaseTime, Costs, Noise, Repetitions, RoundsToGoal
from opduel.harness.planning.noise_by_level import noise_by_level, quads_of
from opduel.records import Case, Effort, PairSample

PLANNED_SHARE = 0.75  # of the time left: rounds take longer than planned, by starting pairs and the A/A check
MOST_AT_ONCE = 4  # forks in a round that takes longer than all rounds of the case before it
GROWTH, LEAST_ROUND_S = 3.0, 1.0  # a round takes at most so many times as long as all before it, or so many seconds


@dataclass
class EffortPlanner:
    """Learns from rounds what cases cost and how noisy they are, and decides how the next rounds measure them.

    ``costs`` and ``noise``, by case id, begin with what earlier runs on the host say of cases, where there are any.
    ``start_s``: what a pair's start takes on the processor that prepares, while others are measured.  ``stretch``: how
    many times as long as their costs say rounds took lately, as where others keep that processor busy; 1 at least.
    """

    costs: dict[str, Costs] = field(default_factory=dict)
    noise: dict[str, Noise] = field(default_factory=dict)
    start_s: float = 0.0
    stretch: float = 1.0
    planned: dict[str, Repetitions] = field(default_factory=dict)
    spent_s: dict[str, float] = field(default_factory=dict)

    def note_round(self, times: Mapping[str, CaseTime], start_s: float, rest_s: float, overlaps: bool) -> None:
        """Take note of what a round spent: ``start_s`` of a processor for its pair's start (what the first one waits
        for, such as files that no process has read yet, later ones don't), ``rest_s`` beside pair and cases.
        ``overlaps``: a case is prepared while another is measured."""
        if overlaps and start_s:
            self.start_s = min(start_s, self.start_s or start_s)
        for case_id, time in times.items():
            if time.forks and time.quads:
                latest = Costs(
                    time.quads_s / time.quads,
                    time.prepared_s / time.forks,
                    time.beside_s / time.forks,
                    rest_s / len(times),
                    overlaps,
                )
                earlier = self.costs.get(case_id, latest) if case_id in self.spent_s else latest  # not of other runs
                self.costs[case_id] = latest.between(earlier)
            self.spent_s[case_id] = self.spent_s.get(case_id, 0.0) + time.spent_s
        measured = {case_id: time for case_id, time in times.items() if time.forks and time.quads}
        costs_s = sum(
            self.costs[case_id].of_round(Repetitions(time.forks, round(time.quads / time.forks)))
            for case_id, time in measured.items()
        )
        if costs_s > 0:
            took_s = rest_s + sum(time.spent_s for time in measured.values())
            self.stretch = math.sqrt(self.stretch * max(1.0, took_s / costs_s))

    def learn(self, samples: Mapping[str, Sequence[PairSample]]) -> None:
        """Estimate the noise by level from all samples of the run."""
        self.noise |= noise_by_level(samples)

    def knows(self, case: Case) -> bool:
        """Return whether the case's costs and noise are known."""
        return case.id in self.costs and case.id in self.noise

    def plan(
        self,
        cases: Iterable[Case],
        samples: Mapping[str, Sequence[PairSample]],
        looks: Sequence[int],
        left_s: float = math.inf,
    ) -> dict[str, Repetitions]:
        """Decide the repetitions of the next round that these cases share; one that nothing is known of has none, and
        is measured as a pilot.  In the time left each case gets to its second look, the first that can flag it."""
        known_cases = [case for case in cases if self.knows(case)]
        chosen = {
            case.id: self._choose(case, samples.get(case.id, ()), looks, len(known_cases)) for case in known_cases
        }
        second_look = looks[min(1, len(looks) - 1)]
        rounds = {case_id: second_look - len(samples.get(case_id, ())) for case_id in chosen}
        missing = {case_id: count for case_id, count in rounds.items() if count > 0}
        chosen = effort.share_out(chosen, self.costs, self.start_s)
        chosen = effort.within_time(chosen, missing, self.costs, PLANNED_SHARE * left_s / self.stretch)
        chosen = effort.fill(chosen, self.costs, self.start_s)
        self.planned |= chosen
        return chosen

    def _choose(self, case: Case, samples: Sequence[PairSample], looks: Sequence[int], sharing: int) -> Repetitions:
        """Choose a case's repetitions; ``sharing`` cases share the start of the round's pair."""
        costs = replace(self.costs[case.id], pair_s=self.costs[case.id].pair_s + self.start_s / sharing)
        chosen = effort.choose_repetitions(self.noise[case.id], costs, self._goal(case, samples, looks))
        return effort.in_two_forks(self._within_growth(case.id, chosen), costs)

    def _goal(self, case: Case, samples: Sequence[PairSample], looks: Sequence[int]) -> effort.Goal:
        noise = self.noise[case.id]
        information = sum(1 / noise.of_sample(sample.forks, quads_of(sample)) for sample in samples)
        error = math.log1p(case.threshold) / effort.ERRORS_IN_THRESHOLD
        later_looks = [count for count in looks if count > len(samples)]
        needs_pairs = len(samples) < looks[min(1, len(looks) - 1)]
        return effort.Goal(error, information, len(samples), later_looks, needs_pairs)

    def _within_growth(self, case_id: str, chosen: Repetitions) -> Repetitions:
        """Limit forks, and then quads, to a few times what was spent on the case: what a few samples say of its noise
        may be far off."""
        spent_s, costs = self.spent_s.get(case_id), self.costs[case_id]
        if spent_s is None:  # earlier runs tell
            return chosen
        one_fork_s = costs.of_round(Repetitions(1, chosen.quads)) - costs.pair_s
        most = max(MOST_AT_ONCE, math.floor(spent_s / one_fork_s))
        limited = Repetitions(min(chosen.forks, most), chosen.quads)
        share = max(LEAST_ROUND_S, GROWTH * spent_s) / (limited.forks * one_fork_s)
        return effort.shorten(limited, share, costs) if share < 1 else limited

    def rounds_to_goal(self, case: Case, samples: Sequence[PairSample], looks: Sequence[int]) -> RoundsToGoal | None:
        """Return the cheapest rounds to the precision that settles most cases at this threshold, as far as is known
        now; None if no number of rounds comes to it here."""
        return effort.cheapest_rounds(self.noise[case.id], self.costs[case.id], self._goal(case, samples, looks))

    def round_s(self, case_id: str) -> float:
        """Return the seconds that the next round is planned to spend on a case."""
        return self.costs[case_id].of_round(self.planned[case_id])

    def least_round_s(self, case: Case) -> float | None:
        """Return the seconds that the shortest round of a case takes; None if nothing is known of it."""
        if not self.knows(case):
            return None
        costs = self.costs[case.id]
        return self.stretch * costs.of_round(Repetitions(1, costs.free_quads))

    def describe(self, case_id: str, samples: Sequence[PairSample]) -> Effort | None:
        """Return what a report says of how a case was measured; None of one that was measured without blocks."""
        timed = [sample for sample in samples if sample.fork_ratios]
        if not timed or case_id not in self.costs:
            return None
        noise, costs, last = self.noise.get(case_id), self.costs[case_id], timed[-1]
        return Effort(
            last.forks,
            max(1, round(quads_of(last))),
            quad_sd=math.sqrt(noise.quad) if noise else None,
            fork_sd=math.sqrt(noise.fork) if noise else None,
            pair_sd=math.sqrt(noise.pair) if noise else None,
            quad_s=costs.quad_s,
            prepare_s=costs.prepare_s,
            fork_s=costs.beside_s,
            pair_s=costs.pair_s,
            seconds=self.spent_s.get(case_id, 0.0),
        )
