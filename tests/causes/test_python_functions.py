"""The times of Python functions: what watching costs is not theirs, they add up to the call, and nothing breaks it."""

import cProfile
import statistics
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import explained
import numpy as np
import pytest
from worker_module import module

from opduel.causes.collectors.process_pairs import Answers, UnansweredError
from opduel.causes.collectors.python_functions import NOTE, function_note, function_observations, function_stacks
from opduel.records.cause import Part

SHUFFLED = [number * 7919 % 20011 for number in range(20000)]


TRACING = module("tracing")


@pytest.fixture(scope="module")
def functions() -> ModuleType:
    return module("functions")


def looked_at(functions: ModuleType, call: Callable[[], object], calls: int = 32, **how: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {"number": None, "before": lambda: None, "after": None, "own": [__file__]}
    answer: dict[str, Any] = functions.functions(call, calls, **{**usual, **how})
    return answer


def by_name(answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {function["name"]: function for function in answer["functions"]}


def balanced(functions: ModuleType, name: str) -> Callable[[], object]:
    """Thousands of tiny calls, and one sort that takes about as long when nothing is watched."""
    tiny = getattr(explained, name)
    tiny_ns = functions.lower_quartile([functions.timed(tiny, 2000) for _ in range(20)])
    sort_ns = functions.lower_quartile([functions.timed(explained.sort, SHUFFLED[:2000]) for _ in range(20)])
    turns = int(2000 * sort_ns / tiny_ns)

    def call() -> None:
        tiny(turns)
        explained.sort(SHUFFLED[:2000])

    return call


@pytest.mark.parametrize(
    ("name", "callees"),
    [
        ("many_tiny", ["explained.tiny"]),
        ("many_tiny_in_c", ["gc.isenabled"]),
        ("through_sum", ["builtins.sum", "explained.tiny_values"]),
    ],
    ids=["Python", "C", "from C"],
)
def test_many_tiny_calls_are_not_blamed_for_what_watching_costs(
    functions: ModuleType, name: str, callees: list[str]
) -> None:
    """They take half of the call. Unsubtracted, they would have four fifths of it, and more."""
    answers = [by_name(looked_at(functions, balanced(functions, name))) for _ in range(3)]
    shares = []
    for answer in answers:
        tiny = sum(answer[part]["ns"] for part in [f"explained.{name}", *callees])
        shares.append(tiny / (tiny + answer["builtins.sorted"]["ns"] + answer["explained.sort"]["ns"]))
    assert 0.3 < sorted(shares)[1] < 0.68, shares


def test_the_functions_add_up_to_the_unwatched_call(functions: ModuleType) -> None:
    answer = looked_at(functions, lambda: explained.sort(SHUFFLED))
    assert "seen_ns" not in answer
    assert sum(function["ns"] for function in answer["functions"]) == pytest.approx(answer["ns"])
    assert answer["functions"][0]["name"] == "builtins.sorted"
    assert answer["functions"][0]["ns"] > 0.8 * answer["ns"]


def test_names_places_calls_and_callers(functions: ModuleType) -> None:
    answer = looked_at(functions, explained.mixture)
    function_by_name = by_name(answer)
    count = function_by_name["explained.Counter.count"]
    first = explained.Counter.count.__code__.co_firstlineno
    assert (count["calls"], count["where"]) == (4, f"explained.py:{first}")
    assert count["callers"] == {"explained.mixture": 1}
    assert count["called_at"] == f"explained.py:{first + 1}"  # mostly by itself
    assert (function_by_name["explained.mixture"]["code"], function_by_name["builtins.sum"]["code"]) == (
        TRACING.fingerprint(explained.mixture.__code__),
        "",
    )
    total = function_by_name["builtins.sum"]
    assert total["where"] == total["called_at"] == f"explained.py:{explained.mixture.__code__.co_firstlineno + 4}"
    assert function_by_name["explained.numbers"]["callers"] == {"builtins.sum": 1}
    assert function_by_name["explained.Counter.parity"]["calls"] == function_by_name["explained.raising"]["calls"] == 1
    own = function_by_name["(the call itself)"]
    assert (own["calls"], own["callers"], own["where"]) == (1, {}, "")
    assert not [
        name for name in function_by_name if "_lsprof" in name or "profile" in name or "opduel_functions" in name
    ]


def test_two_calls_on_one_line_are_two_calls(functions: ModuleType) -> None:
    namespace: dict[str, Any] = {"__name__": "package.module"}
    source = "def inner(a): return a\ndef outer():\n    x = 1\n    return inner(x) + inner(x)\n"
    exec(compile(source, "/somewhere/site-packages/package/module.py", "exec"), namespace)
    inner = by_name(looked_at(functions, namespace["outer"]))["package.module.inner"]
    assert (inner["calls"], inner["callers"]) == (2, {"package.module.outer": 1})
    assert inner["where"].endswith("module.py:1")
    assert inner["called_at"].endswith("module.py:4")


def test_what_a_call_prepares_is_not_its_time_and_what_is_injected_is(functions: ModuleType) -> None:
    preparations = []

    def before() -> None:
        explained.many_tiny(3)
        preparations.append(1)

    answer = looked_at(functions, lambda: None, 12, number=3, before=before, after=lambda: explained.sort(SHUFFLED[:9]))
    function_by_name = by_name(answer)
    assert answer["calls"] == 12
    assert len(preparations) == 2 + 2 * 4
    assert "explained.tiny" not in function_by_name
    assert function_by_name["explained.sort"]["calls"] == 1


def test_a_case_that_profiles_itself_is_refused_and_one_that_raises_leaves_no_hook(functions: ModuleType) -> None:
    def profiles() -> None:
        recorder = cProfile.Profile()
        recorder.enable()
        recorder.disable()

    with pytest.raises((functions.Unseen, ValueError), match="profil"):
        looked_at(functions, profiles)
    with pytest.raises(ValueError, match="wrong"):
        looked_at(functions, explained.raising)
    assert sys.getprofile() is None


def test_the_calling_thread_alone_is_watched(functions: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.version_info < (3, 12):
        assert "explained.tiny" not in by_name(looked_at(functions, explained.in_a_thread))
    monkeypatch.setattr(functions.sys, "version_info", (3, 12))
    with pytest.raises(functions.Unseen, match="several Python threads"):
        looked_at(functions, explained.in_a_thread)


def test_the_doubt_is_of_calls_and_not_of_work(functions: ModuleType) -> None:
    """Of thousands of tiny calls much was subtracted; of one sort next to nothing, so that it is doubtful by no more
    than what the functions missed the call by."""
    function_by_name = by_name(looked_at(functions, balanced(functions, "many_tiny")))
    tiny, caller, sort = (
        function_by_name[name] for name in ("explained.tiny", "explained.many_tiny", "builtins.sorted")
    )
    assert tiny["doubt"] > 0.02 * tiny["ns"]
    assert caller["doubt"] > 0.02 * caller["ns"]
    assert sort["doubt"] < tiny["doubt"]


def test_the_doubt_is_what_others_may_have_instead(functions: ModuleType) -> None:
    assert functions.doubts((100.0, 500.0, 0.0), (10.0, 90.0)) == pytest.approx(2 * functions.LEFT * 10 * 0.9)
    assert functions.doubts((100.0, 500.0, 50.0), (100.0, 500.0)) == 0.0, "all that there is adds up"
    assert functions.doubts((0.0, 500.0, 0.0), (0.0, 90.0)) == 0.0
    assert functions.doubts((0.0, 500.0, 400.0), (0.0, 90.0)) == 90.0, "no more than all of it"
    function_by_name = by_name(looked_at(functions, lambda: explained.many_tiny(2000)))
    assert function_by_name["(the call itself)"]["inclusive_doubt"] == pytest.approx(0.0, abs=1e-6)
    assert function_by_name["explained.many_tiny"]["inclusive_doubt"] < function_by_name["explained.many_tiny"]["doubt"]


@pytest.mark.measures
def test_what_a_call_costs_is_the_called_function_s(functions: ModuleType) -> None:
    """``tiny`` does nothing: its time is that of its calls. Of five looks the least doubtful one decides: a processor
    that changes its speed within a look makes all of it doubtful."""
    looks = [by_name(looked_at(functions, lambda: explained.many_tiny(2000))) for _ in range(5)]
    look = min(looks, key=lambda one: one["explained.tiny"]["doubt"] / one["explained.tiny"]["ns"])
    assert look["explained.tiny"]["ns"] + look["explained.tiny"]["doubt"] > look["explained.many_tiny"]["ns"]


def test_resuming_a_generator_is_the_generator_s_time(functions: ModuleType) -> None:
    """A second layer of generators has time of its own; what watching adds to calls would be more than all of it."""
    function_by_name = by_name(looked_at(functions, lambda: explained.through_generators(2000)))
    inner, outer = function_by_name["explained.yielded"], function_by_name["explained.passed_on"]
    assert (inner["calls"], outer["calls"]) == (2001, 2001)
    assert outer["ns"] > 0.1 * inner["ns"]


def test_long_instructions_are_not_taken_for_many(functions: ModuleType) -> None:
    """Watching slows each instruction: a loop of short ones is not to have more than its share beside long ones.

    The median of five looks decides: while one lasts, the processor may change its speed by half.
    """

    def share_of_long() -> float:
        timed = functions.timed
        pairs = [(timed(explained.long_instructions, 200), timed(explained.many_turns, 4000)) for _ in range(20)]
        long, short = map(functions.lower_quartile, zip(*pairs, strict=True))
        turns = int(4000 * long / short)

        def call() -> None:
            explained.long_instructions(200)
            explained.many_turns(turns)

        function_by_name = by_name(looked_at(functions, call))
        long_ns, short_ns = (
            function_by_name[f"explained.{name}"]["ns"] for name in ("long_instructions", "many_turns")
        )
        return float(long_ns / (long_ns + short_ns))

    assert 0.4 < statistics.median(share_of_long() for _ in range(5)) < 0.6


def test_instructions_of_bytecode_are_counted() -> None:
    counts = TRACING.opcodes_of(explained.many_turns, 1000)
    assert counts is not None
    every, lookups = counts[explained.many_turns.__code__]
    assert every > 4000
    assert lookups <= 1  # range
    _, lookups = TRACING.opcodes_of(explained.looks_up, 100)[explained.looks_up.__code__]
    assert 100 <= lookups <= 102
    assert sys.gettrace() is None


def test_too_many_instructions_are_not_counted(functions: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TRACING, "MOST_OPCODES", 5000)
    assert TRACING.opcodes_of(explained.many_turns, 10_000) is None
    assert sys.gettrace() is None
    answer = looked_at(functions, lambda: explained.many_turns(10_000))
    assert by_name(answer)["explained.many_turns"]["ns"] > 0.5 * answer["ns"]


def test_time_is_divided_among_stacks_through_functions_in_c(functions: ModuleType) -> None:
    """``tiny`` runs under a function in C that calls back, for two callers of which one calls it twice as often."""

    def call() -> None:
        explained.through_sorted(100)
        explained.through_sorted_too(200)

    answer = looked_at(functions, call)
    names = [function["name"] for function in answer["functions"]]
    stacks = {tuple(names[place] for place in path): ns for path, ns in answer["stacks"]}
    function_by_name = by_name(answer)
    tiny, outermost = function_by_name["explained.tiny"], sum(function["ns"] for function in function_by_name.values())
    assert sum(stacks.values()) == pytest.approx(outermost)
    path = "explained.through_sorted", "builtins.sorted", "explained.tiny"
    assert stacks[path] == pytest.approx(tiny["ns"] / 3)
    assert stacks["explained.through_sorted_too", *path[1:]] == pytest.approx(tiny["ns"] * 2 / 3)
    assert function_by_name["builtins.sorted"]["inclusive"] == pytest.approx(
        function_by_name["builtins.sorted"]["ns"] + tiny["ns"]
    )
    assert function_by_name["(the call itself)"]["inclusive"] == pytest.approx(outermost)
    assert tiny["inclusive"] == pytest.approx(tiny["ns"])
    first = function_by_name["explained.through_sorted"]
    under = [ns for path, ns in stacks.items() if path[0] == "explained.through_sorted"]
    assert first["inclusive"] == pytest.approx(sum(under))
    assert first["inclusive"] > first["ns"] + tiny["ns"] / 3


def test_of_a_recursion_s_levels_a_stack_has_one(functions: ModuleType) -> None:
    answer = looked_at(functions, lambda: explained.Counter().count(50))
    names = [function["name"] for function in answer["functions"]]
    stacks = {tuple(names[place] for place in path) for path, _ in answer["stacks"]}
    assert stacks == {("explained.Counter.count",), ("(the call itself)",)}
    tracer = TRACING.Tracer()
    tracer.run(lambda: explained.Counter().count(50), 1)
    assert len(tracer.stacks) < 5


def part(ns: float, added: float = 0, slowed: float = 0) -> dict[str, float]:
    return {"seen": ns, "added": added, "slowed": slowed}


def test_what_is_too_much_is_taken_from_those_that_watching_slows(functions: ModuleType) -> None:
    parts = {"tiny": part(1000, 900, 40), "bytecode": part(150, 0, 60), "c": part(100)}
    assert functions.settled(parts, 60 + 90 + 100) == ({"tiny": 60, "bytecode": 90, "c": 100}, None, 0)
    times, far, missed = functions.settled(parts, 220)
    assert missed == pytest.approx(30)
    assert sum(times.values()) == pytest.approx(220)
    assert times["c"] == pytest.approx(100)
    assert times["bytecode"] < 90
    assert far is None


def test_what_was_taken_in_vain_is_given_back(functions: ModuleType) -> None:
    times, far, _ = functions.settled({"c": part(100), "bytecode": part(150, 0, 60)}, 220)
    assert (times, far) == ({"c": 100, "bytecode": pytest.approx(120)}, None)


def test_the_less_it_adds_up_the_more_is_doubtful(functions: ModuleType) -> None:
    own_part, total = (400.0, 600.0), 1100.0
    doubts = [functions.doubts((500.0, total, missed), own_part) for missed in (0.0, 100.0)]
    assert doubts[0] == pytest.approx(2 * functions.LEFT * 400 * 0.2)
    assert doubts[1] - doubts[0] == pytest.approx(100 * (1 - 600 / 1100)), "no more than others can lack"
    small = [functions.doubts((500.0, total, missed), (10.0, 33.0)) for missed in (0.0, 100.0)]
    assert small[1] - small[0] == pytest.approx(100 * functions.UNEVEN * 33 / 1100), "a function of 3 % of the time"


def test_what_is_far_from_the_call_is_left_as_it_was_seen(functions: ModuleType) -> None:
    times, far, _ = functions.settled({"c": part(100), "python": part(50, 60)}, 250)
    assert far == pytest.approx(150)
    assert times == {"c": 100, "python": 50}
    times, far, _ = functions.settled({"c": part(190)}, 200)
    assert (times, far) == ({"c": pytest.approx(200)}, None)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("<built-in method builtins.len>", "builtins.len"),
        ("<method 'sort' of 'numpy.ndarray' objects>", "numpy.ndarray.sort"),
        ("<built-in method __new__ of type object at 0x7f3a5c>", "type.__new__"),
        ("<built-in function linear>", "linear"),
        ("<cyfunction ufunc at 0x7f3a5c>", "cyfunction ufunc"),
    ],
)
def test_names_of_functions_in_c_are_the_same_in_every_process(text: str, name: str) -> None:
    assert TRACING.name_of_text(text) == name


def test_a_fingerprint_is_of_what_a_function_does() -> None:
    def of(text: str) -> str:
        namespace: dict[str, Any] = {}
        exec(text, namespace)
        return str(TRACING.fingerprint(namespace["f"].__code__))

    fingerprint = of("def f(x):\n    return [g(x, 3) for _ in x]\n")
    assert fingerprint == of("# moved\n\ndef f(x):\n    # a comment\n    return [g(x, 3) for _ in x]\n")
    assert of('def f(x):\n    """Says\n    much."""\n    return 1') == of(
        'def f(x):\n    """Says\n    more."""\n    return 1'
    )
    assert of("def f(x):\n    return 'a' * 99 + 'b\\n'") != of("def f(x):\n    return 'a' * 99 + 'c\\n'")
    other_sources = ("g(x, 4) for _ in x", "h(x, 3) for _ in x", "g(x, 3) for _ in x if x", "g(x, '3') for _ in x")
    assert len({fingerprint, *(of(f"def f(x):\n    return [{other}]\n") for other in other_sources)}) == 1 + len(
        other_sources
    )


def answered(**more: float) -> Answers:
    function = {"name": "f", "ns": 3.0, "calls": 2.0, "where": "f.py:1", "called_at": "g.py:7", "callers": {"g": 1.0}}
    other = {"name": "g", "ns": 1.0, "calls": 1.0, "where": "", "called_at": "", "callers": {}, "inclusive": 4.0}
    function, other = (
        {**function, "doubt": 0.5, "inclusive_doubt": 0.25, "code": "ab12"},
        {**other, "doubt": 0.0, "inclusive_doubt": 0.0, "code": ""},
    )
    stacks = [[[1, 0], 2.0], [[0], 1.0], [[1], 1.0]]
    answer = {"ns": 4.0, "calls": 10, "functions": [{**function, "inclusive": 3.0}, other], "stacks": stacks, **more}
    nothing = {**answer, "functions": [], "stacks": []}
    return Answers({"functions": [{"control": answer, "treatment": nothing}, {"control": answer, "treatment": answer}]})


def test_answers_become_observations_with_what_limits_them() -> None:
    inner = Part(3.0, 2.0, "f.py:1", {"g": 1.0}, "g.py:7", 3.0, doubt=0.5, inclusive_doubt=0.25, code="ab12")
    parts = {"f": inner, "g": Part(1.0, 1.0, inclusive=4.0)}
    assert function_observations(answered()) == [
        {"control": parts, "treatment": {}},
        {"control": parts, "treatment": parts},
    ]
    stacks = {("g", "f"): 2.0, ("f",): 1.0, ("g",): 1.0}
    half = {path: ns / 2 for path, ns in stacks.items()}
    assert function_stacks(answered()) == {"control": stacks, "treatment": half}
    assert function_stacks(Answers()) == {}
    assert function_note(answered()) == NOTE
    assert function_note(answered(seen_ns=3.0)).startswith("control: the functions added up to 75% of what")
    with pytest.raises(UnansweredError, match="control: killed"):
        function_observations(Answers(failures=["control: killed"]))


@pytest.mark.skipif(sys.version_info < (3, 11), reason="older profilers say no module")
def test_a_function_of_pybind11_has_the_profilers_name() -> None:
    from scipy.fft._pocketfft import pypocketfft

    profiler = cProfile.Profile()
    profiler.runcall(pypocketfft.c2c, np.ones(8, complex))
    assert TRACING.text_of(pypocketfft.c2c) in {entry.code for entry in profiler.getstats()}


def test_process_pairs_whose_functions_do_not_add_up_are_left_out_where_enough_others_do() -> None:
    sound, off = answered().of["functions"][1], answered(seen_ns=9.0).of["functions"][1]
    observations = Answers({"functions": [sound, off, sound, sound]})
    assert len(function_observations(observations)) == 3
    assert function_note(observations).startswith(
        "1 of 4 process pairs left out, whose functions did not add up to the call;"
    )
    few = Answers({"functions": [sound, off, sound]})
    scaled_parts = function_observations(few)[1]["control"]
    assert sum(part.amount for part in scaled_parts.values()) == pytest.approx(4.0 * 4.0 / 9.0)
    assert function_note(few).startswith("control: the functions added up to 225%")
