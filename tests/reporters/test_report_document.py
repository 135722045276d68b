"""report.json: what is written is read back the same, and what is wrong is named."""

import json
import math
import os
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import report_samples as samples
from hypothesis import given, settings
from hypothesis import strategies as st

from opduel.records import (
    Build,
    Comparison,
    Failure,
    HostRecord,
    Incident,
    PairSample,
    Report,
    RunRecord,
    UsageError,
    Verdict,
    Verification,
)
from opduel.reporters.document import read_report, strict, to_bytes, write_report

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
numbers = st.floats(allow_nan=False, allow_infinity=False)
counts = st.integers(0, 10**9)
json_data = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
runs = st.builds(
    RunRecord,
    id=st.none() | texts,
    command=st.lists(texts, max_size=3).map(tuple),
    info=json_data,
    wall_s=st.none() | numbers,
    rounds=st.none() | counts,
    complete=st.none() | st.booleans(),
    spent_s=st.dictionaries(texts, numbers, max_size=3),
)
hosts = st.builds(HostRecord, cpu_model=st.none() | texts, gpus=st.lists(texts, max_size=2).map(tuple))
string_maps = st.dictionaries(texts, texts, max_size=3)
stages = st.sampled_from(["screening", "confirmation"])
failures = st.builds(Failure, st.sampled_from(["control", "treatment", "both"]), texts, texts, texts)
pair_samples = st.builds(PairSample, texts, stages, counts, numbers, numbers, numbers, counts, counts)
builds = st.builds(
    Build,
    *[texts] * 7,
    packages=string_maps,
    environment=string_maps,
    directory=st.none() | texts,
    created=st.none() | texts,
    duration_s=st.none() | numbers,
)
verifications = st.builds(
    Verification,
    first=st.sampled_from(["regressed", "improved"]),
    verdict=st.none() | st.sampled_from(get_args(Verdict)),
    ratio=st.none() | numbers,
    ci=st.none() | st.tuples(numbers, numbers),
    rounds=counts,
    failure=st.none() | failures,
    note=texts,
    samples=st.lists(pair_samples, max_size=2).map(tuple),
)
comparisons = st.builds(
    Comparison,
    *[texts] * 5,
    verdict=st.sampled_from(get_args(Verdict)),
    ratio=st.none() | numbers,
    ci=st.none() | st.tuples(numbers, numbers),
    p_value=st.none() | numbers,
    q_value=st.none() | numbers,
    threshold=numbers,
    mde=st.none() | numbers,
    control=st.none() | numbers,
    treatment=st.none() | numbers,
    rounds=counts,
    decided_on=st.none() | stages,
    failure=st.none() | failures,
    injected=st.booleans(),
    note=texts,
    held_back=st.none() | st.sampled_from(["regressed", "improved", "unchanged"]),
    verification=st.none() | verifications,
    samples=st.lists(pair_samples, max_size=2).map(tuple),
)
reports = st.builds(
    Report, runs, builds, builds, hosts, st.lists(comparisons, max_size=3).map(tuple), schema_version=st.just(2)
)


@settings(max_examples=30)
@given(report=reports)
def test_round_trip(report: Report, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("trip") / "report.json"
    write_report(path, report)
    assert read_report(path) == report


def test_the_document_has_the_keys_of_to_json(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    write_report(path, samples.report())
    document = json.loads(path.read_text(encoding="utf-8"))
    assert list(document) == ["schema_version", "run", "control", "treatment", "host", "comparisons", "cases"]
    assert document["schema_version"] == 2
    assert document["control"]["requested"] == "mxnet==1.8.0.post0"
    assert document["comparisons"][2]["samples"][0]["log_ratio"] == 0.049
    assert document["comparisons"][4]["failure"]["kind"] == "crash"
    assert path.read_bytes().endswith(b"}\n")


def test_not_finite_numbers_are_null(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    odd = samples.comparison("odd", "inconclusive", math.nan, ci=(0.9, math.inf), p_value=-math.inf)
    write_report(path, samples.report([replace(odd, ci=None)], info=[math.nan, {"deep": math.inf}]))
    assert not any(word in path.read_text() for word in ("NaN", "Infinity"))
    back = read_report(path)
    assert (back.comparisons[0].ratio, back.comparisons[0].p_value) == (None, None)
    assert back.run.info == [None, {"deep": None}]


def test_reports_from_before_there_was_a_second_measurement_are_read(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    document = json.loads(to_bytes(samples.report()))
    for comparison in document["comparisons"]:
        del comparison["verification"], comparison["held_back"]
    path.write_text(json.dumps(document), encoding="utf-8")
    assert read_report(path) == replace(samples.report(), run=read_report(path).run)


def test_an_interval_without_an_end_can_be_read_back(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    again = Verification("regressed", "regressed", 1.1, (0.9, math.inf))
    cases = [samples.comparison("open", ci=(0.9, math.inf), verification=again), samples.comparison("closed")]
    write_report(path, samples.report(cases))
    first, second = read_report(path).comparisons
    assert (first.ci, first.verification) == (None, replace(again, ci=None))
    assert second.ci == pytest.approx((0.99099, 1.01101))


def test_odd_values_do_not_lose_a_report() -> None:
    odd = {
        1: Path("/a"),
        "when": datetime(2024, 2, 29, tzinfo=UTC),
        "integer": np.int64(3),
        "float": np.float32(0.5),
        "yes": np.bool_(True),
        "surrogate": "a\udc80b",
        "set": {4},
        "array": np.array([1.5, math.nan]),
        "bytes": b"x",
    }
    assert strict(odd) == {
        "1": "/a",
        "when": "2024-02-29 00:00:00+00:00",
        "integer": 3,
        "float": 0.5,
        "yes": True,
        "surrogate": "a\\udc80b",
        "set": [4],
        "array": [1.5, None],
        "bytes": "b'x'",
    }
    assert json.loads(to_bytes(samples.report(info=odd)))["run"]["info"]["yes"] is True


def test_non_ascii_text_is_written_as_itself(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    write_report(path, samples.report([samples.comparison("größe 大")]))
    assert "größe 大".encode() in path.read_bytes()


def _broken(change: Any) -> bytes:
    document = json.loads(to_bytes(samples.report()))
    change(document)
    return json.dumps(document).encode()


def _set(*steps: Any) -> Any:
    def change(document: Any) -> None:
        *path, last, value = steps
        for step in path:
            document = document[step]
        document[last] = value

    return change


@pytest.mark.parametrize(
    ("content", "field", "fix"),
    [
        (_broken(_set("comparisons", 3, "ratio", "big")), "comparisons[3].ratio", "correct that field"),
        (_broken(_set("comparisons", 0, "verdict", "meh")), "comparisons[0].verdict", "correct that field"),
        (
            _broken(_set("comparisons", 4, "failure", "side", "left")),
            "comparisons[4].failure.side",
            "correct that field",
        ),
        (_broken(_set("comparisons", 1, "ci", [1.0])), "comparisons[1].ci", "correct that field"),
        (_broken(_set("comparisons", 2, "rounds", "12")), "comparisons[2].rounds", "correct that field"),
        (_broken(_set("comparisons", 2, "injected", 1)), "comparisons[2].injected", "correct that field"),
        (_broken(_set("control", None)), "control", "correct that field"),
        (_broken(lambda document: document["treatment"].pop("digest")), "treatment.digest", "correct that field"),
        (_broken(lambda document: document.pop("comparisons")), "comparisons", "correct that field"),
        (_broken(lambda document: document.pop("schema_version")), "schema_version", "give the path"),
        (_broken(_set("schema_version", 3)), "schema_version: is 3, newer", "use a newer opduel"),
        (_broken(_set("schema_version", 1)), "schema_version: is 1, older than the 2 known here", "measure again"),
        (_broken(_set("schema_version", "1")), "schema_version: is '1', not a whole number", "give the path"),
        (_broken(_set("schema_version", True)), "schema_version: is True, not a whole number", "give the path"),
        (b"", "not a JSON document", "give the path"),
        (b"\xff{}", "not a JSON document", "give the path"),
        (b"[" * 100_000, "not a JSON document", "give the path"),
        (b"[]", "holds a list", "give the path"),
        (to_bytes(samples.report())[:-40], "not a JSON document", "give the path"),
        (b'{"schema_version": 2, "run": NaN}', "NaN", "give the path"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, content: bytes, field: str, fix: str) -> None:
    path = tmp_path / "odd.json"
    path.write_bytes(content)
    with pytest.raises(UsageError) as raised:
        read_report(path)
    message = str(raised.value)
    assert message.startswith(f"{path}: ")
    assert field in message
    assert fix in message
    assert "\n" not in message


def test_several_problems_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    path.write_bytes(b'{"schema_version": 2}')
    with pytest.raises(UsageError, match=r"run is missing: add it \(and 4 more\)"):
        read_report(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.json: cannot be read \(No such file"):
        read_report(tmp_path / "none.json")


def test_unknown_keys_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(_broken(_set("comparisons", 0, "colour", "blue")))
    assert read_report(path) == samples.report()


def test_a_number_that_is_no_float_is_no_number(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(_broken(_set("run", "wall_s", 10**308 - 1)))
    assert read_report(path).run.wall_s == 1e308
    path.write_bytes(_broken(_set("run", "wall_s", 10**400)))
    with pytest.raises(UsageError, match="a number of 401 digits is too large"):
        read_report(path)


@pytest.mark.parametrize("broken", ["fsync", "replace"])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, full_disk: Callable[[str], None], broken: str
) -> None:
    path = tmp_path / "report.json"
    write_report(path, samples.report())
    before = path.read_bytes()
    full_disk(broken)
    with pytest.raises(OSError, match="No space"):
        write_report(path, samples.report([]))
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["report.json"]


def test_nobody_ever_sees_half_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.json"
    contents: list[list[str]] = []
    replace_file = os.replace

    def watched(source: Any, target: Any) -> None:
        contents.append([Path(source).parent.as_posix(), str(path.exists()), str(Path(source).stat().st_size)])
        replace_file(source, target)

    monkeypatch.setattr(os, "replace", watched)
    write_report(path, samples.report())
    assert contents == [[tmp_path.as_posix(), "False", str(len(path.read_bytes()))]]


def test_written_files_obey_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write_report(tmp_path / "report.json", samples.report())
    finally:
        os.umask(old)
    assert (tmp_path / "report.json").stat().st_mode & 0o777 == 0o640


def test_incidents_survive(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    incident = asdict(Incident(3, None, samples.CRASH, "round left out"))
    write_report(path, samples.report(incidents=[incident]))
    assert [asdict(incident) for incident in read_report(path).run.incidents] == [incident]


def test_a_report_of_before_there_were_cases_can_be_read(tmp_path: Path) -> None:
    document = asdict(samples.report())
    del document["cases"]
    path = tmp_path / "report.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    assert read_report(path) == replace(samples.report(), cases=())
