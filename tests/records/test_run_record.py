"""What a report says of its run and host: one model, written and read."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import report_samples as samples

from opduel.records import RunRecord, UsageError
from opduel.records.run_record import ValidityRecord
from opduel.reporters.document import from_text, to_bytes

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("commands", "comparator", "driver", "harness", "records", "reporters", "server", "support")


def test_keys_are_attributes_of_their_types() -> None:
    run = samples.report(incidents=[samples.INCIDENT], validity=samples.validity("a busy host")).run
    assert (run.id, run.seed, run.configuration.alpha) == ("20240229T101112Z-7f3a", 7, 0.05)
    assert run.validity.reasons == ("a busy host",)
    assert run.validity.aa_checks[0].ci == (0.99, 1.01)
    (incident,) = run.incidents
    assert (incident.round, incident.failure.side, incident.failure.kind) == (3, "control", "killed")
    assert (run.forecast, run.is_cut_short) == (None, False)


def test_a_missing_value_has_its_default() -> None:
    run = RunRecord.of({"complete": False, "wall_s": 3})
    assert (run.rounds, run.aborted, run.validity, run.incidents) == (None, False, ValidityRecord(), ())
    assert (run.is_cut_short, run.why_stopped, run.wall_s) == (True, "stopped early", 3)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"complete": "no"}, "run.complete is 'no': use true or false"),
        ({"aborted": 1}, "run.aborted is 1: use true or false"),
        ({"rounds": True}, "run.rounds is True: use an integer"),
        ({"rounds": 3.5}, "run.rounds is 3.5: use an integer"),
        ({"wall_s": "3"}, "run.wall_s is '3': use a number"),
        ({"validity": [1]}, "run.validity is [1]: use an object {...}"),
        ({"validity": {"reasons": ["a", 7]}}, "run.validity.reasons[1] is 7: use a string, in quotes"),
        ({"environment": {"B": 2}}, "run.environment.B is 2: use a string, in quotes"),
        ({"configuration": {"max_rounds": 2.5}}, "run.configuration.max_rounds is 2.5: use an integer"),
    ],
)
def test_a_value_of_another_type_is_refused_by_name(values: dict[str, Any], message: str) -> None:
    document = json.loads(to_bytes(samples.report()))
    with pytest.raises(UsageError, match=re.escape(message)):
        from_text(json.dumps({**document, "run": {**document["run"], **values}}))


def test_what_is_not_known_is_ignored() -> None:
    document = json.loads(to_bytes(samples.report()))
    document["run"]["of_a_later_version"] = document["host"]["of_a_later_version"] = {"a": [1]}
    assert from_text(json.dumps(document)) == samples.report()


def test_a_report_written_again_is_the_same() -> None:
    report = samples.report(incidents=[samples.INCIDENT], validity=samples.validity("a busy host"))
    text = to_bytes(report).decode()
    assert (from_text(text), to_bytes(from_text(text)).decode()) == (report, text)


def test_records_of_a_class_share_what_validates_them(monkeypatch: pytest.MonkeyPatch) -> None:
    RunRecord.of({"complete": True})
    monkeypatch.setattr("pydantic.TypeAdapter", None)
    assert not RunRecord.of({"complete": False}).complete


def test_it_does_not_change() -> None:
    with pytest.raises(AttributeError, match="cannot assign"):
        samples.report().run.id = "b"  # type: ignore[misc]


def test_no_report_s_run_or_host_is_read_by_key() -> None:
    uses = []
    for path in [*(ROOT / "opduel").glob("*.py"), *(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))]:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if re.search(r"\.(run|host)(\[|\.get\()", line):
                uses.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert not uses, "use the attribute; opduel.records.run_record has them"
