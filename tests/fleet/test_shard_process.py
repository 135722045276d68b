"""The process that measures a shard: what it keeps of its rounds."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from report_samples import CONTROL

from opduel.fleet import shard_process
from opduel.fleet.shard_process import StreamedRounds, program_here


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
