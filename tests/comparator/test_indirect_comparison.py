"""What two runs say together: by the shared build, as least squares on the graph of both says it."""

import pytest

from opduel.comparator.history.network_meta_analysis import Edge, analyse_network, indirect_estimate, link

Z = 1.959964
ORDER = {"a": 0, "b": 1, "c": 2, "d": 3}  # the newest last


@pytest.mark.parametrize(
    ("first", "second", "older", "newer"),
    [
        (("a", "b"), ("a", "c"), "b", "c"),
        (("b", "c"), ("a", "c"), "a", "b"),
        (("a", "b"), ("b", "c"), "a", "c"),
        (("b", "c"), ("a", "b"), "a", "c"),
        (("a", "c"), ("a", "b"), "b", "c"),
        (("c", "a"), ("b", "a"), "b", "c"),
        (("c", "b"), ("b", "a"), "a", "c"),
        (("a", "b"), ("c", "a"), "b", "c"),
    ],
)
def test_an_implied_change_is_the_histories(
    first: tuple[str, str], second: tuple[str, str], older: str, newer: str
) -> None:
    edges = (Edge(*first, 0.03, 0.004), Edge(*second, 0.05, 0.003))
    how = link(first, second, ORDER)
    assert how is not None
    assert (how.older, how.newer) == (older, newer)
    estimate = indirect_estimate(how, *edges, Z)
    middle = "abc".replace(older, "").replace(newer, "")
    (component,) = analyse_network(edges, {older: 0, middle: 1, newer: 2})
    assert estimate.log_ratio == pytest.approx(component.drift.log_ratio)
    assert estimate.standard_error == pytest.approx(component.drift.standard_error)
    assert estimate.ci == pytest.approx(component.drift.ci, rel=1e-6)


def test_two_runs_of_the_same_builds_say_how_well_runs_repeat() -> None:
    edge, again = Edge("a", "b", 0.03, 0.003), Edge("a", "b", 0.04, 0.004)
    reverse = Edge("b", "a", -0.04, 0.004)
    for other, pair in ((again, ("a", "b")), (reverse, ("b", "a"))):
        how = link(("a", "b"), pair, ORDER)
        assert how is not None
        assert how.way == "same builds"
        assert indirect_estimate(how, edge, other, Z).log_ratio == pytest.approx(0.01)


def test_runs_that_share_no_build_imply_nothing() -> None:
    assert link(("a", "b"), ("c", "d"), ORDER) is None
