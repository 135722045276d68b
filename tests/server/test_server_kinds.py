"""A report of several kinds of host on the server: stored, a history for each case on each kind, pages that show it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import report_samples as samples
from report_samples import comparison
from results_server import numbered, running_server
from sqlalchemy import select

from opduel.records import Report
from opduel.reporters.document import to_bytes
from opduel.server.host_runs import hosts_of
from opduel.server.models import Case, Result, Run


def by_kind(number: int) -> Report:
    """Run ``number``: a case that regressed on one kind, and not on the other."""
    kinds = ("xeon+avx2", "xeon+avx512_vnni")
    rows = [
        comparison(f"add/forward@{kind}", verdict, ratio, kind=kind, host=f"bench-{place}")
        for place, (kind, verdict, ratio) in enumerate(zip(kinds, ("regressed", "unchanged"), (1.2, 1.0), strict=True))
    ]
    fleet = {
        "hosts": [{"name": f"bench-{place}", "kind": kind} for place, kind in enumerate(kinds)],
        "kinds": [{"name": kind, "hosts": [f"bench-{place}"]} for place, kind in enumerate(kinds)],
    }
    report = numbered(number, fleet=fleet)
    cases = [replace(report.cases[0], id=row.case, kind=row.kind) for row in rows]
    return replace(report, comparisons=tuple(rows), cases=tuple(cases))


def test_each_row_is_stored_and_has_a_history_of_its_own(tmp_path: Path, database_url: str) -> None:
    with running_server(tmp_path, database_url) as server:
        for number in (1, 2):
            assert server.post(by_kind(number)).status_code == 201
        with server.database.reading() as session:
            assert [run.regressed for run in session.scalars(select(Run))] == [1, 1]
            rows = session.execute(select(Case.case, Result.verdict).join(Case)).all()
        assert sorted(map(tuple, rows)) == [
            *[("add/forward@xeon+avx2", "regressed")] * 2,
            *[("add/forward@xeon+avx512_vnni", "unchanged")] * 2,
        ]
        with server.client("read") as client:
            assert client.get("/api/v1/runs/run-1/report").content == to_bytes(by_kind(1))
            page = client.get("/runs/run-1")
            assert page.status_code == 200
            assert "add/forward@xeon+avx2" in page.text
            link = page.text[: page.text.index("add/forward@xeon+avx2</a>")].rpartition('href="')[2].partition('"')[0]
            case = client.get(link.replace("&amp;", "&"))
            assert case.status_code == 200
            assert "add/forward@xeon+avx2" in case.text
            assert "avx512_vnni" not in case.text


@pytest.mark.parametrize(
    ("kinds", "reasons", "expected"),
    [
        (("x", "y"), ["x: it was busy"], {"bench-0": "it was busy", "bench-1": None}),
        (("x", "x", "y"), ["x: bench-1: it was busy", "y: it was hot"],
         {"bench-0": None, "bench-1": "it was busy", "bench-2": "it was hot"}),
        (("x", "x"), ["bench-1: it was busy"], {"bench-0": None, "bench-1": "it was busy"}),
        (("x",), ["it was busy"], {"bench-0": "it was busy"}),
    ],
)  # fmt: skip
def test_each_host_has_its_own_reasons(
    kinds: Sequence[str], reasons: list[str], expected: dict[str, str | None]
) -> None:
    hosts = [
        {"name": name, "kind": kind, "valid": expected[name] is None}
        for name, kind in zip(expected, kinds, strict=True)
    ]
    report = numbered(1, fleet={"hosts": hosts}, validity={**samples.validity(), "reasons": reasons})
    assert {part.columns["host"]: part.columns["distrust"] for part in hosts_of(report)} == expected
