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
    framework = Cross()
    framework._sides = {"control": One(), "treatment": Other()}
    return framework


def test_both_sides_have_the_variables_of_both_and_each_its_own_values(cross: Cross) -> None:
    build = Build("one", "one==1", "release", "/python", "1", "3.11.7", "digest", environment={"OWN": "here"})
    environments = {}
    for side in ("control", "treatment"):
        equipped = cross.equipped(side, build, 3)
        environments[side] = {**cross.environment(3), **equipped.environment}
    assert {name: environment["THREADS"] for name, environment in environments.items()} == {
        "control": "3",
        "treatment": "3",
    }
    assert {name: environment["ENGINE"] for name, environment in environments.items()} == {
        "control": "fast",
        "treatment": "slow",
    }
    assert {name: environment["MORE"] for name, environment in environments.items()} == {
        "control": "1",
        "treatment": "1",
    }
    assert environments["treatment"]["OPDUEL_ADAPTOR"] == "/adaptors/other.py"
    assert (environments["control"]["OPDUEL_SIDE"], environments["control"]["OWN"]) == ("control", "here")


def test_a_case_is_forked_where_both_can_be(cross: Cross) -> None:
    assert cross.can_fork(1, "cpu")
    assert not cross.can_fork(2, "cpu")


class Imports(One):
    def preparation(self, cases: Sequence[Case]) -> Mapping[str, str]:
        return {"IMPORTS": ",".join(case.operator for case in cases), "SIZE": "256,,256"}


def test_both_sides_import_what_either_needs() -> None:
    framework = Cross()
    framework._sides = {"control": Imports(), "treatment": Imports()}
    sides = (
        {"control": {"operator": operator}, "treatment": {"operator": other}}
        for operator, other in (("a", "b"), ("c", "a"))
    )
    cases = [replace(a_case(f"c{number}"), inputs=inputs) for number, inputs in enumerate(sides)]
    assert framework.preparation(cases) == {"IMPORTS": "a,c,b", "SIZE": "256,,256"}
