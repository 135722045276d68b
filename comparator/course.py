"""One case's way through the looks: cleared, flagged or suspected at screening, then decided on fresh samples.

The two stages are called screening and confirmation; the report's words for them are "screen" and "own".
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from comparator.evidence import Evidence, Values, weigh
from comparator.futility import HOPELESS, chance_of_settling
from comparator.looks import Looks, p_over_looks
from comparator.mann_whitney import mann_whitney_interval
from comparator.moderation import Prior, doubted
from comparator.significance import SHARE_OF_MANN_WHITNEY, SHARE_OF_T, two_sided_p
from records import Case, PairSample, Stage


@dataclass(frozen=True)
class Course:
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
    given_up: bool  # what looks are left would hardly settle it
    looked: bool  # at least one look has taken place
    p_value: float
    rises: bool
    n: int  # samples of ``stage``
    figures: Evidence | None
    shown: Stage | None
    decisive: "Decisive | None" = None
    excess: float | None = None


@dataclass(frozen=True)
class Decisive:
    """The look with the smallest p value: the samples that it took, and the probability on either side that it spends.

    For a confirmation look that is its part of alpha among all confirmation looks; for a screening look its part of
    the screening's share, so that the intervals of all screening looks hold the truth with probability
    1 - ``screening_share`` alpha together.
    """

    stage: Stage
    values: Values
    bound: float
    prior: Prior
    tail: float

    def evidence(self) -> Evidence:
        """Its evidence, with the interval that goes with a flag.

        The interval is what neither witness rejects, each at its share of ``tail``.  So that of a flagged case lies
        wholly beyond the bound, whichever witness flagged it.
        """
        evidence = weigh(self.values, self.bound, self.prior, self.tail * SHARE_OF_T)
        low, high = evidence.interval
        rank_low, rank_high = mann_whitney_interval(
            self.values.control, self.values.treatment, self.tail * SHARE_OF_MANN_WHITNEY
        )
        estimate = evidence.location.estimate
        interval = min(max(low, rank_low), estimate), max(min(high, rank_high), estimate)
        return replace(evidence, interval=interval)


def split(samples: Sequence[PairSample]) -> dict[Stage, Values]:
    """The values of each stage, in the order of ``samples``.

    Raises:
        ValueError: as ``Values.of``.
    """
    return {
        "screen": Values.of([sample for sample in samples if sample.stage == "screen"]),
        "own": Values.of([sample for sample in samples if sample.stage == "own"]),
    }


def follow(
    case: Case,
    values: dict[Stage, Values],
    prior: Prior,
    looks: Looks,
    alpha: float,
    closing: bool,
    retest: bool = False,
) -> Course:
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
    screen = _Stage(case, values, "screen", prior, looks, alpha)
    if retest:
        return _confirm(_own(case, values, prior, looks, alpha, _trust(screen)), screen, _Tests(), True, closing, True)
    tests = _Tests()
    suspect, given_up, trusted = False, False, 1.0
    for evidence in screen.at(screen.looks(closing and not len(values["own"]))):
        if evidence.within:
            return _cleared("screen", False, len(screen.values), evidence)
        tests.add(screen, evidence, looks.tested("screen", evidence.n))
        trusted = evidence.trust
        suspect = evidence.p_changed < looks.suspect_level
        given_up = not suspect and screen.is_hopeless(evidence)
        if suspect or given_up:
            break
    if suspect or len(values["own"]):
        return _confirm(_own(case, values, prior, looks, alpha, trusted), screen, tests, suspect, closing, False)
    exhausted = looks.next_after("screen", len(screen.values)) is None
    return _open(screen, False, exhausted, given_up, tests, screen)


def _confirm(own: "_Stage", screen: "_Stage", tests: "_Tests", suspect: bool, closing: bool, retest: bool) -> Course:
    """The rest of the way, on fresh samples; ``tests`` has those of the screening."""
    share = own.schedule.weight if retest else own.schedule.tested
    given_up = looked = False
    for evidence in own.at(own.looks(closing)):
        if evidence.within:
            return _cleared("own", suspect, len(own.values), evidence)
        tests.add(own, evidence, share("own", evidence.n))
        looked = True
        if given_up := own.is_hopeless(evidence):
            break
    exhausted = own.schedule.next_after("own", len(own.values)) is None
    shown = own if looked or (retest and len(own.values) >= 2) else screen
    return _open(own, suspect, exhausted, given_up, tests, shown, screen.excess())


def _cleared(stage: Stage, suspect: bool, n: int, evidence: Evidence) -> Course:
    """A case that was shown to be unchanged."""
    return Course(stage, suspect, True, True, False, True, 1.0, False, n, evidence, stage)


def _open(
    stage: "_Stage",
    suspect: bool,
    exhausted: bool,
    given_up: bool,
    tests: "_Tests",
    shown: "_Stage",
    excess: float | None = None,
) -> Course:
    """A case that was not: what its looks say together, and the figures of the stage ``shown``."""
    p_value, rises = tests.result()
    figures = shown.all()
    return Course(
        stage=stage.name,
        suspect=suspect,
        cleared=False,
        exhausted=exhausted,
        given_up=given_up,
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

    taken: list[tuple["_Stage", Evidence, float]] = field(default_factory=list)

    def add(self, stage: "_Stage", evidence: Evidence, share: float) -> None:
        """Take note of a look; one without a share (of a run that doesn't test at screening) tests nothing."""
        if share:
            self.taken.append((stage, evidence, share))

    def result(self) -> tuple[float, bool]:
        """The p value over all looks of both stages, and whether it speaks for a rise.

        Weighted Bonferroni, min p_k / share_k with shares that sum to 1 at most: valid whatever rule decided which
        looks were reached, and it can only fall as looks are added.
        """
        shares = [share for _, _, share in self.taken]
        above = p_over_looks([evidence.p_above for _, evidence, _ in self.taken], shares)
        below = p_over_looks([evidence.p_below for _, evidence, _ in self.taken], shares)
        return two_sided_p(above, below), above < below

    def decisive(self) -> Decisive | None:
        """The look that says most."""
        if not self.taken:
            return None
        stage, evidence, share = min(self.taken, key=lambda one: min(one[1].p_above, one[1].p_below) / one[2])
        return stage.decisive(evidence.n, share if stage.name == "screen" else stage.schedule.weight("own", evidence.n))


def _own(case: Case, values: dict[Stage, Values], prior: Prior, looks: Looks, alpha: float, trusted: float) -> "_Stage":
    return _Stage(case, values, "own", doubted(prior, trusted), looks, alpha)


def _trust(screen: "_Stage") -> float:
    """How far the prior may speak for a case that was flagged: what the look that made it a suspect said."""
    trusted = 1.0
    for evidence in screen.at(screen.looks(True)):
        trusted = evidence.trust
        if evidence.p_changed < screen.schedule.suspect_level:
            break
    return trusted


class _Stage:
    """One stage of one case: its values, and the evidence at any count of them."""

    def __init__(
        self, case: Case, values: dict[Stage, Values], stage: Stage, prior: Prior, schedule: Looks, alpha: float
    ) -> None:
        self.name: Stage = stage
        self.values = values[stage]
        self.schedule = schedule
        self._bound = math.log1p(case.threshold)
        self._prior = prior
        self._alpha = alpha

    def looks(self, closing: bool) -> tuple[int, ...]:
        n = len(self.values)
        return self.schedule.closing(self.name, n) if closing else self.schedule.reached(self.name, n)

    def at(self, counts: Sequence[int]) -> Iterator[Evidence]:
        return (self._weigh(count) for count in counts)

    def is_hopeless(self, evidence: Evidence) -> bool:
        """Whether the last look would hardly settle a case of which this is the evidence."""
        last = self.schedule.of(self.name)[-1]
        if evidence.n >= last:
            return False
        tail = self._alpha * self.schedule.weight(self.name, last) / 2
        fresh = self.name == "screen"
        return chance_of_settling(evidence.location, last, self._bound, tail, fresh) < HOPELESS

    def all(self) -> Evidence | None:
        count = len(self.values)
        return self._weigh(count) if count >= 2 else None

    def excess(self) -> float | None:
        """By how much the interval of all its samples lies beyond the bound, on either side."""
        evidence = self.all()
        return None if evidence is None else max(evidence.interval[0], -evidence.interval[1]) - self._bound

    def decisive(self, count: int, share: float) -> Decisive:
        """The look at the first ``count`` samples, its interval spending ``share`` of alpha."""
        return Decisive(self.name, self.values.first(count), self._bound, self._prior, self._alpha * share / 2)

    def _weigh(self, count: int) -> Evidence:
        tail = self._alpha * self.schedule.weight(self.name, count) / 2
        return weigh(self.values.first(count), self._bound, self._prior, tail)
