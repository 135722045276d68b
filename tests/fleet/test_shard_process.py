"""The process that measures a shard: what it keeps of its rounds, and the host's own command before it."""

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

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


def test_rounds_are_lines_whatever_else_ends_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent_texts: list[str] = []
    monkeypatch.setattr(shard_process, "_send_event", lambda event: sent_texts.append(event["text"]))
    texts = ['{"output": "a\u2028b\u2029c\x85d\x0be"}', "{}"]
    rounds = StreamedRounds(tmp_path / "rounds")
    assert rounds.rounds() == []
    for text in texts:
        rounds.keep(text)
    assert rounds.rounds() == texts
    assert sent_texts == texts
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


def test_one_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    wrote = tmp_path / "wrote"
    with pytest.raises(RunError, match=r"^--before_run took more than 0\.3 s: it was ended, and nothing"):
        run_before(f"(sleep 1; touch {wrote}) & sleep 60", 0.3)
    time.sleep(1)
    assert not wrote.exists()


def test_it_is_reported_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[dict[str, str]] = []
    monkeypatch.setattr(shard_process, "EVENT_EVERY_S", 0.2)
    monkeypatch.setattr(shard_process, "_send_event", events.append)
    with reporting("before_run"):
        run_before("sleep 0.7", LONG_S)
    assert len(events) > 1
    assert events[0] == {"event": "before_run"}


def test_an_interrupt_ends_it(tmp_path: Path) -> None:
    """As that of a measuring process whose worker has gone."""
    start_file, wrote = tmp_path / "begun", tmp_path / "wrote"
    code = "import sys; from opduel.fleet.shard_process import run_before; run_before(sys.argv[1], 60)"
    command = [sys.executable, "-c", code, f"touch {start_file}; sleep 1; touch {wrote}; sleep 60"]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2], stderr=subprocess.DEVNULL) as process:
        end = time.monotonic() + LONG_S
        while not start_file.exists():
            assert time.monotonic() < end
            time.sleep(0.02)
        process.send_signal(2)
        process.wait(LONG_S)
    time.sleep(1)
    assert not wrote.exists()
