"""The process that measures a shard: what it keeps of its rounds, and the host's own command before it."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from report_samples import CONTROL

from opduel.fleet import shard_process
from opduel.fleet.shard_process import StreamedRounds, program_here, reporting, run_before
from opduel.records import RunError


def test_the_program_of_a_commit_is_in_this_hosts_copy_of_its_build() -> None:
    path = "OPDUEL_PROGRAM"
    theirs = replace(
        CONTROL, interpreter="/their/python", directory="/their/build", environment={path: "/their/build/bin/x"}
    )
    own_build = replace(CONTROL, interpreter="/their/python", directory="/our/build", environment={})
    build = program_here(theirs, own_build)
    assert (build.interpreter, build.environment) == (sys.executable, {path: "/our/build/bin/x"})
    other_build = replace(theirs, environment={path: "/shared/x"})
    assert program_here(other_build, own_build).environment == {path: "/shared/x"}
    assert program_here(CONTROL, own_build) == own_build


def test_rounds_are_lines_whatever_else_ends_a_line(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    texts = ['{"output": "a\u2028b\u2029c\x85d\x0be"}', "{}"]
    rounds = StreamedRounds(tmp_path / "rounds")
    assert rounds.rounds() == []
    for text in texts:
        rounds.keep(text)
    assert rounds.rounds() == texts
    assert [json.loads(line)["text"] for line in capsysbinary.readouterr().out.split(b"\n")[:-1]] == texts
    with (tmp_path / "rounds").open("ab") as file:
        file.write(b'{"cut off')
    rounds.keep(texts[0])
    assert StreamedRounds(tmp_path / "rounds").rounds() == [*texts, '{"cut off', texts[0]]


LONG_S = 30.0


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("echo trying; echo no such disk >&2; exit 3", "--before_run ended with 3: no such disk"),
        ("exit 4", "--before_run ended with 4: it said nothing"),
        ("kill -9 $$", "--before_run was killed by signal 9: it said nothing"),
    ],
)
def test_one_that_fails_is_an_error(command: str, why: str) -> None:
    with pytest.raises(RunError, match=f"^{why}$"):
        run_before(command, LONG_S)


@pytest.mark.parametrize("command", ["true", "echo; echo dropped; exit 0"])
def test_one_that_succeeds_is_passed_over(command: str) -> None:
    run_before(command, LONG_S)


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + LONG_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def has_reader(pipe: Path) -> bool:
    """Tell whether a process was called with a named pipe."""
    return any(str(pipe) in (process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"]))


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """Return a named pipe that nobody writes to: a process that reads it waits until it is ended."""
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def test_one_that_takes_too_long_is_ended_with_all_that_it_started(pipe: Path) -> None:
    with pytest.raises(RunError, match=r"^--before_run took more than 0\.3 s: it was ended, and nothing"):
        run_before(f"cat {pipe} & sleep 60", 0.3)
    wait_until(lambda: not has_reader(pipe))


def test_it_is_reported_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[dict[str, str]] = []
    over = tmp_path / "over"

    def send(event: dict[str, str]) -> None:
        events.append(event)
        if len(events) > 1:
            over.touch()

    monkeypatch.setattr(shard_process, "EVENT_EVERY_S", 0.05)
    monkeypatch.setattr(shard_process, "_send_event", send)
    with reporting("before_run"):
        run_before(f"while [ ! -e {over} ]; do sleep 0.05; done", LONG_S)
    assert events[:2] == [{"event": "before_run"}] * 2


def test_an_interrupt_ends_it(pipe: Path, tmp_path: Path) -> None:
    """As that of a measuring process whose worker has gone."""
    begun = tmp_path / "begun"
    code = "import sys; from opduel.fleet.shard_process import run_before; run_before(sys.argv[1], 60)"
    command = [sys.executable, "-c", code, f"touch {begun}; cat {pipe}"]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2], stderr=subprocess.DEVNULL) as process:
        wait_until(begun.exists)
        process.send_signal(2)
        process.wait(LONG_S)
    wait_until(lambda: not has_reader(pipe))
