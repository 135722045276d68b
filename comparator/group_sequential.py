"""One case's way through the looks: cleared, flagged or suspected at screening, then decided on fresh samples."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from opduel.comparator.effect_estimate import EffectEstimate, Values, estimate_effect
from opduel.comparator.empirical_bayes import Prior, discounted
from opduel.comparator.looks import Looks, p_over_looks
from opduel.comparator.mann_whitney import mann_whitney_interval
from opduel.comparator.predictive_power import FUTILE_BELOW, conditional_power
from opduel.comparator.significance import SHARE_OF_MANN_WHITNEY, SHARE_OF_T, two_sided_p
from opduel.records import Case, PairSample, Stage


@dataclass(frozen=True)
class SequentialTest:
    """How far a case has come, by its own samples alone.

    ``stage`` is the one that decides it, and where its next sample belongs.  ``p_value`` is over all looks at either
    stage, against "the change is within the threshold", 1 as long as there was none; ``rises`` tells the direction
    that it speaks for.  ``figures`` is the evidence to show, and ``shown`` the stage it is of: at the look that
    cleared the case, or else all that its stage has (a suspect whose confirmation has not come to its first look shows
    the screening's); None with fewer than 2 samples.  ``decisive`` is the look that says most, None without looks: what
    to show of a case that its run flags.  ``excess`` is a suspect's size: by how much its screening interval lies
    beyond the threshold (a log ratio, negative if it doesn't).  No confirmation sample changes it.
    """

    stage: Stage
    suspect: bool
    cleared: bool
    exhausted: bool  # no look is left, nor another stage to go to
    futile: bool  # what looks are left would hardly settle it
    looked: bool  # at least one look has taken place
    p_value: float
    rises: bool
    n: int  # samples of ``stage``
    figures: EffectEstimate | None
    shown: Stage | None
    decisive: "Decisive | None" = None
    excess: float | None = None


@dataclass(frozen=True)
class Decisive:
    """The look with the smallest p value: the samples that it took, and the probability on either side that it spends.

    For a confirmation look that is its part of alpha among all confirmation looks; for a screening look its part of
    the screening's share, so that the intervals of all screening looks together hold the truth with probability
    1 - ``screening_share`` alpha.
    """

    stage: Stage
    values: Values
    bound: float
    prior: Prior
    tail: float

    def effect(self) -> EffectEstimate:
        """Its evidence, with the interval that goes with a flag.

        The interval is what neither test rejects, each at its share of ``tail``.  So that of a flagged case lies
        wholly beyond the bound, whichever test flagged it.
        """
        effect = estimate_effect(self.values, self.bound, self.prior, self.tail * SHARE_OF_T)
        low, high = effect.interval
        rank_low, rank_high = mann_whitney_interval(
            self.values.control, self.values.treatment, self.tail * SHARE_OF_MANN_WHITNEY
        )
        estimate = effect.trimmed_mean.estimate
        interval = min(max(low, rank_low), estimate), max(min(high, rank_high), estimate)
        return replace(effect, interval=interval)


def split(samples: Sequence[PairSample]) -> dict[Stage, Values]:
    """The values of each stage, in the order of ``samples``.

    Raises:
        ValueError: as ``Values.of``.
    """
    stages: tuple[Stage, ...] = ("screening", "confirmation")
    return {stage: Values.of([sample for sample in samples if sample.stage == stage]) for stage in stages}


def run_sequential_test(
    case: Case,
    values: dict[Stage, Values],
    prior: Prior,
    looks: Looks,
    alpha: float,
    closing: bool,
    retest: bool = False,
) -> SequentialTest:
    """Follows a case through its looks.

    At screening the first look that shows it unchanged clears it, and the first that finds a change (p against no
    change below the suspect level) makes it a suspect: from then on its samples are fresh ones, kept apart.  Every
    look at either stage tests "the change is within the threshold" with the share of the error that
    ``Looks.tested`` gives it, so that a large change needs no confirmation.
    At either stage, a look that leaves it open gives it up if the last one would hardly settle it.
    ``closing`` says that no more samples will come (see ``Looks.closing``).
    ``retest``: a verification, of cases that were flagged.  They are suspects from the start, and fresh samples alone
    count, with all of the error; from the screening only what it says of their noise is kept.
    """
    screening = _Stage(case, values, "screening", prior, looks, alpha)
    tests = _Tests()
    suspect, futile, prior_weight = False, False, 1.0
    for effect in screening.at(screening.looks(retest or (closing and not len(values["confirmation"])))):
        if not retest:
            if effect.within:
                return _cleared("screening", False, len(screening.values), effect)
            tests.add(screening, effect, looks.tested("screening", effect.n))
        prior_weight = effect.prior_weight
        suspect = effect.p_changed < looks.suspect_level
        futile = not (suspect or retest) and screening.is_futile(effect)
        if suspect or futile:
            break
    if retest or suspect or len(values["confirmation"]):
        confirmation = _Stage(case, values, "confirmation", discounted(prior, prior_weight), looks, alpha)
        return _confirm(confirmation, screening, tests, retest or suspect, closing, retest)
    exhausted = looks.next_after("screening", len(screening.values)) is None
    return _open(screening, False, exhausted, futile, tests, screening)


def _confirm(
    confirmation: "_Stage", screening: "_Stage", tests: "_Tests", suspect: bool, closing: bool, retest: bool
) -> SequentialTest:
    """The rest of the way, on fresh samples; ``tests`` has those of the screening."""
    share = confirmation.schedule.weight if retest else confirmation.schedule.tested
    futile = looked = False
    for effect in confirmation.at(confirmation.looks(closing)):
        if effect.within:
            return _cleared("confirmation", suspect, len(confirmation.values), effect)
        tests.add(confirmation, effect, share("confirmation", effect.n))
        looked = True
        if futile := confirmation.is_futile(effect):
            break
    tests = tests.upheld()
    exhausted = confirmation.schedule.next_after("confirmation", len(confirmation.values)) is None
    shown = confirmation if looked or (retest and len(confirmation.values) >= 2) else screening
    return _open(confirmation, suspect, exhausted, futile, tests, shown, screening.excess())


def _cleared(stage: Stage, suspect: bool, n: int, effect: EffectEstimate) -> SequentialTest:
    """A case that was shown to be unchanged."""
    return SequentialTest(stage, suspect, True, True, False, True, 1.0, False, n, effect, stage)


def _open(
    stage: "_Stage",
    suspect: bool,
    exhausted: bool,
    futile: bool,
    tests: "_Tests",
    shown: "_Stage",
    excess: float | None = None,
) -> SequentialTest:
    """A case that was not: what its looks say together, and the figures of the stage ``shown``."""
    p_value, rises = tests.result()
    figures = shown.all()
    return SequentialTest(
        stage=stage.name,
        suspect=suspect,
        cleared=False,
        exhausted=exhausted,
        futile=futile,
        looked=bool(tests.taken),
        p_value=p_value,
        rises=rises,
        n=len(stage.values),
        figures=figures,
        shown=shown.name if figures else None,
        decisive=tests.decisive(),
        excess=excess,
    )


@dataclass
class _Tests:
    """The looks at which a case was tested: the stage, the evidence, and the share of the error that each spent."""

    taken: list[tuple["_Stage", EffectEstimate, float]] = field(default_factory=list)

    def add(self, stage: "_Stage", effect: EffectEstimate, share: float) -> None:
        """Take note of a look; one without a share (of a run that doesn't test at screening) tests nothing."""
        if share:
            self.taken.append((stage, effect, share))

    def result(self) -> tuple[float, bool]:
        """The p value over all looks of both stages, and whether it speaks for a rise.

        Weighted Bonferroni, min p_k / share_k with shares that sum to 1 at most: valid whatever rule decided which
        looks were reached, and it can only fall as looks are added.
        """
        shares = [share for _, _, share in self.taken]
        above = p_over_looks([effect.p_above for _, effect, _ in self.taken], shares)
        below = p_over_looks([effect.p_below for _, effect, _ in self.taken], shares)
        return two_sided_p(above, below), above < below

    def upheld(self) -> "_Tests":
        """Those that count when the fresh samples have been looked at: all, if these say the same as all together, by
        their estimate at the last look; else theirs alone.

        Noise with two modes can agree with itself five times over. Fresh samples tell; and fewer tests never flag more.
        """
        stage, effect, _ = self.taken[-1] if self.taken else (None, None, 0.0)
        if stage is None or effect is None or stage.name != "confirmation":
            return self
        estimate = effect.trimmed_mean.estimate if self.result()[1] else -effect.trimmed_mean.estimate
        fresh = [one for one in self.taken if one[0].name == "confirmation"]
        return self if estimate > stage.bound else _Tests(fresh)

    def decisive(self) -> Decisive | None:
        """The look that says most."""
        if not self.taken:
            return None
        stage, effect, share = min(self.taken, key=lambda one: min(one[1].p_above, one[1].p_below) / one[2])
        return stage.decisive(
            effect.n, share if stage.name == "screening" else stage.schedule.weight("confirmation", effect.n)
        )


class _Stage:
    """One stage of one case: its values, and the evidence at any count of them."""

    def __init__(
        self, case: Case, values: dict[Stage, Values], stage: Stage, prior: Prior, schedule: Looks, alpha: float
    ) -> None:
        self.name: Stage = stage
        self.values = values[stage]
        self.schedule = schedule
        self.bound = math.log1p(case.threshold)
        self._prior = prior
        self._alpha = alpha

    def looks(self, closing: bool) -> tuple[int, ...]:
        n = len(self.values)
        return self.schedule.closing(self.name, n) if closing else self.schedule.reached(self.name, n)

    def at(self, counts: Sequence[int]) -> Iterator[EffectEstimate]:
        return (self._estimate(count) for count in counts)

    def is_futile(self, effect: EffectEstimate) -> bool:
        """Whether the last look would hardly settle a case of which this is the evidence."""
        last = self.schedule.of(self.name)[-1]
        if effect.n >= last:
            return False
        tail = self.schedule.level(self.name, last, self._alpha / 2)
        fresh = self.name == "screening"
        return conditional_power(effect.trimmed_mean, last, self.bound, tail, fresh) < FUTILE_BELOW

    def all(self) -> EffectEstimate | None:
        count = len(self.values)
        return self._estimate(count) if count >= 2 else None

    def excess(self) -> float | None:
        """By how much the interval of all its samples lies beyond the bound, on either side."""
        effect = self.all()
        return None if effect is None else max(effect.interval[0], -effect.interval[1]) - self.bound

    def decisive(self, count: int, share: float) -> Decisive:
        """The look at the first ``count`` samples, its interval spending ``share`` of alpha."""
        return Decisive(self.name, self.values.first(count), self.bound, self._prior, self._alpha * share / 2)

    def _estimate(self, count: int) -> EffectEstimate:
        tail = self.schedule.level(self.name, count, self._alpha / 2)
        return estimate_effect(self.values.first(count), self.bound, self._prior, tail)
