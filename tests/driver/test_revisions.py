"""The points of a line: what they are called, how they are built, and whose fault it is when they can't be."""

from types import SimpleNamespace
from typing import Any

import pytest
from made_runs import a_build, a_commit

from opduel.driver.revisions import Revision, UnbuildableError, commit_revision
from opduel.records import BrokenBuildError, Build, NoSpaceError, OpduelError, RunError, UsageError


def test_a_commit_is_built_by_its_line_s_strategy() -> None:
    calls = []

    def build(*arguments: object) -> Build:
        calls.append(arguments)
        return a_build("built")

    builder: Any = SimpleNamespace(build=build, is_cached=lambda commit, strategy: strategy == "source")
    revision = commit_revision(a_commit(1), builder, "source", frozenset({0}))
    assert revision.name == a_commit(1).short
    assert revision.build() == a_build("built")
    assert calls == [(a_commit(1), "source", frozenset({0}))]
    assert revision.is_cached()
    assert not commit_revision(a_commit(1), builder, "library").is_cached()


def test_a_release_is_resolved_by_its_name_and_needs_no_compiler() -> None:
    revision = Revision("toy==1.0", a_build)
    assert revision.build() == a_build("toy==1.0")
    assert (revision.commit, revision.is_cached()) == (None, True)


def test_an_error_names_the_point_once() -> None:
    error = UnbuildableError("p2", "does not compile")
    assert (str(error), error.revision, error.reason) == (
        "p2 can't be built: does not compile",
        "p2",
        "does not compile",
    )


@pytest.mark.parametrize(
    ("error", "becomes", "lasting"),
    [
        (BrokenBuildError("does not compile"), UnbuildableError, True),
        (RunError("the package index can't be reached"), UnbuildableError, False),
        (NoSpaceError("the disk is full"), NoSpaceError, None),
        (UsageError("no such platform"), UsageError, None),
    ],
)
def test_a_point_tells_whether_it_is_at_fault_itself(
    error: OpduelError, becomes: type[OpduelError], lasting: bool | None
) -> None:
    def build(*_: object) -> Build:
        raise error

    builder: Any = SimpleNamespace(build=build)
    for revision in (commit_revision(a_commit(1), builder, "source"), Revision("p1", build)):
        with pytest.raises(becomes) as raised:
            revision.build()
        assert getattr(raised.value, "lasting", None) is lasting
