"""speedscope's JSON, validated against the schema that its package ships (release 1.25.0, MIT licence)."""

import json
from pathlib import Path

import jsonschema
import pytest
from made_report import made_report

from opduel.records import Frame
from opduel.records.measurement import SIDES
from opduel.reporters.interchange.speedscope import _stacks, to_speedscope

SCHEMA = json.loads(Path(__file__).with_name("speedscope-1.25.0.schema.json").read_text(encoding="utf-8"))


def test_every_case_with_frames_has_a_profile_for_each_source_and_side() -> None:
    report = made_report(60, seed=7, flames=3)
    written = to_speedscope(report)
    document = json.loads(written.text)
    jsonschema.validate(document, SCHEMA)
    names = [profile["name"] for profile in document["profiles"]]
    explained = [comparison.case for comparison in report.comparisons if comparison.cause]
    sources = ("Python functions", "native functions")
    assert names == [f"{case}, {source}, {side}" for case in explained for source in sources for side in SIDES]
    assert written.left_out == "57 without a flame graph"
    assert [profile["endValue"] for profile in document["profiles"][:2]] == [pytest.approx(1e6), pytest.approx(1.2e6)]
    alone = json.loads(to_speedscope(report, "control").text)
    jsonschema.validate(alone, SCHEMA)
    assert [profile["name"] for profile in alone["profiles"]] == names[::2]


def test_the_schema_refuses_what_is_no_profile() -> None:
    document = json.loads(to_speedscope(made_report(60, seed=7, flames=1)).text)
    del document["profiles"][0]["weights"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, SCHEMA)


def test_a_stack_has_what_its_innermost_frame_takes_by_itself() -> None:
    frames = [Frame("a call", 0, 10, 20), Frame("f", 1, 6, 20), Frame("g", 2, 5, 5), Frame("h", 1, 4, 0)]
    amounts = dict(_stacks(frames, "control"))
    assert amounts == {("a call",): 0, ("a call", "f"): 1, ("a call", "f", "g"): 5, ("a call", "h"): 4}
