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
from opduel.causes.collectors.process_pairs import Answers, Question, UnansweredError, ask_in_pairs
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


def ask(
    *cases: Case,
    pairs: int = 1,
    questions: Sequence[Question] = SHORT,
    deadline: float = math.inf,
    forks: bool = True,
    interpreter: str = sys.executable,
) -> Mapping[str, Answers]:
    framework = Special(forks)
    bench = toy_bench(TOY_CLOCK="real")
    builds = {side: replace(build, interpreter=interpreter) for side, build in bench.builds.items()}
    profiling = Profiling(replace(bench, adaptor=framework.adaptor, builds=builds), framework, 1, 7, deadline)
    return ask_in_pairs(profiling, cases, questions, pairs)


def reason(answers: Answers, op: str) -> str:
    """Why there is no answer to a question."""
    with pytest.raises(UnansweredError) as raised:
        answers.about(op)
    return str(raised.value)


def test_a_pair_says_what_a_side_does_more_and_a_crash_costs_its_case_alone() -> None:
    slower = toy_case("slower", "checksum", bytes=100_000, slower=3)
    questions = [*SHORT, LIBRARIES]
    answers_by_case = ask(slower, toy_case("crashes", "abort", only_on="treatment"), pairs=2, questions=questions)
    observations = function_observations(answers_by_case["slower"])
    assert len(observations) == 2
    for pair in observations:
        control, treatment = (pair[side]["zlib.crc32"] for side in SIDES)
        assert control.calls == treatment.calls == 1
        assert control.callers == {"toy_adaptor.make_call.<locals>.<lambda>": 1}
        assert 1.5 < treatment.amount / control.amount < 6
    resources = resource_observations(answers_by_case["slower"])
    assert [set(pair["control"]) for pair in resources["time"]] == 2 * [{"user code", "kernel", "waiting"}]
    crashed = answers_by_case["crashes"]
    assert crashed.failures == ["treatment: killed by SIGABRT"] * 2
    assert reason(crashed, "functions") == reason(crashed, "resources") == "treatment: killed by SIGABRT"
    assert len(answers_by_case["slower"].of["libraries"]) == 1  # asked once
    assert describe_differences(answers_by_case["slower"], toy_bench().builds) == ""
    loaded = answers_by_case["slower"].of["libraries"][0]["control"]["libraries"]
    assert {"Python"} <= {library["name"] for library in loaded}
    assert [
        library for library in loaded if library["name"].startswith("libc.") and library["build_id"] and library["size"]
    ]


def test_calls_that_say_how_they_are_timed() -> None:
    cases = [toy_case(name, name) for name in ("prepares", "times_itself", "device", "process")]
    answers_by_case = ask(*cases)
    (pair,) = function_observations(answers_by_case["prepares"])
    assert "zlib.adler32" not in pair["control"]  # is what comes before
    assert pair["control"]["zlib.crc32"].calls == 1
    refused = {name: reason(answers_by_case[name], "functions") for name in ("times_itself", "device", "process")}
    assert refused == {
        "times_itself": "the case is timed with a clock of its own, not call by call",
        "device": "the case is timed by a device's clock, not call by call",
        "process": "each call is a process of its own: its functions can't be seen from here",
    }
    resources = resource_observations(answers_by_case["process"])
    assert resources["minor page faults"][0]["control"]["minor page faults"].amount > 10  # those of the process


def test_native_code_of_both_sides_is_sampled() -> None:
    questions = [replace(SAMPLES, work_ns=1e8)]
    slower = toy_case("slower", "checksum", bytes=100_000, slower=3)
    answers_by_case = ask(slower, toy_case("process", "process"), questions=questions)
    if "samples" not in answers_by_case["slower"].of:  # in a container, say
        why_not = reason(answers_by_case["slower"], "samples")
        assert "the kernel gives no samples" in why_not
        pytest.skip(why_not)
    (pair,) = sample_observations(answers_by_case["slower"])
    name = max(pair["treatment"], key=lambda function: pair["treatment"][function].amount)
    assert name.startswith("crc32") or "libz" in name, "zlib's own function, or its library where that has no symbols"
    assert 1.5 < pair["treatment"][name].amount / pair["control"][name].amount < 6
    assert pair["treatment"][name].where.startswith(("libz", "zlib"))
    why = "each call is a process of its own: its code can't be sampled from here"
    assert reason(answers_by_case["process"], "samples") == why


def test_what_a_process_dies_of_is_not_asked_again_and_all_else_is() -> None:
    (answers,) = ask(toy_case("hooked", "dies_when_watched"), pairs=3).values()
    assert answers.problems == {"functions": "killed by SIGKILL (by hand, or a memory limit)"}
    assert len(answers.of["resources"]) == 2  # the pair in which it died had not come to that


def test_no_time_left_is_said_and_starts_no_worker() -> None:
    (answers,) = ask(toy_case("a"), deadline=time.monotonic() - 1, interpreter="/gone").values()
    assert (answers.of, answers.problems, answers.failures) == ({}, {}, [])
    assert reason(answers, "functions") == "the time budget was spent"
    (answers,) = ask(toy_case("a"), interpreter="/gone").values()
    assert reason(answers, "functions").endswith("could not be started (No such file or directory): /gone")


def test_cases_that_can_not_be_forked_have_pairs_of_their_own() -> None:
    answers_by_case = ask(toy_case("a", "unforked"), toy_case("b", "unforked"), forks=False)
    assert [len(answers.of["functions"]) for answers in answers_by_case.values()] == [1, 1]
