"""Trying cases once: those that crash, hang or refuse cost nothing but themselves."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from toy_bench import toy_build, toy_case

from opduel.frameworks import Builds, Framework
from opduel.harness.other_runs.smoke_check import smoke_check
from opduel.records import RunError


class Toy(Framework):
    name = "toy"
    builds = Builds(import_name="toy")

    def __init__(self, adaptor: str = "toy_adaptor.py") -> None:
        self._adaptor = adaptor

    @property
    def adaptor(self) -> Path:
        return Path(__file__).with_name(self._adaptor)

    def environment(self, threads: int) -> Mapping[str, str]:
        return {}

    def can_fork(self, threads: int, context: str) -> bool:
        return True


def test_each_case_is_reported_whatever_happens_to_the_others() -> None:
    names = ["work", "abort", "refuse", "hang", "segfault_like_exit", "garbage", "remember", "kill", "missing"]
    cases = [toy_case(f"{number}", name) for number, name in enumerate([*names, "remember", "work"])]
    attempts = list(smoke_check(toy_build("control"), Toy(), cases, limit_s=2.0))
    assert [attempt.case for attempt in attempts] == cases
    reasons = [attempt.reason for attempt in attempts]
    assert reasons == [
        None,
        "killed by SIGABRT",
        "ValueError: Shapes (2,) and (3,)",
        "no answer within 2 s (prepare)",
        "exited with code 255, having printed 'Segmentation fault'",
        None,
        None,
        "killed by SIGKILL (by hand, or a memory limit)",
        "MissingOperator: toy 1.0 has no operator nd.gone",
        None,
        None,
    ]


def test_variables_of_the_user_are_set() -> None:
    for env, says in ((None, "KeyError: 'TOY_REPORTS'"), ({"TOY_REPORTS": "1,2"}, None)):
        (attempt,) = smoke_check(toy_build("control"), Toy(), [replace(toy_case("a"), metric="value")], env=env)
        assert attempt.reason == says


def test_a_build_that_can_not_be_started_fails_its_cases_then_the_trial() -> None:
    attempts = smoke_check(toy_build("control"), Toy("gone.py"), [toy_case(name) for name in "abc"])
    assert "exited with code 1" in (next(attempts).reason or "")
    with pytest.raises(RunError, match="could not be started 3 times in a row"):
        list(attempts)
