"""Narrow a range of commits down to those that can have changed a case, by what it runs at both ends."""

from collections.abc import Mapping, Sequence

from opduel.driver.attribution import Range
from opduel.driver.revisions import Revision
from opduel.records import Build
from opduel.records.reach import Reach

MOST_COMPARED = 200  # revisions from either end: comparing one takes up to some 100 ms


def reachable_ranges(
    revisions: Sequence[Revision], between: Range, builds: Sequence[Build], reaches: Sequence[Mapping[str, Reach]]
) -> dict[str, Range]:
    """Return by case the part of a range outside of which no revision can have changed it, where that is smaller.

    ``builds`` are the builds of control and treatment, ``reaches`` what each case runs in them. Up to the part's first
    revision all do what the control does, and from its last one on what the treatment does.
    """
    start, end = between
    first = _like(builds[0], reaches[0], revisions, range(start + 1, end))
    last = _like(builds[1], reaches[1], revisions, range(end - 1, start, -1))
    ranges = {case: (first.get(case, start), last.get(case, end)) for case in reaches[0]}
    return {case: inner for case, inner in ranges.items() if inner != between and inner[0] < inner[1]}


def _like(
    build: Build, reaches: Mapping[str, Reach], revisions: Sequence[Revision], indices: Sequence[int]
) -> dict[str, int]:
    """Return by case the last of the leading ``indices`` at which it provably does the same as in the build."""
    last: dict[str, int] = {}
    cases = [case for case, reach in reaches.items() if not reach.unknown]
    for index in indices[:MOST_COMPARED]:
        difference = revisions[index].difference(build) if cases else None
        cases = [case for case in cases if difference is not None and difference.cannot_reach(reaches[case])]
        last.update(dict.fromkeys(cases, index))
    return last
