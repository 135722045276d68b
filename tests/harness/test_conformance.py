"""The conformance test finds a framework that breaks what the harness relies on, and passes one that doesn't."""

import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from toy_bench import toy_case

from opduel.frameworks import Builds, Cases, Framework
from opduel.harness.conformance import CHECKS, Subject, check, failing
from opduel.records import Build, UsageError
from opduel.records.measurement import Side

HERE = Path(__file__).resolve().parent


class Toy(Framework):
    """One thread, one operator."""

    name = "toy"
    builds = Builds(import_name="toy")
    cases = Cases(namespaces={"toy": ()})
    adaptor = HERE / "conformance_toy.py"

    def __init__(self, broken: str = "", adaptor: Path | None = None) -> None:
        self.broken = broken
        if adaptor:
            self.adaptor = adaptor

    def environment(self, threads: int) -> Mapping[str, str]:
        """``TOY_CONTROLLER``: who is the parent of a process that is no fork."""
        variables = {"TOY_BROKEN": self.broken, "TOY_CONTROLLER": str(os.getpid())}
        fixed = self.broken == "knows no threads"
        return variables if fixed else {**variables, "TOY_THREADS": str(threads)}

    def can_fork(self, threads: int, context: str) -> bool:
        return self.broken != "can't be forked"


def subject(broken: str = "", adaptor: Path | None = None) -> Subject:
    def build(side: Side) -> Build:
        variables = {"TOY_SIDE": side}
        return Build("toy", "toy", "interpreter", sys.executable, "1.0", "3.11", "digest", environment=variables)

    case = toy_case("sum/forward", "toy.sum", size=8)
    timeout_s = 1.0 if broken == "needs its thread" else 20.0  # which then hangs
    return Subject(Toy(broken, adaptor), build("control"), build("treatment"), [replace(case, timeout_s=timeout_s)])


@pytest.fixture(autouse=True)
def short_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that never ends is given up soon."""
    monkeypatch.setattr(failing, "HANG_S", 1.0)


@pytest.mark.parametrize("name", CHECKS)
def test_a_framework_that_keeps_all_of_it_passes(name: str) -> None:
    assert check(name, subject()).problems == []


@pytest.mark.parametrize(
    ("broken", "name", "words"),
    [
        ("dies at import on one side", "start", "the treatment doesn't start: crash: exited with code 1"),
        ("other versions each time", "start", "return the same every time"),
        ("changes the environment", "environment", "TOY_THREADS is '1' for a worker, and '8' after the import"),
        ("has no calls", "cases", "make_call returned NoneType, not a function"),
        ("takes any argument", "refusals", "on the control: ran: raise an exception"),
        ("exits when it refuses", "refusals", "failed as crash, exited with code 1: raise an exception"),
        ("calls missing an error", "refusals", ': raise an exception that has kind = "missing"'),
        ("other inputs on one side", "inputs", "the inputs' digests differ"),
        ("other inputs in each process", "inputs", "the inputs' digests differ"),
        ("ignores the seed", "inputs", "the same with another seed"),
        ("other outputs in each process", "outputs", "two processes of one build differ"),
        ("computes nothing", "outputs", "no case's outputs change with its inputs"),
        ("ignores the limit", "outputs", "with a limit of 64 bytes"),
        ("writes another dtype", "outputs", "the file has 36 bytes, not 9 elements of 8"),
        ("names two outputs alike", "outputs", "two outputs have one name"),
        ("negative memory", "memory", "return a dict of devices and bytes"),
        ("ignores the direction", "directions", "backward computes no more than forward"),
        ("crashes when it refuses", "directions", "toy.sum, backward: crash: killed by SIGABRT"),
        ("needs its thread", "fork", "in a fork: timeout"),
        ("other outputs in a fork", "fork", "a fork computes something else"),
        ("gives up by itself", "faults", "was error on side treatment, not timeout on side treatment"),
        ("leaves a process", "faults", "a process was left behind: sleep 30"),
    ],
)
def test_what_a_framework_breaks_is_found(broken: str, name: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if broken == "leaves a process":  # which never ends
        monkeypatch.setattr(failing, "GRACE_S", 0.0)
    problems = check(name, subject(broken)).problems
    assert any(words in line for line in problems), problems


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ("ignores signals", "was measured, not crash on side treatment"),
        ("closes stdout", "was error on side treatment, not measured: ValueError: I/O operation on closed"),
        ("prints its outputs", ", not unchanged"),
    ],
)
def test_more_that_a_run_shows(broken: str, words: str) -> None:
    problems = check("faults", subject(broken)).problems
    assert any(words in line for line in problems), problems


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("versions = make_call = None\nif (n := 3):\n    pass\n", "is not valid Python 3.6"),
        ("versions = None\n", "has no function make_call(case, seed)"),
        (None, "there is no such adaptor"),
    ],
)
def test_the_adaptors_source_is_checked(tmp_path: Path, source: str | None, words: str) -> None:
    adaptor = tmp_path / "adaptor.py"
    if source is not None:
        adaptor.write_text(source)
    problems = check("adaptor", subject(adaptor=adaptor)).problems
    assert any(words in line for line in problems), problems


def test_what_an_adaptor_can_do_without_may_be_missing(tmp_path: Path) -> None:
    adaptor = tmp_path / "adaptor.py"
    adaptor.write_text("versions = make_call = None\n")
    assert check("adaptor", subject(adaptor=adaptor)).problems == []
    for name in ("inputs", "outputs", "memory"):
        outcome = check(name, subject(adaptor=adaptor))
        assert (len(outcome.notes), outcome.problems) == (1, [])


def test_what_does_not_apply_is_noted() -> None:
    assert "makes no difference" in check("environment", subject("knows no threads")).notes[0]
    assert "can't be forked" in check("fork", subject("can't be forked")).notes[0]


def test_a_subject_needs_a_case() -> None:
    with pytest.raises(UsageError, match="needs a case"):
        replace(subject(), cases=[])
