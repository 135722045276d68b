"""Commits that can't have changed a case are left out of a search for the one that did."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from made_runs import MadeHarness, a_build, a_commit

from opduel.driver.code_difference import CodeDifference, compare_installed
from opduel.driver.investigation import Investigation
from opduel.driver.journal import Journal
from opduel.driver.outcome import Culprit
from opduel.driver.revisions import Revision
from opduel.driver.runs import RunOrder, Runs
from opduel.driver.unreached import reachable_ranges
from opduel.records import Build
from opduel.records.reach import Reach

START = "def slow():\n    return 1\n\n\ndef other():\n    return 1\n"
SLOW, OTHER = "pkg.py:1", "pkg.py:5"


def of_other(number: int) -> str:
    return START.replace("other():\n    return 1", f"other():\n    return {number}")


def changed(text: str) -> str:
    return text.replace("slow():\n    return 1", "slow():\n    return 9")


# p4 changes what runs; of the others all but p3, which the whole of the module may depend on, change what doesn't.
TEXTS = [START, *map(of_other, (2, 3)), "print()\n" + of_other(4), "print()\n" + changed(of_other(5))]
TEXTS += ["print()\n" + changed(of_other(number)) for number in (6, 7, 8)]


class Commits:
    """A line of commits of a package of one file, with those that were built."""

    def __init__(self, folder: Path, texts: Sequence[str], unknown: Sequence[int] = ()) -> None:
        self.folder, self.unknown = folder, unknown
        self.built: list[str] = []
        for number, text in enumerate(texts):
            (folder / f"p{number}").mkdir()
            (folder / f"p{number}" / "pkg.py").write_text(text)
        self.revisions = [self._revision(number) for number in range(len(texts))]

    def _revision(self, number: int) -> Revision:
        def make(name: str) -> Build:
            self.built.append(name)
            return a_build(name, a_commit(number))

        def difference(build: Build) -> CodeDifference | None:
            if number in self.unknown:
                return None
            return compare_installed(self.folder / build.requested, self.folder / f"p{number}")

        return Revision(f"p{number}", make, a_commit(number), difference=difference)

    def reach(self, name: str, function: str) -> Reach:
        moved = (self.folder / name / "pkg.py").read_text().startswith("print")
        path, _, line = function.partition(":")
        return Reach(frozenset({f"{path}:{int(line) + moved}"}), modules=frozenset({"pkg.py"}))


@pytest.mark.parametrize(
    ("unknown", "cases", "expected"),
    [
        ((), {"a": SLOW}, {"a": (2, 4)}),
        ((), {"a": SLOW, "b": OTHER}, {"a": (2, 4)}),
        ((1,), {"a": SLOW}, {"a": (0, 4)}),
        ((6,), {"a": SLOW}, {"a": (2, 7)}),
        ((1, 6), {"a": SLOW}, {}),
    ],
    ids=["both ends", "another case", "control unknown", "treatment unknown", "unknown"],
)
def test_leading_and_last_commits_that_change_nothing_that_runs_are_left_out(
    unknown: Sequence[int], cases: Mapping[str, str], expected: Mapping[str, tuple[int, int]], tmp_path: Path
) -> None:
    commits = Commits(tmp_path, TEXTS, unknown)
    reaches = [{case: commits.reach(name, place) for case, place in cases.items()} for name in ("p0", "p7")]
    assert reachable_ranges(commits.revisions, (0, 7), (a_build("p0"), a_build("p7")), reaches) == expected


def test_where_it_is_not_known_what_a_case_runs_no_commit_is_left_out(tmp_path: Path) -> None:
    commits = Commits(tmp_path, TEXTS)
    ends, unknown = (a_build("p0"), a_build("p7")), {"a": Reach(unknown="it starts processes")}
    assert reachable_ranges(commits.revisions, (0, 7), ends, [unknown, unknown]) == {}


class Harness(MadeHarness):
    """Records what cases run; ``recorded`` are the builds."""

    def record(self, commits: Commits) -> None:
        self.commits, self.recorded = commits, list[str]()

    def reaches(self, order: RunOrder) -> Sequence[Mapping[str, Reach]]:
        names = order.control.requested, order.treatment.requested
        self.recorded += names
        return [{case: self.commits.reach(name, SLOW) for case in order.cases or ()} for name in names]


def search(commits: Commits) -> tuple[Culprit, Harness]:
    """Return the culprit of a case that p3 made slower."""
    harness = Harness({"a": {f"p{number}": 1.0 if number < 3 else 1.5 for number in range(9)}})
    harness.record(commits)
    journal = Journal(commits.folder / "journal.db")
    outcome = Investigation(commits.revisions, Runs(journal, harness, 0.0), journal, "").investigate(["regressed"])
    journal.close()
    (culprit,) = outcome.culprits or ()
    return culprit, harness


def test_of_commits_that_have_to_be_compiled_it_is_not_recorded_what_cases_run(tmp_path: Path) -> None:
    commits = Commits(tmp_path, [START] * 9, unknown=range(9))
    culprit, harness = search(commits)
    assert [revision.name for revision in culprit.revisions] == ["p2", "p3"]
    assert harness.recorded == []


def test_of_a_line_with_a_single_commit_that_can_have_changed_a_case_that_and_its_parent_are_built(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    texts = [*map(of_other, (1, 2, 3)), *(changed(of_other(number)) for number in range(4, 10))]
    commits = Commits(tmp_path, texts)
    culprit, harness = search(commits)
    assert [revision.name for revision in culprit.revisions] == ["p2", "p3"]
    assert commits.built == ["p0", "p8", "p2", "p3"]
    named = [(order.treatment.requested, order.first_bad) for order in harness.orders if order.first_bad]
    assert named == [("p3", {"a": "regressed"})]
    lines = [record.getMessage() for record in caplog.records if "left out" in record.getMessage()]
    assert lines == ["left out of the search: at least 7 of 8 commits, which the cases don't run"]
