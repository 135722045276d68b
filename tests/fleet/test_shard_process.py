"""The process that measures a shard: what it keeps of its rounds."""

from pathlib import Path

import pytest

from opduel.fleet import shard_process
from opduel.fleet.shard_process import StreamedRounds


def test_rounds_are_lines_whatever_else_ends_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(shard_process, "_say", lambda what: told.append(what["text"]))
    texts = ['{"output": "a\u2028b\u2029c\x85d\x0be"}', "{}"]
    rounds = StreamedRounds(tmp_path / "rounds")
    assert rounds.rounds() == []
    for text in texts:
        rounds.keep(text)
    assert rounds.rounds() == texts
    assert told == texts
    with (tmp_path / "rounds").open("ab") as file:
        file.write(b'{"cut off')
    rounds.keep(texts[0])
    assert StreamedRounds(tmp_path / "rounds").rounds() == [*texts, '{"cut off', texts[0]]
