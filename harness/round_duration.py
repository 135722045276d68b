"""How long rounds take: learnt from those that were run, asked of those to come. Pure: no clock, seconds in and out."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from opduel.harness.pair import FORKED_S, MOST_FORKS, Round, RoundResult, forks_for
from opduel.records import DEFAULT_METRIC, Case, PairSample

CanFork = Callable[[Case], bool]


@dataclass
class RoundDuration:
    """What starting a pair and measuring a case took lately, by metric and by case; 0 before the first round."""

    can_fork: CanFork
    first_start_s: dict[str, float] = field(default_factory=dict)  # with nothing measured meanwhile
    last_start_s: dict[str, float] = field(default_factory=dict)  # what was left to wait for
    fork_s: dict[str, float] = field(default_factory=dict)  # by case id: in one fork
    usual_s: dict[str, float] = field(default_factory=dict)  # by metric: of a case that has not been measured

    def note(self, plan: Round, result: RoundResult, metric: str) -> None:
        """Take note of a round: its timed calls case by case, all the rest of its time shared out evenly."""
        if not result.samples:
            return
        self.first_start_s.setdefault(metric, result.start_s)
        self.last_start_s[metric] = result.start_s
        timed = {sample.case_id: _timed_s(sample) if metric == DEFAULT_METRIC else 0.0 for sample in result.samples}
        forks = {sample.case_id: max(1, sample.forks) for sample in result.samples}
        rest = max(0.0, result.wall_s - result.start_s - sum(timed.values())) / sum(forks.values())
        for case_id, seconds in timed.items():
            self.fork_s[case_id] = seconds / forks[case_id] + rest
        self.usual_s[metric] = sum(self.fork_s[case_id] for case_id in timed) / len(timed)

    def of(self, case: Case) -> float:
        """Seconds that one fork of a case takes."""
        return self.fork_s.get(case.id, self.usual_s.get(case.metric, 0.0))

    def start_s(self, metric: str, measured_s: float) -> float:
        """Seconds to wait for a pair whose start overlaps with so many seconds of measuring."""
        whole = self.first_start_s.get(metric, 0.0)
        return max(self.last_start_s.get(metric, 0.0), whole - measured_s)

    def least_s(self, case: Case) -> float:
        """Seconds that the shortest round that measures a case takes."""
        return self.last_start_s.get(case.metric, 0.0) + self.of(case)

    def seconds(self, needs: Iterable[tuple[Case, int]]) -> float:
        """Seconds until each case has had so many further rounds, all of them being measured together."""
        load = Load(self)
        for case, rounds in needs:
            load.add(case, rounds)
        return load.seconds

    def until(self, needs: Sequence[tuple[Case, int]]) -> dict[str, float]:
        """By case id, the seconds until it has had its rounds, all of them being measured together."""
        load = Load(self)
        for case, rounds in needs:
            load.add(case, rounds)
        ends = [0.0, *accumulate(load.rounds_s)]
        return {case.id: ends[rounds] for case, rounds in needs}


@dataclass
class _Group:
    """The cases of one metric in one round that share a pair: how many, and their seconds."""

    cases: int = 0
    once_s: float = 0.0  # in one fork each
    heavy_once_s: float = 0.0  # of that, what cases take that are not measured in as many forks as a small round has
    heavy_s: float = 0.0  # these in as many as they get

    def seconds(self, pace: RoundDuration, metric: str) -> float:
        forks = forks_for(self.cases) if metric == DEFAULT_METRIC else 1
        measured_s = self.once_s if forks == 1 else forks * (self.once_s - self.heavy_once_s) + self.heavy_s
        return pace.start_s(metric, measured_s) + measured_s


class Load:
    """Rounds to come, filled case by case."""

    def __init__(self, pace: RoundDuration) -> None:
        self._pace = pace
        self._rounds: list[dict[str, _Group]] = []
        self._alone_s: list[float] = []  # in pairs of their own
        self._together_s: list[float] = []

    @property
    def rounds_s(self) -> list[float]:
        """What each of them takes."""
        return [alone + merged_error for alone, merged_error in zip(self._alone_s, self._together_s, strict=True)]

    @property
    def seconds(self) -> float:
        """What all of them take."""
        return sum(self._alone_s) + sum(self._together_s)

    def add(self, case: Case, rounds: int) -> None:
        """One more case in the first ``rounds`` of them."""
        pace = self._pace
        fork_s = pace.of(case)
        while len(self._rounds) < rounds:
            self._rounds.append({})
            self._alone_s.append(0.0)
            self._together_s.append(0.0)
        if not pace.can_fork(case):  # a pair for each case and round
            for place in range(rounds):
                self._alone_s[place] += pace.start_s(case.metric, 0.0) + fork_s
            return
        heavy = case.metric == DEFAULT_METRIC and fork_s * MOST_FORKS > FORKED_S
        for place in range(rounds):
            group = self._rounds[place].setdefault(case.metric, _Group())
            group.cases += 1
            group.once_s += fork_s
            if heavy:
                group.heavy_once_s += fork_s
                group.heavy_s += min(fork_s * MOST_FORKS, fork_s + FORKED_S)
            self._together_s[place] = sum(one.seconds(pace, metric) for metric, one in self._rounds[place].items())

    def with_case(self, case: Case, rounds: int) -> "Load":
        """These rounds with one more case, to be looked at apart."""
        other = Load(self._pace)
        other._rounds = [{metric: replace(one) for metric, one in groups.items()} for groups in self._rounds]
        other._alone_s, other._together_s = list(self._alone_s), list(self._together_s)
        other.add(case, rounds)
        return other


def _timed_s(sample: PairSample) -> float:
    """Seconds of a sample's timed calls on both sides."""
    return 1e-9 * sample.calls * (sample.control + sample.treatment)
