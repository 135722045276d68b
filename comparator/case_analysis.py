"""The state of one case within its run, and what it needs next."""

from dataclasses import dataclass, field

from opduel.comparator.effect_estimate import EffectEstimate
from opduel.comparator.group_sequential import SequentialTest
from opduel.comparator.looks import Looks
from opduel.records import FLAGGED, ONE_SIDED, Case, Stage, Verdict


@dataclass(frozen=True)
class InterimAnalysis:
    """The state of a case between rounds, and what it needs next.

    ``settled`` cases get no more samples. A settled verdict is final, with one exception: a case that is settled
    because all its looks are spent may still be flagged, when other cases' rejections lower its q value. A case that is
    ``not_worse`` or ``not_better`` may become ``unchanged`` or changed as long as it is not settled. ``stage`` is that
    of the next sample; a suspect stays in the confirmation. ``samples_needed``: those until the next look; 0 for a
    settled case, and for one that has come to its first look while others have not. ``may_be_worse``: no look has shown
    yet that the case is not worse; these cases come first. ``excess``: see ``SequentialTest``; the larger it is, the
    earlier a time budget is spent on the case.
    """

    verdict: Verdict
    stage: Stage
    settled: bool
    samples_needed: int
    may_be_worse: bool = True
    excess: float | None = field(default=None, compare=False)


@dataclass(frozen=True)
class CaseAnalysis:
    """A case within its run: its looks, its own group-sequential test, its q value and the verdict so far.

    ``ready`` is False until every case of the run with the same metric has failed or come to its first look: until
    then the prior may still change, so that no verdict is final.
    """

    case: Case
    looks: Looks
    test: SequentialTest
    q_value: float
    verdict: Verdict
    ready: bool

    @property
    def not_worse(self) -> EffectEstimate | None:
        """The latest look that has shown the case not to be worse."""
        return self.test.sides(self.case.measure.lower_is_better)[0]

    @property
    def not_better(self) -> EffectEstimate | None:
        """The latest look that has shown the case not to be better."""
        return self.test.sides(self.case.measure.lower_is_better)[1]

    @property
    def settled(self) -> bool:
        """Whether the case gets no more samples."""
        decided = self.verdict in ("failed", "unchanged", *FLAGGED)
        return decided or (self.ready and (self.test.exhausted or self.test.futile))

    @property
    def evidence(self) -> EffectEstimate | None:
        """The estimate that goes with the verdict; for a flagged case, at the look that flagged it."""
        if self.verdict in FLAGGED:
            return self.test.decisive
        if self.verdict in ONE_SIDED:
            return self.not_worse if self.verdict == "not_worse" else self.not_better
        return self.test.figures

    def interim(self) -> InterimAnalysis:
        """Return the state of the case for planning the next round."""
        test, verdict = self.test, self.verdict
        if verdict == "failed":
            return InterimAnalysis("failed", test.stage, True, 0)
        if not self.ready:
            first = self.looks.counts[0]
            return InterimAnalysis("inconclusive", "screening", False, max(0, first - test.n))
        may_be_worse = self.not_worse is None
        if self.settled:
            return InterimAnalysis(verdict, test.stage, True, 0, may_be_worse)
        next_look = self.looks.next_after(test.n)
        samples_needed = 0 if next_look is None else next_look - test.n
        return InterimAnalysis(verdict, test.stage, False, samples_needed, may_be_worse, test.excess)


def decide_verdict(case: Case, test: SequentialTest, q_value: float, failed: bool, alpha: float) -> Verdict:
    """Return the verdict on a case: of a test that has shown both one-sided verdicts, the later one."""
    if failed:
        return "failed"
    if test.cleared:
        return "unchanged"
    if q_value <= alpha:
        return "regressed" if test.rises == case.measure.lower_is_better else "improved"
    sides = zip(ONE_SIDED, test.sides(case.measure.lower_is_better), strict=True)
    samples_by_side: dict[Verdict, int] = {side: effect.n for side, effect in sides if effect is not None}
    return max(samples_by_side, key=lambda side: samples_by_side[side]) if samples_by_side else "inconclusive"
