"""Two frameworks in one run: each side's builds know what they are, and both have the variables of both."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from made_samples import a_case

from opduel.frameworks import Framework
from opduel.frameworks.cross.framework import Cross
from opduel.records import Build, Case


class One(Framework):
    name = "one"
    import_name = None
    adaptor = Path("/adaptors/one.py")

    def environment(self, threads: int) -> Mapping[str, str]:
        return {"THREADS": str(threads), "ENGINE": "fast"}

    def can_fork(self, threads: int, context: str) -> bool:
        return True


class Other(One):
    adaptor = Path("/adaptors/other.py")

    def environment(self, threads: int) -> Mapping[str, str]:
        return {"THREADS": str(threads), "ENGINE": "slow", "MORE": "1"}

    def can_fork(self, threads: int, context: str) -> bool:
        return threads == 1


@pytest.fixture
def cross() -> Cross:
    found = Cross()
    found._sides = {"control": One(), "treatment": Other()}
    return found


def test_both_sides_have_the_variables_of_both_and_each_its_own_values(cross: Cross) -> None:
    build = Build("one", "one==1", "release", "/python", "1", "3.11.7", "digest", environment={"OWN": "here"})
    seen = {}
    for side in ("control", "treatment"):
        equipped = cross.equipped(side, build, 3)
        seen[side] = {**cross.environment(3), **equipped.environment}
    assert {name: one["THREADS"] for name, one in seen.items()} == {"control": "3", "treatment": "3"}
    assert {name: one["ENGINE"] for name, one in seen.items()} == {"control": "fast", "treatment": "slow"}
    assert {name: one["MORE"] for name, one in seen.items()} == {"control": "1", "treatment": "1"}
    assert seen["treatment"]["OPDUEL_ADAPTOR"] == "/adaptors/other.py"
    assert (seen["control"]["OPDUEL_SIDE"], seen["control"]["OWN"]) == ("control", "here")


def test_a_case_is_forked_where_both_can_be(cross: Cross) -> None:
    assert cross.can_fork(1, "cpu")
    assert not cross.can_fork(2, "cpu")


class Imports(One):
    def preparation(self, cases: Sequence[Case]) -> Mapping[str, str]:
        return {"IMPORTS": ",".join(case.operator for case in cases), "SIZE": "256,,256"}


def test_both_sides_import_what_either_needs() -> None:
    found = Cross()
    found._sides = {"control": Imports(), "treatment": Imports()}
    sides = (
        {"control": {"operator": one}, "treatment": {"operator": other}} for one, other in (("a", "b"), ("c", "a"))
    )
    cases = [replace(a_case(f"c{number}"), inputs=inputs) for number, inputs in enumerate(sides)]
    assert found.preparation(cases) == {"IMPORTS": "a,c,b", "SIZE": "256,,256"}
