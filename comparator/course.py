"""One case's way through the looks: cleared on the screen, suspected there, decided on samples of its own."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from comparator.evidence import Evidence, Values, weigh
from comparator.futility import HOPELESS, chance_of_settling
from comparator.looks import Looks, p_over_looks
from comparator.moderation import Prior, doubted
from comparator.significance import two_sided_p
from records import Case, PairSample, Stage


@dataclass(frozen=True)
class Course:
    """How far a case has come, by its own samples alone.

    ``stage`` is the one that decides it, and where its next sample belongs.  ``p_value`` is over the looks at
    its own samples, against "the change is within the threshold", 1 as long as there was none; ``rises`` tells
    the direction that it speaks for.  ``figures`` is the evidence to show, and ``shown`` the stage it is of: at the
    look that cleared the case, or else all that its stage has (a suspect with fewer than 2 samples of its own
    shows the screen's); None with fewer than 2 samples.
    """

    stage: Stage
    suspect: bool
    cleared: bool
    exhausted: bool  # no look is left, nor another stage to go to
    given_up: bool  # what looks are left would hardly settle it
    p_value: float
    rises: bool
    n: int  # samples of ``stage``
    figures: Evidence | None
    shown: Stage | None


def split(samples: Sequence[PairSample]) -> dict[Stage, Values]:
    """The values of each stage, in the order of ``samples``.

    Raises:
        ValueError: as ``Values.of``.
    """
    return {
        "screen": Values.of([sample for sample in samples if sample.stage == "screen"]),
        "own": Values.of([sample for sample in samples if sample.stage == "own"]),
    }


def follow(case: Case, values: dict[Stage, Values], prior: Prior, looks: Looks, alpha: float, closing: bool) -> Course:
    """Follows a case through its looks.

    On the screen the first look that shows it unchanged clears it, and the first that finds a change (p against no
    change below the suspect level) makes it a suspect: from then on only its own samples count, which are fresh,
    so that being picked for what they looked like can't mislead.
    At either stage, a look that leaves it open gives it up if the last one would hardly settle it.
    ``closing`` says that no more samples will come (see ``Looks.closing``).
    """
    screen = _Stage(case, values, "screen", prior, looks, alpha)
    suspect, given_up, trusted = False, False, 1.0
    for evidence in screen.at(screen.looks(closing and not len(values["own"]))):
        if evidence.within:
            return Course("screen", False, True, True, False, 1.0, False, len(screen.values), evidence, "screen")
        trusted = evidence.trust
        suspect = evidence.p_changed < looks.suspect_level
        given_up = not suspect and screen.is_hopeless(evidence)
        if suspect or given_up:
            break
    if suspect or len(values["own"]):
        own = _Stage(case, values, "own", doubted(prior, trusted), looks, alpha)
        return _decide(screen, own, suspect, closing)
    exhausted = looks.next_after("screen", len(screen.values)) is None
    figures = screen.all()
    shown: Stage | None = "screen" if figures else None
    return Course("screen", False, False, exhausted, given_up, 1.0, False, len(screen.values), figures, shown)


def _decide(screen: "_Stage", own: "_Stage", suspect: bool, closing: bool) -> Course:
    """The rest of the way, on the case's own samples."""
    n = len(own.values)
    seen: list[Evidence] = []
    given_up = False
    for evidence in own.at(own.looks(closing)):
        if evidence.within:
            return Course("own", suspect, True, True, False, 1.0, False, n, evidence, "own")
        seen.append(evidence)
        if given_up := own.is_hopeless(evidence):
            break
    weights = [own.schedule.weight("own", evidence.n) for evidence in seen]
    above = p_over_looks([evidence.p_above for evidence in seen], weights)
    below = p_over_looks([evidence.p_below for evidence in seen], weights)
    figures, shown = _figures(screen, own)
    exhausted = own.schedule.next_after("own", n) is None
    p_value = two_sided_p(above, below)
    return Course("own", suspect, False, exhausted, given_up, p_value, above < below, n, figures, shown)


def _figures(screen: "_Stage", own: "_Stage") -> tuple[Evidence | None, Stage | None]:
    """All the evidence of a case on its own samples, or on the screen's while it has fewer than 2."""
    if evidence := own.all():
        return evidence, "own"
    evidence = screen.all()
    return evidence, "screen" if evidence else None


class _Stage:
    """One stage of one case: its values, and the evidence at any count of them."""

    def __init__(
        self, case: Case, values: dict[Stage, Values], stage: Stage, prior: Prior, schedule: Looks, alpha: float
    ) -> None:
        self.values = values[stage]
        self.schedule = schedule
        self._stage: Stage = stage
        self._bound = math.log1p(case.threshold)
        self._prior = prior
        self._alpha = alpha

    def looks(self, closing: bool) -> tuple[int, ...]:
        n = len(self.values)
        return self.schedule.closing(self._stage, n) if closing else self.schedule.reached(self._stage, n)

    def at(self, counts: Sequence[int]) -> Iterator[Evidence]:
        return (self._weigh(count) for count in counts)

    def is_hopeless(self, evidence: Evidence) -> bool:
        """Whether the last look would hardly settle a case of which this is the evidence."""
        last = self.schedule.of(self._stage)[-1]
        if evidence.n >= last:
            return False
        tail = self._alpha * self.schedule.weight(self._stage, last) / 2
        fresh = self._stage == "screen"
        return chance_of_settling(evidence.location, last, self._bound, tail, fresh) < HOPELESS

    def all(self) -> Evidence | None:
        return self._weigh(len(self.values)) if len(self.values) >= 2 else None

    def _weigh(self, count: int) -> Evidence:
        tail = self._alpha * self.schedule.weight(self._stage, count) / 2
        return weigh(self.values.first(count), self._bound, self._prior, tail)
