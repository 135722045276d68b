"""What a report says of its run and host: typed attributes over JSON that stays as it was."""

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
import report_samples as samples

from opduel.records import HostRecord, Report, RunRecord
from opduel.reporters.document import from_text, to_bytes

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("commands", "comparator", "driver", "harness", "records", "reporters", "server")


def test_keys_are_attributes_of_their_types() -> None:
    run = samples.report(incidents=[samples.INCIDENT], validity=samples.validity("a busy host")).run
    assert (run.id, run.seed, run.configuration.alpha) == ("20240229T101112Z-7f3a", 7, 0.05)
    assert run.validity.reasons == ("a busy host",)
    assert run.validity.aa_checks[0].ci == (0.99, 1.01)
    (incident,) = run.incidents
    assert (incident.round, incident.failure.side, incident.failure.kind) == (3, "control", "killed")
    assert (run.forecast, run.is_cut_short) == (None, False)


@pytest.mark.parametrize(
    ("values", "name", "expected"),
    [
        ({}, "complete", None),
        ({"complete": "no"}, "complete", None),
        ({"complete": False}, "is_cut_short", True),
        ({"aborted": 1}, "aborted", False),
        ({"rounds": True}, "rounds", None),
        ({"rounds": 3.5}, "rounds", None),
        ({"wall_s": 3}, "wall_s", 3),
        ({"wall_s": float("nan")}, "wall_s", None),
        ({"wall_s": 10**400}, "wall_s", None),
        ({"incidents": "none", "validity": [1]}, "incidents", ()),
        ({"validity": {"reasons": ["a", 7, None]}}, "validity", {"reasons": ["a", 7, None]}),
        ({"environment": {"A": "1", "B": 2}}, "environment", {"A": "1"}),
        ({"command": "harness.py"}, "command", ()),
    ],
)
def test_a_value_of_another_type_is_as_if_it_were_missing(values: dict[str, Any], name: str, expected: object) -> None:
    run = RunRecord(values)
    assert getattr(run, name) == expected
    assert dict(run) == values


def test_what_is_not_known_is_kept() -> None:
    report = samples.report(of_a_later_version={"a": [1]}, rounds="many")
    again = from_text(to_bytes(report).decode())
    assert isinstance(again.run, RunRecord)
    assert isinstance(again.host, HostRecord)
    assert again.run["of_a_later_version"] == {"a": [1]}
    assert (again.run.rounds, again.run["rounds"]) == (None, "many")
    document = json.loads(to_bytes(report))
    assert to_bytes(again) == to_bytes(report)
    assert list(document["run"]) == list(samples.run(of_a_later_version=1))


def test_it_does_not_change() -> None:
    run = RunRecord({"id": "a"}, seed=1)
    with pytest.raises(AttributeError, match="is immutable"):
        run.id = "b"
    assert (copy.deepcopy(run), run.seed) == ({"id": "a", "seed": 1}, 1)


def test_no_report_s_run_or_host_is_read_by_key() -> None:
    uses = []
    for path in [*(ROOT / "opduel").glob("*.py"), *(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))]:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if re.search(r"\.(run|host)(\[|\.get\()", line):
                uses.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert not uses, "use the attribute; opduel.records.run_record and host_record have them"


def test_a_report_can_be_made_of_plain_mappings() -> None:
    report: Any = Report({"id": "a", "note": "PASSWORD=12345678"}, *[samples.CONTROL] * 2, {"cpu_model": "x"}, ())  # type: ignore[arg-type]
    assert (report.run.id, report.host.cpu_model, report.run["note"]) == ("a", "x", "PASSWORD=***")
