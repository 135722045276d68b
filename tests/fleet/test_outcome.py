"""The family of a run in which cases moved, on several kinds of host: the levels of all kinds stay alpha."""

from types import SimpleNamespace
from typing import Any

import pytest

from opduel.fleet.outcome import of_family


def request_of(cases: int, kinds: int) -> Any:
    return SimpleNamespace(cases=[SimpleNamespace(metric="time")] * cases, elsewhere=(kinds - 1) * cases)


@pytest.mark.parametrize(("cases", "kinds", "given_up"), [(30, 1, 4), (30, 2, 4), (7, 5, 3), (1, 3, 1), (40, 4, 0)])
def test_the_levels_of_all_kinds_add_up_to_alpha(cases: int, kinds: int, given_up: int) -> None:
    """Each kind's level is alpha times the share of the family that its own attempts are."""
    request = request_of(cases, kinds)
    family = cases + request.elsewhere + of_family(request, given_up)
    assert kinds * (cases + given_up) / family == pytest.approx(1)


def test_where_some_rows_failed_elsewhere_it_is_no_less() -> None:
    request = request_of(30, 3)
    request.elsewhere -= 7
    family = 30 + request.elsewhere + of_family(request, 5)
    assert (30 + 5 + 53 + 2 * 5) / family <= 1
