"""Bencher Metric Format and github-action-benchmark's JSON, validated against what their readers take."""

import json
import re
from dataclasses import replace
from typing import Any

import interchange_samples
import jsonschema
import pytest

from opduel.reporters.interchange.benchmark_json import to_bmf, to_github_action_benchmark

NUMBER = {"type": "number"}
# Names as lib/bencher_valid of bencherdev/bencher takes them, the rest as bencher.dev's reference has it, and no more.
BMF: dict[str, Any] = {
    "type": "object",
    "propertyNames": {"minLength": 1, "maxLength": 1024},
    "additionalProperties": {
        "type": "object",
        "propertyNames": {"minLength": 1, "maxLength": 64},
        "additionalProperties": {
            "type": "object",
            "properties": {"value": NUMBER, "lower_value": NUMBER, "upper_value": NUMBER},
            "required": ["value"],
            "additionalProperties": False,
        },
    },
}
# The fields that extractCustomBenchmarkResult of src/extract.ts takes; what extractRangeInfo.ts makes a number of.
ACTION: dict[str, Any] = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1},
            "unit": {"type": "string", "minLength": 1},
            "value": NUMBER,
            "range": {"type": "string", "pattern": r"^± \d+(\.\d+)?(e[+-]?\d+)?$"},
            "extra": {"type": "string"},
        },
        "required": ["name", "unit", "value"],
        "additionalProperties": False,
    },
}


def test_bmf_has_a_benchmark_a_case_and_its_metrics_as_measures() -> None:
    written = to_bmf(interchange_samples.report())
    comparison = json.loads(written.text)
    jsonschema.validate(comparison, BMF)
    conv = comparison["conv/forward"]
    comparison = interchange_samples.CHANGED[0]
    assert conv["latency"]["value"] == comparison.treatment
    assert conv["latency"]["lower_value"] <= 1.053e5 <= conv["latency"]["upper_value"]
    assert comparison.ci is not None
    change = conv["latency-change"]
    assert change["value"] == pytest.approx(5.3)
    assert (change["lower_value"], change["upper_value"]) == pytest.approx(
        tuple((end - 1) * 100 for end in comparison.ci)
    )
    assert conv["memory"]["value"] == 4096
    assert conv["instructions"]["value"] == 1_234_567.5
    assert conv["error"] == {"value": 0.25}
    assert written.left_out == "2 failed, 1 without a value (time)"


def test_bmf_says_regressed_where_the_verdict_does() -> None:
    regressed_by_name = json.loads(to_bmf(interchange_samples.report()).text)
    regressed_by_name = {
        name: measures["latency-regressed"]["value"]
        for name, measures in regressed_by_name.items()
        if "latency" in measures
    }
    assert regressed_by_name == {"conv/forward": 1, "conv/backward": 0, "dot": 0, "conv/held": 0}


def test_the_action_gets_the_treatments_value_with_the_verdict_beside_it() -> None:
    written = to_github_action_benchmark(interchange_samples.report())
    document = json.loads(written.text)
    jsonschema.validate(document, ACTION)
    entry = {comparison["name"]: comparison for comparison in document}["conv/forward"]
    assert (entry["unit"], entry["value"]) == ("ns", interchange_samples.CHANGED[0].treatment)
    assert entry["extra"].splitlines()[:2] == ["verdict: regressed", "ratio: 1.053"]
    assert float(entry["range"].removeprefix("± ")) < 0.01 * entry["value"]
    assert written.left_out == "2 failed, 1 without a value (time)"


def test_the_action_takes_smaller_for_better_so_that_it_gets_no_rates() -> None:
    rate = interchange_samples.measured("rate", "regressed", 0.9)
    written = to_github_action_benchmark(
        interchange_samples.report(replace(rate, metric="value", lower_is_better=False))
    )
    assert "rate" not in {load["name"] for load in json.loads(written.text)}
    assert "1 of which more is better" in written.left_out


def test_of_a_metric_that_is_not_known_less_is_taken_for_better() -> None:
    foreign = replace(interchange_samples.measured("of another version", "regressed", 1.1), metric="joules")
    document = json.loads(to_github_action_benchmark(interchange_samples.report(foreign)).text)
    assert "of another version" in {comparison["name"] for comparison in document}


def test_names_stay_within_the_cells_of_the_actions_comments() -> None:
    document = json.loads(
        to_github_action_benchmark(
            interchange_samples.report(interchange_samples.measured("`a` | <b>\n", "unchanged", 1.0))
        ).text
    )
    assert document[0]["name"] == "'a' \\| <b>\\x0a"


def test_long_names_are_cut_and_stay_apart() -> None:
    long = [interchange_samples.measured("é" * 1000 + end, "unchanged", 1.0) for end in "ab"]
    document = json.loads(to_bmf(interchange_samples.report(*long)).text)
    assert len(document) == 2
    assert all(len(name.encode()) <= 1024 and re.search(r"-[0-9a-f]{12}$", name) for name in document)


def test_nothing_to_tell_is_empty_json() -> None:
    empty = interchange_samples.report_samples.report([])
    assert json.loads(to_bmf(empty).text) == {}
    assert json.loads(to_github_action_benchmark(empty).text) == []
