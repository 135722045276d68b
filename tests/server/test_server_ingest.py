"""What isn't a report of ours is refused with one line, and nothing of it is stored."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from results_server import REPORTS, RunningServer, body, numbered, running_server
from sqlalchemy import func, select

from opduel.records import SCHEMA_VERSION
from opduel.server.models import Case, Run


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Yield a server that takes a little more than a sample."""
    with running_server(tmp_path_factory.mktemp("ingest"), max_report_bytes=100_000) as running:
        yield running


def changed(path: str, value: Any) -> bytes:
    """Return a post whose field at ``path`` (keys and indices with dots between) is ``value``."""
    document = body(numbered(1))
    *parents, last = path.split(".")
    place: Any = document
    for part in parents:
        place = place[int(part) if isinstance(place, list) else part]
    place[int(last) if isinstance(place, list) else last] = value
    return json.dumps(document).encode()


def without(path: str) -> bytes:
    """Return a post that lacks the field of the report's run."""
    document = body(numbered(1))
    del document["report"]["run"][path]
    return json.dumps(document).encode()


WHOLE = json.dumps(body(numbered(1)))
MALFORMED: dict[str, tuple[int, bytes, str]] = {
    "nothing": (400, b"", "no JSON"),
    "cut off": (400, WHOLE[:-20].encode(), "no JSON"),
    "more behind": (400, WHOLE.encode() + b"x", "no JSON"),
    "a byte that is not utf-8": (400, WHOLE.replace("nightly", "n\udcff").encode(errors="surrogateescape"), "no JSON"),
    "nan": (400, WHOLE.replace('"ratio": 1.001', '"ratio": NaN').encode(), "no JSON"),
    "infinity": (400, WHOLE.replace('"ratio": 1.001', '"ratio": -Infinity').encode(), "no JSON"),
    "1e999": (400, WHOLE.replace('"ratio": 1.001', '"ratio": 1e999').encode(), "no JSON"),
    "10**400 as a ratio": (422, changed("report.comparisons.0.ratio", 10**400), "is too large"),
    "10**400 as a threshold": (422, changed("report.comparisons.0.threshold", 10**400), "is too large"),
    "-10**400": (422, changed("report.run.seed", -(10**400)), "is too large"),
    "a number of 5,000 digits": (400, WHOLE.replace('"seed": 7', '"seed": ' + "7" * 5000).encode(), "no JSON"),
    "deep": (400, b'{"category": "n", "report": ' + b"[" * 5_000 + b"]" * 5_000 + b"}", "deep"),
    "deep in a report": (400, changed("report.run.info", json.loads("[" * 400 + "]" * 400)), "depth exceeded"),
    "deep objects": (400, b'{"a":' * 5_000 + b"1" + b"}" * 5_000, "deep"),
    "empty lists": (413, b"[" + b"[]," * 10_000 + b"[]]", "too many values"),
    "lists in lists, many": (413, b"[" + b",".join([b"[" * 180 + b"]" * 180] * 100) + b"]", "too many values"),
    "objects in objects, many": (413, b"[" + b",".join([b'{"":' * 90 + b"1" + b"}" * 90] * 99) + b"]", "too many"),
    "a list": (422, b"[]", "category"),
    "a text": (422, b'"report"', "category"),
    "no category": (422, json.dumps({"report": {}}).encode(), "category"),
    "more keys": (422, json.dumps({**body(numbered(1)), "token": "x"}).encode(), "category"),
    "an empty report": (422, json.dumps({"category": "n", "report": {}}).encode(), "schema_version: is missing"),
    "a report that is a list": (422, json.dumps({"category": "n", "report": []}).encode(), "holds a list"),
    "half a surrogate pair": (422, changed("report.run.spec", "\ud800"), "surrogate"),
    "half a pair as category": (422, changed("category", "\ud800"), "category"),
    "a later schema": (422, changed("report.schema_version", SCHEMA_VERSION + 1), "newer"),
    "an empty category": (422, changed("category", ""), "category"),
    "a long category": (422, changed("category", "c" * 101), "category"),
    "a category with a NUL": (422, changed("category", "a\0"), "category"),
    "no run id": (422, without("id"), "run.id"),
    "a run id that is a path": (422, changed("report.run.id", "../../x"), "run.id"),
    "a run id with a newline": (422, changed("report.run.id", "a\n"), "run.id"),
    "a run id that is a number": (422, changed("report.run.id", 7), "run.id"),
    "no start": (422, without("started"), "run.started"),
    "a start that is no time": (422, changed("report.run.started", "yesterday"), "run.started"),
    "a start that is a number": (422, changed("report.run.started", 17), "run.started"),
    "a start before the year 1": (422, changed("report.run.started", "0001-01-01T00:00:00+23:00"), "run.started"),
    "a start in the year 1": (422, changed("report.run.started", "0001-01-01T00:00:00"), "must be in the years"),
    "a start before 1970": (422, changed("report.run.started", "1969-12-31T23:59:59Z"), "must be in the years 1970"),
    "an end in the year 9999": (422, changed("report.run.finished", "9999-06-01T00:00:00Z"), "run.finished"),
    "alpha": (422, changed("report.run.alpha", 2), "run.alpha"),
    "threads": (422, changed("report.run.threads", 2**40), "run.threads"),
    "complete": (422, changed("report.run.complete", "yes"), "run.complete"),
    "validity": (422, changed("report.run.validity", {"valid": 1}), "run.validity.valid"),
    "a verdict": (422, changed("report.comparisons.0.verdict", "fine"), "comparisons[0].verdict"),
    "a ratio as a text": (422, changed("report.comparisons.0.ratio", "1.0"), "comparisons[0].ratio"),
    "a ratio below 0": (422, changed("report.comparisons.0.ratio", -1), "comparisons[0].ratio: must be more than 0"),
    "a ratio of 0": (422, changed("report.comparisons.0.ratio", 0), "comparisons[0].ratio"),
    "an interval below 0": (422, changed("report.comparisons.0.ci", [-0.1, 1.1]), "comparisons[0].ci"),
    "p below 0": (422, changed("report.comparisons.0.p_value", -1), "comparisons[0].p_value: must be 0 to 1"),
    "q above 1": (422, changed("report.comparisons.0.q_value", 1.5), "comparisons[0].q_value"),
    "rounds": (422, changed("report.comparisons.0.rounds", 2**31), "comparisons[0].rounds"),
    "rounds below 0": (422, changed("report.comparisons.0.rounds", -1), "comparisons[0].rounds"),
    "a case without a name": (422, changed("report.comparisons.0.case", " "), "comparisons[0].case"),
    "a case with an escape": (422, changed("report.comparisons.0.case", "a\x1b[2J"), "comparisons[0].case"),
    "a long case": (422, changed("report.comparisons.0.case", "c" * 501), "comparisons[0].case"),
    "a case twice": (422, changed("report.comparisons.1.case", "steady"), "comparisons[1].case: occurs twice"),
    "a framework": (422, changed("report.control.framework", "other\0"), "framework"),
    "two frameworks in one": (422, changed("report.control.framework", "one against other"), "framework"),
    "a digest": (422, changed("report.treatment.digest", "\n"), "treatment.digest"),
    "a commit's time": (
        422,
        changed("report.treatment.commit", {"id": "ab", "time": 10**12, "author": "", "subject": ""}),
        "treatment.commit.time",
    ),
    "a commit's id": (
        422,
        changed("report.treatment.commit", {"id": "javascript:", "time": 1, "author": "", "subject": ""}),
        "treatment.commit.id",
    ),
    "a long text in an error": (422, changed("report.schema_version", "x" * 9000), "schema_version"),
}


def stored(server: RunningServer) -> list[int | None]:
    """How many runs and cases there are."""
    with server.database.reading() as session:
        return [session.scalar(select(func.count()).select_from(table)) for table in (Run, Case)]


@pytest.mark.parametrize("name", MALFORMED)
def test_it_is_refused_in_one_line_and_nothing_of_it_stored(server: RunningServer, name: str) -> None:
    status, content, words = MALFORMED[name]
    before = stored(server)
    with server.client("write") as client:
        answer = client.post(REPORTS, content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == status, answer.text
    detail = answer.json()["detail"]
    assert set(answer.json()) == {"detail"}
    assert words in detail
    assert detail.isprintable()
    assert len(detail) <= 500
    assert stored(server) == before


def test_the_server_goes_on(server: RunningServer) -> None:
    assert server.post(numbered(1)).status_code == 201


def test_keys_that_are_not_known_are_kept(server: RunningServer) -> None:
    document = body(numbered(2))
    document["report"]["later"] = {"a": [1, 1.0, None]}
    document["report"]["comparisons"][0]["later"] = "x"
    with server.client() as client:
        assert client.post(REPORTS, json=document).status_code == 201
        assert client.get("/api/v1/runs/run-2/report").json() == document["report"]


def test_the_order_of_keys_makes_no_other_report(server: RunningServer) -> None:
    document = body(numbered(3))
    turned = {"report": dict(reversed(document["report"].items())), "category": "nightly"}
    with server.client("write") as client:
        assert [client.post(REPORTS, json=upload).status_code for upload in (document, turned)] == [201, 200]
