"""One case's way through the looks, its prior given."""

import numpy as np
import pytest
from made_samples import a_case, noisy, pairs

from comparator import Looks
from comparator.course import Course, follow, split
from comparator.moderation import NO_PRIOR, Prior

LOOKS = Looks((5, 8), (5, 8))
SETTLES_DOWN = [0.02, -0.02, 0.01, -0.01, 0.0, 0.0, 0.0]


def course(screen: list[float], own: list[float], prior: Prior = NO_PRIOR, closing: bool = False) -> Course:
    samples = [*pairs("a", "screen", screen), *pairs("a", "own", own)]
    return follow(a_case(threshold=0.03), split(samples), prior, LOOKS, 0.05, closing)


def test_a_case_that_was_loud_on_the_screen_gets_less_from_the_others() -> None:
    """Its own samples may look quiet by chance: the quiet many must not vouch for it then."""
    prior = Prior(10.0, 1e-4, 160.0, 40)
    own = noisy(np.random.default_rng(2), 5, 0.2, 0.01)
    quiet = course(noisy(np.random.default_rng(3), 5, 5.0, 0.01), own, prior)
    loud = course(noisy(np.random.default_rng(3), 5, 5.0, 0.2), own, prior)
    assert quiet.suspect
    assert loud.suspect
    assert quiet.p_value < loud.p_value / 10
    assert loud.p_value == pytest.approx(course(noisy(np.random.default_rng(3), 5, 5.0), own).p_value, rel=0.05)


def test_the_screen_has_a_closing_look_unless_the_case_has_left_it() -> None:
    assert not course(SETTLES_DOWN, []).cleared
    assert course(SETTLES_DOWN, [], closing=True).cleared
    left = course(SETTLES_DOWN, [0.2, 0.2], closing=True)
    assert not left.cleared
    assert left.shown == "own"


def test_the_smallest_p_over_the_looks_counts_and_gives_the_direction() -> None:
    rng = np.random.default_rng(4)
    up = noisy(rng, 5, 0.2, 0.01)
    seen = course([0.2, 0.21, 0.19, 0.2, 0.2], up)
    later = course([0.2, 0.21, 0.19, 0.2, 0.2], [*up, -0.3, -0.3, -0.3])
    assert seen.rises
    assert later.rises
    assert later.p_value == seen.p_value < 0.05
