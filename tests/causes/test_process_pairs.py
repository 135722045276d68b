"""Process pairs that are asked why cases changed: what fails costs its case, or its question, alone."""

import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from test_smoke_check import Toy
from toy_bench import toy_bench, toy_case

from opduel.causes.collectors.libraries import QUESTION as LIBRARIES
from opduel.causes.collectors.libraries import describe_differences
from opduel.causes.collectors.process_pairs import Answers, Question, ask_in_pairs
from opduel.causes.collectors.python_functions import QUESTION as FUNCTIONS
from opduel.causes.collectors.python_functions import function_observations
from opduel.causes.collectors.resources import QUESTION as RESOURCES
from opduel.causes.collectors.resources import resource_observations
from opduel.causes.collectors.sampled_functions import QUESTION as SAMPLES
from opduel.causes.collectors.sampled_functions import sample_observations
from opduel.harness.profiles import Profiling
from opduel.records import Case
from opduel.records.measurement import SIDES

SHORT = [replace(FUNCTIONS, work_ns=2e6), replace(RESOURCES, work_ns=2e6)]


class Special(Toy):
    """Cases that say how they are timed."""

    def __init__(self, forks: bool = True) -> None:
        super().__init__()
        self.forks = forks

    @property
    def adaptor(self) -> Path:
        return Path(__file__).with_name("explained_adaptor.py")

    def can_fork(self, threads: int, context: str) -> bool:
        return self.forks


def asked(
    *cases: Case,
    pairs: int = 1,
    questions: Sequence[Question] = SHORT,
    deadline: float = math.inf,
    inject: float = 0.0,
    forks: bool = True,
    interpreter: str = sys.executable,
) -> Mapping[str, Answers]:
    framework = Special(forks)
    bench = toy_bench(TOY_CLOCK="real")
    builds = {side: replace(build, interpreter=interpreter) for side, build in bench.builds.items()}
    profiling = Profiling(replace(bench, adaptor=framework.adaptor, builds=builds), framework, 1, 7, deadline)
    return ask_in_pairs(profiling, cases, questions, pairs, inject)


def test_a_pair_says_what_a_side_does_more_and_a_crash_costs_its_case_alone() -> None:
    slower = toy_case("slower", "checksum", bytes=100_000, slower=3)
    questions = [*SHORT, LIBRARIES]
    found = asked(slower, toy_case("crashes", "abort", only_on="treatment"), pairs=2, questions=questions)
    observations = function_observations(found["slower"])
    assert len(observations) == 2
    for pair in observations:
        assert not isinstance(pair, str)
        control, treatment = (pair[side]["zlib.crc32"] for side in SIDES)
        assert control.calls == treatment.calls == 1
        assert control.callers == {"toy_adaptor.make_call.<locals>.<lambda>": 1}
        assert 1.5 < treatment.amount / control.amount < 6
    resources = resource_observations(found["slower"])
    assert not isinstance(resources, str)
    assert [set(pair["control"]) for pair in resources["time"]] == 2 * [{"user code", "kernel", "waiting"}]
    crashed = found["crashes"]
    assert crashed.failures == ["treatment: killed by SIGABRT"] * 2
    assert function_observations(crashed) == resource_observations(crashed) == "treatment: killed by SIGABRT"
    assert len(found["slower"].of["libraries"]) == 1  # asked once
    assert describe_differences(found["slower"], toy_bench().builds) == ""
    loaded = found["slower"].of["libraries"][0]["control"]["libraries"]
    assert {"Python"} <= {one["name"] for one in loaded}
    assert [one for one in loaded if one["name"].startswith("libc.") and one["build_id"] and one["size"]]


def test_calls_that_say_how_they_are_timed() -> None:
    cases = [toy_case(name, name) for name in ("prepares", "times_itself", "device", "process")]
    found = asked(*cases)
    (pair,) = function_observations(found["prepares"])
    assert not isinstance(pair, str)
    assert "zlib.adler32" not in pair["control"]  # is what comes before
    assert pair["control"]["zlib.crc32"].calls == 1
    refused = {name: function_observations(found[name]) for name in ("times_itself", "device", "process")}
    assert refused == {
        "times_itself": "the case is timed with a clock of its own, not call by call",
        "device": "the case is timed by a device's clock, not call by call",
        "process": "each call is a process of its own: its functions can't be seen from here",
    }
    resources = resource_observations(found["process"])
    assert not isinstance(resources, str)
    assert resources["minor page faults"][0]["control"]["minor page faults"].amount > 10  # those of the process


def test_native_code_of_both_sides_is_sampled() -> None:
    questions = [replace(SAMPLES, work_ns=1e8)]
    slower = toy_case("slower", "checksum", bytes=100_000, slower=3)
    found = asked(slower, toy_case("process", "process"), questions=questions)
    observations = sample_observations(found["slower"])
    if isinstance(observations, str):  # in a container, say
        assert "the kernel gives no samples" in observations
        pytest.skip(observations)
    (pair,) = observations
    name = max(pair["treatment"], key=lambda one: pair["treatment"][one].amount)
    assert name.startswith("crc32") or "libz" in name, "zlib's own function, or its library where that has no symbols"
    assert 1.5 < pair["treatment"][name].amount / pair["control"][name].amount < 6
    assert pair["treatment"][name].where.startswith(("libz", "zlib"))
    assert sample_observations(found["process"]) == (
        "each call is a process of its own: its code can't be sampled from here"
    )


def test_what_a_process_dies_of_is_not_asked_again_and_all_else_is() -> None:
    (found,) = asked(toy_case("hooked", "dies_when_watched"), pairs=3).values()
    assert found.problems == {"functions": "killed by SIGKILL (by hand, or a memory limit)"}
    assert len(found.of["resources"]) == 2  # the pair in which it died had not come to that


def test_no_time_left_is_said_and_starts_no_worker() -> None:
    (found,) = asked(toy_case("a"), deadline=time.monotonic() - 1, interpreter="/gone").values()
    assert (found.of, found.problems, found.failures) == ({}, {}, [])
    assert function_observations(found) == "the time budget was spent"
    (found,) = asked(toy_case("a"), interpreter="/gone").values()
    assert function_observations(found).endswith("could not be started (No such file or directory): /gone")


def test_cases_that_can_not_be_forked_have_pairs_of_their_own() -> None:
    found = asked(toy_case("a", "unforked"), toy_case("b", "unforked"), forks=False)
    assert [len(one.of["functions"]) for one in found.values()] == [1, 1]


def test_what_is_injected_is_part_of_the_call() -> None:
    (found,) = asked(toy_case("a", "checksum", bytes=100_000), inject=1.0).values()
    (pair,) = function_observations(found)
    assert not isinstance(pair, str)
    whole = {side: sum(part.amount for part in pair[side].values()) for side in SIDES}
    assert pair["treatment"]["(the call itself)"].amount > 0.25 * whole["treatment"]
    assert pair["control"]["(the call itself)"].amount < 0.25 * whole["control"]
