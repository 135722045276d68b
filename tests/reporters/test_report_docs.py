"""docs/reference/report.md names every key and column there is, and no other."""

import re
from dataclasses import fields
from pathlib import Path
from typing import get_type_hints

import pytest
import report_samples as samples

from opduel.comparator import AACheck
from opduel.harness.host import HostMonitor, host_fingerprint
from opduel.records import (
    SCHEMA_VERSION,
    Breakdown,
    Build,
    Candidate,
    Case,
    Cause,
    Commit,
    Comparison,
    Examination,
    Failure,
    Forecast,
    Incident,
    OperatorTime,
    PairSample,
    Report,
    RunConfiguration,
    TwoModes,
    Verification,
)
from opduel.records.run_record import (
    AACheckRecord,
    FailureRecord,
    HostRecord,
    IncidentRecord,
    NoiseRecord,
    RunRecord,
    ValidityRecord,
)
from opduel.reporters import REPORTERS
from opduel.reporters.simple_screen import COLUMNS

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "report.md").read_text(encoding="utf-8")


def documented(heading: str) -> list[str]:
    """The first cells of the table in the section called ``heading``."""
    section = re.split(rf"^#+ {re.escape(heading)}$", TEXT, flags=re.MULTILINE)[1]
    section = re.split(r"^#+ ", section, flags=re.MULTILINE)[0]
    return re.findall(r"^\| `(\w+)` \|", section, flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("heading", "record"),
    [
        ("control and treatment", Build),
        ("configuration", RunConfiguration),
        ("commit", Commit),
        ("comparisons", Comparison),
        ("cases", Case),
        ("verification", Verification),
        ("forecast", Forecast),
        ("two_modes", TwoModes),
        ("cause", Cause),
        ("examinations", Examination),
        ("candidates", Candidate),
        ("breakdown", Breakdown),
        ("operators", OperatorTime),
        ("samples", PairSample),
        ("failure", Failure),
        ("incidents", Incident),
    ],
)
def test_every_field_is_documented_in_order(heading: str, record: type) -> None:
    assert documented(heading) == [field.name for field in fields(record)]


def test_the_document_is_documented() -> None:
    assert documented("document") == list(samples.report().to_json())
    assert {field.name for field in fields(Report)} == set(documented("document"))
    assert f"| `schema_version` | {SCHEMA_VERSION} |" in TEXT


def test_the_run_is_documented() -> None:
    assert documented("run") == list(samples.run())


def test_trust_is_documented() -> None:
    validity = samples.run()["validity"]
    assert documented("validity") == list(validity)
    checked = [field.name for field in fields(AACheck)]
    assert documented("validity: aa_checks") == [*checked, "samples"] == list(validity["aa_checks"][0])


def test_the_host_is_documented() -> None:
    monitor = HostMonitor(interval_s=0)
    monitor.sample()
    monitor.begin()
    summary = monitor.summary()
    assert documented("host") == [*host_fingerprint(), "roofline", *summary, "verifying"]
    assert documented("before and during") == list(summary["during"])


@pytest.mark.parametrize(
    ("heading", "record"),
    [
        ("run", RunRecord),
        ("host", HostRecord),
        ("before and during", NoiseRecord),
        ("validity", ValidityRecord),
        ("validity: aa_checks", AACheckRecord),
        ("incidents", IncidentRecord),
        ("failure", FailureRecord),
    ],
)
def test_every_typed_key_is_documented(heading: str, record: type) -> None:
    assert set(get_type_hints(record)) <= set(documented(heading))


def test_the_columns_are_documented() -> None:
    assert documented("Tab-separated lines") == list(COLUMNS)


def test_the_options_are_documented() -> None:
    for reporter in REPORTERS:
        option = f"--{reporter.option} {reporter.metavar or ''}".strip()
        assert f"| `{option}` |" in TEXT


def test_the_folders_are_documented() -> None:
    assert "`DIR/<framework>/<platform>/<spec>/<YYYY>/<MM>/<DD>/<control>..<treatment>/<N>/report.json`" in TEXT
    assert "`DIR/<user_identifier>/report.json`" in TEXT
    assert "`report-<its run id>.json`" in TEXT
