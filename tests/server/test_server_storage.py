"""Reports in the database: whole, once, all or nothing; on SQLite and on PostgreSQL alike."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import report_samples as samples
from postgres import Postgres
from results_server import numbered, running_server
from sqlalchemy import Pool, event, func, select, text
from sqlalchemy.orm import Session

from opduel.records import Commit, Report, UsageError
from opduel.reporters.document import to_bytes
from opduel.server.database import Database
from opduel.server.models import Base, Case, Document, Result, Run
from opduel.server.storage import remove_runs

COMMIT = Commit("0123456789abcdef" * 2 + "01234567", 1_700_000_000, "A <a@example.org>", "Make it quicker")


def rows(session: Session, *tables: type[Base]) -> list[int]:
    """How many rows the tables have."""
    return [session.scalar(select(func.count()).select_from(table)) or 0 for table in tables]


def from_commits(report: Report) -> Report:
    """``report`` with a treatment that was made from a commit."""
    return replace(report, treatment=replace(samples.TREATMENT, commit=COMMIT))


def test_a_report_is_kept_whole_and_listed(tmp_path: Path, database_url: str) -> None:
    report = from_commits(numbered(7, user_identifier="mine"))
    with running_server(tmp_path, database_url) as server:
        first, again = server.post(report), server.post(report)
        assert (first.status_code, first.json()) == (201, {"run_id": "run-7", "stored": True, "page": "/runs/run-7"})
        assert (again.status_code, again.json()) == (200, {"run_id": "run-7", "stored": False, "page": "/runs/run-7"})
        with server.client("read") as client:
            assert client.get("/api/v1/runs/run-7/report").content == to_bytes(report)
        with server.database.reading() as session:
            run = session.scalars(select(Run)).one()
            assert (run.category, run.received_from, run.user_identifier) == ("nightly", "writes", "mine")
            assert run.started.isoformat() == "2024-03-01T00:07:00+00:00"
            assert (run.control_commit, run.treatment_commit) == (None, COMMIT.id)
            assert (run.treatment_commit_time, run.treatment_commit_subject) == (COMMIT.time, COMMIT.subject)
            verdicts = (run.regressed, run.improved, run.unchanged, run.inconclusive, run.failed)
            assert (*verdicts, run.broken_by_treatment) == (2, 1, 1, 1, 1, 1)
            result_by_case = {case.case: result for result, case in session.execute(select(Result, Case).join(Case))}
        assert set(result_by_case) == {comparison.case for comparison in report.comparisons}
        for comparison in report.comparisons:
            row = result_by_case[comparison.case]
            assert (row.ratio, row.control, row.treatment, row.rounds) == (
                comparison.ratio,
                comparison.control,
                comparison.treatment,
                comparison.rounds,
            )
            assert (row.ci_low, row.ci_high) == (comparison.ci or (None, None))
        assert result_by_case["broken"].failure_kind == "crash"


def test_another_report_or_category_under_its_id_is_refused(tmp_path: Path, database_url: str) -> None:
    with running_server(tmp_path, database_url) as server:
        assert server.post(numbered(1)).status_code == 201
        other = server.post(numbered(1, seed=8))
        assert (other.status_code, other.json()) == (409, {"detail": "another report has the run id run-1"})
        answer = server.post(numbered(1), "weekly")
        assert answer.status_code == 409
        assert "in the category nightly" in answer.json()["detail"]
        with server.database.reading() as session:
            assert rows(session, Run, Document) == [1, 1]


def test_a_run_that_is_removed_leaves_nothing_and_may_come_again(tmp_path: Path, database_url: str) -> None:
    first, second = numbered(1), replace(numbered(2), comparisons=(samples.comparison("its own"),), cases=())
    with running_server(tmp_path, database_url) as server:
        for report in (first, second):
            assert server.post(report).status_code == 201
        unknown = pytest.raises(UsageError, match=r"run remove run-3: there is no run of this id")
        with unknown, server.database.writing() as session:
            remove_runs(session, ["run-1", "run-3"])
        with server.database.reading() as session:
            everything = rows(session, Run, Document, Result, Case)
        assert everything == [2, 2, len(first.comparisons) + 1, len(first.comparisons) + 1]
        with server.database.writing() as session:
            remove_runs(session, ["run-1"])
        with server.database.reading() as session:
            assert rows(session, Run, Document, Result, Case) == [1, 1, 1, 1]
        with server.client("read") as client:
            assert client.get("/api/v1/runs/run-1").status_code == 404
            assert client.get("/api/v1/runs/run-2").status_code == 200
        assert server.post(first).status_code == 201
        with server.database.reading() as session:
            assert rows(session, Run, Document, Result, Case) == everything


def test_posts_at_once_store_each_run_once_and_share_cases(tmp_path: Path, database_url: str) -> None:
    """Ten runs, each posted twice, their cases in two orders: nobody waits for ever, nothing is there twice."""
    cases = [samples.comparison(f"case {number:03d}") for number in range(60)]
    reports = [
        replace(numbered(number), comparisons=tuple(cases if number % 2 else reversed(cases))) for number in range(10)
    ]
    with running_server(tmp_path, database_url) as server, ThreadPoolExecutor(8) as pool:
        answers = [answer.status_code for answer in pool.map(server.post, reports * 2)]
        assert sorted(answers) == [200] * 10 + [201] * 10
        with server.database.reading() as session:
            assert rows(session, Run, Document, Case, Result) == [10, 10, 60, 600]


def test_what_is_known_of_a_case_is_as_the_last_report_has_it(tmp_path: Path, database_url: str) -> None:
    renamed = replace(
        numbered(2), comparisons=(samples.comparison("steady", operator="nd.other"), samples.comparison("new"))
    )
    with running_server(tmp_path, database_url) as server:
        assert server.post(numbered(1)).status_code == 201
        assert server.post(renamed).status_code == 201
        with server.database.reading() as session:
            operators = {case.case: case.operator for case in session.scalars(select(Case))}
    assert operators == {comparison.case: "nd.Convolution" for comparison in samples.EVERY_VERDICT} | {
        "steady": "nd.other",
        "new": "nd.Convolution",
    }


def test_texts_with_control_characters_are_kept_and_listed_as_escapes(tmp_path: Path, database_url: str) -> None:
    """What a worker printed last may hold anything, a NUL too, which PostgreSQL has no text for."""
    wild = "a\0b\x1b[31mc\u202ed" + "x" * 3000
    failure = replace(samples.CRASH, reason=wild, output_tail=wild)
    report = replace(
        numbered(3, user_identifier=wild, spec=wild, platform=wild),
        comparisons=(samples.failed("broken", failure, operator=wild),),
        treatment=replace(samples.TREATMENT, requested=wild, commit=replace(COMMIT, subject=wild, author=wild)),
    )
    with running_server(tmp_path, database_url) as server:
        assert server.post(report).status_code == 201
        with server.client("read") as client:
            assert client.get("/api/v1/runs/run-3/report").content == to_bytes(report)
            run = client.get("/api/v1/runs/run-3").json()
            result = client.get("/api/v1/runs/run-3/results").json()["results"][0]
    fields = [run["spec"], run["platform"], run["user_identifier"], run["treatment"]["requested"]]
    fields += [
        run["treatment"]["commit"]["subject"],
        result["case"]["operator"],
        result["figures"]["failure"]["reason"],
    ]
    for words in fields:
        assert words.startswith(r"a\x00b\x1b[31mc\u202ed")
        assert words.isprintable()
        assert len(words) <= 1000


def test_numbers_come_back_bit_for_bit(tmp_path: Path, database_url: str) -> None:
    odd = (0.1 + 0.2, 5e-324, 1.7976931348623157e308, 1 / 3)
    comparisons = tuple(samples.comparison(f"case {n}", ratio=1.0, control=value) for n, value in enumerate(odd))
    with running_server(tmp_path, database_url) as server:
        assert server.post(replace(numbered(4), comparisons=comparisons)).status_code == 201
        with server.client("read") as client:
            results = client.get("/api/v1/runs/run-4/results").json()["results"]
    assert tuple(row["figures"]["control"] for row in results) == odd


def test_a_databases_own_time_zone_does_no_harm(tmp_path: Path, postgres: Postgres) -> None:
    """A time that was the year 1 in UTC is before it in New York, where no list could be read any more."""
    url = postgres.make("new york")
    administration = Database(url)
    with administration.writing() as session:
        session.execute(text("ALTER DATABASE \"new york\" SET TimeZone = 'America/New_York'"))
    administration.close()
    with running_server(tmp_path, url) as server, server.client("read") as client:
        assert server.post(numbered(1)).status_code == 201
        with server.database.writing() as session:
            session.execute(text("UPDATE runs SET started = '0001-01-01T00:00:00Z'"))
        for _ in range(2):  # on a connection that has been used, too
            answers = [client.get("/api/v1/runs"), client.get("/api/v1/cases/1/history")]
            assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].json()["runs"][0]["started"] == "0001-01-01T00:00:00Z"


def test_a_commit_is_found_however_its_digits_were_written(tmp_path: Path, database_url: str) -> None:
    report = replace(numbered(1), treatment=replace(samples.TREATMENT, commit=replace(COMMIT, id=COMMIT.id.upper())))
    with running_server(tmp_path, database_url) as server, server.client("read") as client:
        assert server.post(report).status_code == 201
        for digits in (COMMIT.id[:12], COMMIT.id[:12].upper()):
            (run,) = client.get("/api/v1/runs", params={"commit": digits}).json()["runs"]
            assert run["treatment"]["commit"]["id"] == COMMIT.id
        assert client.get("/api/v1/runs/run-1/report").content == to_bytes(report)


def test_a_full_disk_stores_nothing_and_says_later(tmp_path: Path) -> None:
    """SQLite's own limit on pages ends in the same error as a disk without space; then there is space again."""
    pages = [100]

    def limit(connection: Any, _record: Any, _proxy: Any) -> None:
        connection.execute(f"PRAGMA max_page_count = {pages[0]}")

    many = replace(numbered(5), comparisons=tuple(samples.comparison(f"case {n} {'x' * 400}") for n in range(1000)))
    event.listen(Pool, "checkout", limit)
    try:
        with running_server(tmp_path) as server:
            full = server.post(many)
            assert (full.status_code, full.headers["Retry-After"]) == (503, "30")
            assert full.json() == {
                "detail": "the database can't be used just now, and nothing was stored: try again later"
            }
            with server.database.reading() as session:
                assert rows(session, Run, Document, Case, Result) == [0, 0, 0, 0]
            pages[0] = 100_000
            assert server.post(many).status_code == 201
    finally:
        event.remove(Pool, "checkout", limit)


def test_a_database_that_goes_away_and_comes_back(tmp_path: Path, postgres: Postgres) -> None:
    with running_server(tmp_path, postgres.emptied()) as server:
        assert server.post(numbered(1)).status_code == 201
        postgres.stop()
        try:
            with server.client() as client:
                answers = [client.get("/healthz"), client.get("/api/v1/runs"), server.post(numbered(2))]
        finally:
            postgres.start()
        assert [answer.status_code for answer in answers] == [503, 503, 503]
        assert all(answer.headers["Retry-After"] == "30" and set(answer.json()) == {"detail"} for answer in answers)
        assert [server.post(numbered(number)).status_code for number in (1, 2)] == [200, 201]
