"""Two commits that need different Pythons are measured on one, unless the user names them; both names are checked
first."""

from dataclasses import replace

import pytest

from opduel.commands.builds import make_builds, of_one_python
from opduel.commands.harness_options import HarnessOptions
from opduel.frameworks import get_framework
from opduel.records import Build, Commit, UsageError

OLD = Build("python", "a", "source", "/p", "x 1", "3.11.7", "d", directory="/b", commit=Commit("1" * 40, 0, "A", "s"))
NEW = replace(OLD, python="3.12.1")
RELEASE, OWN = replace(OLD, commit=None), replace(OLD, commit=None, directory=None)


@pytest.mark.parametrize(
    ("control", "treatment", "request_text", "new_requests"),
    [
        (OLD, NEW, "main", ["main python==3.12"]),
        (RELEASE, NEW, "x==1", ["x==1 python==3.12"]),
        (RELEASE, NEW, "x==1 python==3.11", []),
        (OWN, NEW, "/venv", []),
        (NEW, NEW, "main", []),
        (RELEASE, replace(NEW, commit=None), "x==1", []),
    ],
)
def test_both_sides_have_one_python(
    control: Build, treatment: Build, request_text: str, new_requests: list[str]
) -> None:
    requests: list[str] = []

    def make(request: str) -> Build:
        requests.append(request)
        return NEW

    builds = of_one_python([control, treatment], [request_text, "HEAD"], make)
    assert requests == new_requests
    assert builds == [NEW if new_requests else control, treatment]


def test_both_names_are_checked_before_a_build_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opduel.commands.builds.resolve_build", lambda *_: pytest.fail("a build is made"))
    with pytest.raises(UsageError, match="HEAD~99999: "):
        make_builds(HarnessOptions(), get_framework("python"), ["six==1.16.0", "HEAD~99999"])
