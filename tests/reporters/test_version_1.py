"""What version 1 wrote is read: real files that its programs made, kept as they were.

Each was made on 2026-11-22 by the version before the report's keys changed: reports of harness.py on two releases of
MXNet (several metrics; cut short by a signal; with verdicts held back; verified), a single-build run, a round log, a
spool that no server emptied, and the journals of repo_driver.py on a small native project (one after it ended, one
after kill -9 in mid-run).
"""

import json
import shutil
import sqlite3
from datetime import datetime
from pathlib import Path

import pytest

from opduel.harness.checkpoint import KeptRound, Start, from_text
from opduel.reporters import read_report
from opduel.reporters.document import from_text as report_of
from opduel.reporters.html.page import to_html
from opduel.reporters.remote.place import Place
from opduel.reporters.remote.spool import Spool, place_of
from opduel.reporters.single_document import read_single

WRITTEN = Path(__file__).resolve().parents[1] / "fixtures" / "version_1"
REPORTS = sorted(path.stem for path in WRITTEN.glob("*.json") if path.stem not in ("single", "culprits"))


@pytest.mark.parametrize("name", REPORTS)
def test_a_report(name: str) -> None:
    document = json.loads((WRITTEN / f"{name}.json").read_text())
    assert document["schema_version"] == 1
    report = read_report(WRITTEN / f"{name}.json")
    assert [one.case for one in report.comparisons] == [one["case"] for one in document["comparisons"]]
    for one, written in zip(report.comparisons, document["comparisons"], strict=True):
        assert (one.verdict, one.held_back, one.ratio) == (written["verdict"], written["held_back"], written["ratio"])
        assert len(one.samples) == len(written["samples"])
    assert len(report.run["incidents"]) == len(document["run"]["incidents"])
    assert document["run"]["id"] in to_html(report)


def test_a_single_build_run() -> None:
    document = json.loads((WRITTEN / "single.json").read_text())
    report = read_single(WRITTEN / "single.json")
    assert [one.case for one in report.cases] == [one["case"] for one in document["cases"]]
    assert [one.failure and one.failure.reason for one in report.cases] == [
        one["failure"] and one["failure"]["reason"] for one in document["cases"]
    ]


def check_rounds(texts: list[str]) -> None:
    """Whether these are a run's rounds, each with samples."""
    entries = [from_text(text) for text in texts]
    assert isinstance(entries[0], Start)
    rounds = [one for one in entries if isinstance(one, KeptRound)]
    assert rounds
    assert any(one.result.samples for one in rounds)
    assert all(sample.case_id in dict(one.planned) for one in rounds for sample in one.result.samples)


def test_a_round_log() -> None:
    header, *texts = (WRITTEN / "rounds.log").read_text().splitlines()
    assert "opduel_round_log" in header
    check_rounds(texts)


def rows(name: str, query: str) -> list[str]:
    """The texts that a journal's query gives."""
    connection = sqlite3.connect(f"file:{WRITTEN / name}?mode=ro&immutable=1", uri=True)
    try:
        return [text for (text,) in connection.execute(query)]
    finally:
        connection.close()


def test_a_journal_of_a_driver_that_ended() -> None:
    reports = [report_of(text) for text in rows("journal.db", "SELECT text FROM reports ORDER BY rowid")]
    assert [report.run["run_type"] for report in reports[:2]] == ["benchmark", "verify"]
    assert {one.verdict for one in reports[1].comparisons} == {"regressed"}


def test_a_journal_of_a_driver_that_was_killed() -> None:
    texts = rows("journal_with_rounds.db", "SELECT text FROM rounds ORDER BY run, number")
    check_rounds(texts)


def test_a_spool(tmp_path: Path) -> None:
    """A report that waits in a file is sent as it is, and its file goes only when the outbox has it."""
    spool = Spool(Path(shutil.copytree(WRITTEN / "spool", tmp_path / "spool")))
    (path,) = spool.directory.glob("*.report")
    header, _, body = path.read_bytes().partition(b"\n")
    for _ in range(2):
        (entry,) = spool.entries()
        assert not path.exists()
    expected = json.loads(header)
    assert (entry.key, place_of(entry)) == (expected["run"], Place(expected["endpoint"], expected["category"]))
    assert entry.created == datetime.fromisoformat(expected["kept"]).timestamp()
    with spool.outbox() as outbox:
        assert outbox.payload(entry) == body
    assert report_of(json.dumps(json.loads(body)["report"])).run["id"] == entry.key
