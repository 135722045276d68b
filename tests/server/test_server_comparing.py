"""Two runs compared on the server's page: what they imply together, the newer build against the older one."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import report_samples as samples
from results_server import RunningServer, numbered, running_server
from server_pages import compared, get_page

from opduel.records import Commit, Report


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[RunningServer]:
    """Yield a server without runs that anybody may read."""
    with running_server(tmp_path, open_read=True) as server:
        yield server


@pytest.mark.parametrize(
    ("first", "second", "words", "indirect_estimate"),
    [
        (("a", "b"), ("a", "c"), "both runs have one control", 1.1 / 1.05),
        (("a", "c"), ("b", "c"), "both runs have one treatment", 1.05 / 1.1),
        (("a", "b"), ("b", "c"), "the treatment of one run is the control of the other", 1.05 * 1.1),
        (("b", "c"), ("a", "b"), "the treatment of one run is the control of the other", 1.05 * 1.1),
        (("a", "b"), ("a", "b"), "Both runs compared the same builds", 1.1 / 1.05),
        (("a", "b"), ("c", "d"), "The runs share no build", None),
    ],
)
def test_two_runs_imply_what_follows_from_the_build_they_share(
    empty: RunningServer, first: tuple[str, str], second: tuple[str, str], words: str, indirect_estimate: float | None
) -> None:
    empty.post(compared(*first, 1, 1.05))
    empty.post(compared(*second, 2, 1.1))
    page = get_page(empty, "/compare", first="run-1", second="run-2")
    assert get_page(empty, "/compare", first="run-2", second="run-1").text == page.text
    assert words in page.text
    named = [text for text in page.texts if text in ("Earlier", "Later")]
    assert named[:2] == ["Earlier", "Later"]  # the rows of the runs, before the heads of the columns
    assert "+5.0 %" in page.text
    assert "+10.0 %" in page.text
    if indirect_estimate is not None:
        assert f"{(indirect_estimate - 1) * 100:+.1f} %" in page.text.replace("+5.0 %", "", 1).replace("+10.0 %", "", 1)


@pytest.mark.parametrize("release_first", [True, False])
def test_the_newer_build_is_compared_with_the_older_one(empty: RunningServer, release_first: bool) -> None:
    """The newest commit against a release, and in the same night against the commit before it: that one is slower than
    the release, whichever run is opened first, or came first."""
    night, before = ("cd" * 20, 1_700_090_000), ("ab" * 20, 1_700_000_000)
    release = from_builds(1 if release_first else 2, None, night, 1.066)
    commit = from_builds(2 if release_first else 1, before, night, 1.0)
    for report in (release, commit):
        assert empty.post(report).status_code == 201
    for first, second in (("run-1", "run-2"), ("run-2", "run-1")):
        page = get_page(empty, "/compare", first=first, second=second)
        assert "abababababab against mxnet==1.8.0.post0" in page.text
        assert "+6.6 % [+5.1, +8.1]" in page.text


def from_builds(number: int, control: tuple[str, int] | None, treatment: tuple[str, int], ratio: float) -> Report:
    """Return a report of one case, between a commit (or the sample's release, for None) and another commit."""
    sides = []
    for side, build in ((samples.CONTROL, control), (samples.TREATMENT, treatment)):
        commit = None if build is None else Commit(build[0], build[1], "A <a@example.org>", "Change something")
        sides.append(replace(side, commit=commit, digest=build[0] if build else side.digest))
    comparison = samples.comparison("steady", ratio=ratio)
    return replace(numbered(number), control=sides[0], treatment=sides[1], comparisons=(comparison,), cases=())
