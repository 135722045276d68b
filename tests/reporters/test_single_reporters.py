"""A single-build run as a document, in opperf's form, and as tables."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from opduel.comparator.baseline import compare_with_baseline
from opduel.records import Build, Failure, UsageError, Work
from opduel.records.case import Mode
from opduel.records.host_record import HostRecord, RooflineRecord
from opduel.records.run_record import SingleRunRecord
from opduel.records.single import BaselineComparison, Distribution, ProfiledOperator, SingleReport, SingleResult
from opduel.reporters.opperf_form import opperf_results
from opduel.reporters.single import baseline_text, csv_text, markdown_text, read_single, screen_text, single_text

BUILD = Build("toy", "toy==1", "interpreter", "/bin/true", "1.0", "3.11", "digest")
TIME = Distribution(mean=2e6, p50=1.5e6, p90=3e6, p99=4e6, min=1e6, max=5e6, stdev=5e5)
FAILED = Failure("treatment", "crash", "killed by SIGABRT", "last\nwords")
MODES_OF_DENSE: list[tuple[str, Mode]] = [("", "imperative"), ("/hybridized", "hybridized"), ("/float64", "imperative")]


def result(case: str, operator: str, failure: Failure | None = None, memory: float = 4000.0) -> SingleResult:
    return SingleResult(
        case=case,
        operator=operator,
        direction=case.rpartition("/")[2],
        dtype="float32",
        context="cpu",
        inputs={"lhs": [2, 3], "rhs": [2, 3]},
        time=None if failure else TIME,
        calls=0 if failure else 10,
        rounds=0 if failure else 2,
        process_p50=() if failure else (1.4e6, 1.6e6),
        memory=None if failure else {"cpu/0": memory},
        operators=None if failure else {"broadcast_add": ProfiledOperator(10, 2e7)},
        failure=failure,
    )


REPORT = SingleReport(
    SingleRunRecord(seed=1, profiler="native"),
    BUILD,
    HostRecord(cpu_model="x"),
    (
        result("add_0/forward", "nd.add"),
        result("add_0/backward", "nd.add", memory=8000.0),
        result("add_1/both", "nd.add"),
        result("dot_0/forward", "nd.dot", FAILED),
        result("npdot/forward", "np.dot"),
    ),
)


def test_opperfs_keys_in_opperfs_units() -> None:
    results = opperf_results(REPORT)
    assert list(results) == ["add", "nd.dot", "np.dot"], "the whole name where the last part is not enough"
    both_ways, training = results["add"]
    assert both_ways["avg_time_forward_add"] == both_ways["mean_time_backward_add"] == 2.0
    assert both_ways["p99_time_backward_add"] == 4.0
    assert both_ways["max_storage_mem_alloc_cpu/0"] == 8.0
    assert both_ways["inputs"] == {"lhs": [2, 3], "rhs": [2, 3]}
    assert training["stdev_time_both_add"] == 0.5
    assert results["nd.dot"][0]["failed_forward"] == "killed by SIGABRT"


def test_a_function_has_no_direction_that_keys_and_headings_would_say() -> None:
    function = replace(result("sort(1000, float64)", "numpy.sort"), direction="", context="", dtype="float64")
    function = replace(function, memory={"cpu": 4000.0})
    report = replace(REPORT, cases=(function,))
    (entry,) = opperf_results(report)["sort"]
    assert (entry["avg_time_sort"], entry["case"], entry["dtype"]) == (2.0, "sort(1000, float64)", "float64")
    assert not {"context", "mode"} & entry.keys()
    assert [key for key in entry if key.startswith("max")] == ["max_time_sort", "max_storage_mem_alloc_cpu"]
    heading, _, row = markdown_text(report).splitlines()[2:5]
    assert heading.endswith("| Avg Time (ms) | P50 Time (ms) | P90 Time (ms) | P99 Time (ms) |")
    assert row.endswith("| 2.0000 | 1.5000 | 3.0000 | 4.0000 |")


def test_no_memory_held_is_not_the_same_as_unknown() -> None:
    nothing, unknown = (replace(REPORT.cases[0], memory=memory, context="gpu(1)") for memory in ({}, None))
    texts = [replace(REPORT, cases=(result,)) for result in (nothing, unknown)]
    assert opperf_results(texts[0])["add"][0]["max_storage_mem_alloc_gpu/1"] == 0.0
    assert not any(key.startswith("max_storage") for key in opperf_results(texts[1])["add"][0])
    rows = [next(csv.DictReader(io.StringIO(csv_text(text)))) for text in texts]
    assert [row["max_storage_mem_alloc_kb"] for row in rows] == ["0.000", ""]
    assert [" | 0.0000 | " in markdown_text(text) for text in texts] == [True, False]
    assert [screen_text(text).splitlines()[1].split()[-2:] for text in texts] == [["B", "10"], ["-", "10"]]


def test_the_document_is_read_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text(single_text(REPORT))
    assert read_single(path) == REPORT
    assert json.loads(path.read_text())["results"] == opperf_results(REPORT)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "report"}, "kind: is not"),
        ({"schema_version": 99}, "newer than the 2 known here"),
        ({"schema_version": 1}, "older than the 2 known here"),
        ({"schema_version": True}, "schema_version: is True"),
        ({"cases": [{"case": 7}]}, r"cases\[0\]\.case is 7: use a string"),
    ],
)
def test_other_documents_are_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps({**json.loads(single_text(REPORT)), **change}))
    with pytest.raises(UsageError, match=message):
        read_single(path)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"a": NaN}'])
def test_what_is_no_document_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "result.json").write_text(content)
    with pytest.raises(UsageError, match="a file that --output_file wrote"):
        read_single(tmp_path / "result.json")


def test_csv_is_a_line_a_case() -> None:
    rows = list(csv.DictReader(io.StringIO(csv_text(REPORT))))
    assert [row["case"] for row in rows] == [case.case for case in REPORT.cases]
    assert float(rows[0]["p90_ms"]) == 3.0
    assert float(rows[1]["max_storage_mem_alloc_kb"]) == 8.0
    assert json.loads(rows[0]["inputs"]) == {"lhs": [2, 3], "rhs": [2, 3]}
    assert (rows[3]["mean_ms"], rows[3]["failure"]) == ("", "killed by SIGABRT")


def test_what_could_not_be_timed_is_null_with_a_note_everywhere(tmp_path: Path) -> None:
    untimed = replace(result("view_0/forward", "nd.view"), time=None, calls=0, process_p50=(), note="saw no operator")
    report = replace(REPORT, cases=(*REPORT.cases, untimed))
    (entry,) = opperf_results(report)["view"]
    assert (entry["avg_time_forward_view"], entry["p50_time_forward_view"]) == (None, None)
    assert entry["note_forward"] == "saw no operator"
    assert entry["max_storage_mem_alloc_cpu/0"] == 4.0
    row = list(csv.DictReader(io.StringIO(csv_text(report))))[-1]
    assert (row["p50_ms"], row["note"], row["failure"]) == ("", "saw no operator", "")
    assert "- view_0/forward: saw no operator" in markdown_text(report).splitlines()
    assert "\n  saw no operator\n" in screen_text(report)
    (tmp_path / "result.json").write_text(single_text(report))
    assert read_single(tmp_path / "result.json") == report
    (compared,) = (
        comparison for comparison in compare_with_baseline(report, report) if comparison.case == untimed.case
    )
    assert (compared.verdict, compared.note) == ("incomparable", "saw no operator")


def test_rates_where_the_work_is_known() -> None:
    with_work = replace(REPORT.cases[0], work=Work(flop=3e6, bytes=6e6, dtype="float32"))
    roofline = RooflineRecord(gflops={"float32": 8.0}, gbytes=40.0)
    report = replace(REPORT, host=HostRecord(roofline=roofline), cases=(with_work, *REPORT.cases[1:]))
    first, second, *_ = csv.DictReader(io.StringIO(csv_text(report)))
    assert (first["gflops"], first["gbytes"]) == ("2", "4"), "in 1.5 ms"
    assert (second["gflops"], second["gbytes"]) == ("", "")
    text = screen_text(report)
    assert "2 GFLOP/s, 4 GB/s, 25 % of the roofline" in text
    assert "8 GFLOP/s in float32, 40 GB/s" in text
    assert "roof" not in screen_text(REPORT)


def test_markdown_is_a_line_an_input() -> None:
    lines = markdown_text(REPORT).splitlines()
    widths = {line.count(" | ") for line in lines if line.startswith("| ") and "nd.add" in line}
    assert widths == {lines[2].count(" | ")}
    assert "| nd.add |" in lines[4]
    assert "8.0000 | 2.0000 | 1.5000 | 3.0000 | 4.0000 | 2.0000" in lines[4]
    assert "- dot_0/forward: killed by SIGABRT" in lines
    assert any(line.startswith("| add_1/both | 2.0000") for line in lines)


def test_modes_and_dtypes_of_one_input_are_distinguished() -> None:
    modes = [replace(result(f"dense{mid}/forward", "gluon.nn.Dense"), mode=mode) for mid, mode in MODES_OF_DENSE]
    report = replace(REPORT, cases=tuple(modes))
    entries = opperf_results(report)["Dense"]
    assert [(entry["case"], entry["mode"]) for entry in entries] == [
        (f"dense{mid}", mode) for mid, mode in MODES_OF_DENSE
    ]
    rows = [line for line in markdown_text(report).splitlines() if "gluon.nn.Dense" in line]
    assert [row.split(" | ")[1] for row in rows] == [f"dense{mid}" for mid, _ in MODES_OF_DENSE]
    assert [row["mode"] for row in csv.DictReader(io.StringIO(csv_text(report)))] == [
        mode for _, mode in MODES_OF_DENSE
    ]


def test_a_document_without_modes_is_read(tmp_path: Path) -> None:
    document = json.loads(single_text(REPORT))
    for case in document["cases"]:
        del case["mode"]
    (tmp_path / "result.json").write_text(json.dumps(document))
    assert read_single(tmp_path / "result.json") == REPORT


def test_the_screen_has_every_case_and_why_it_failed() -> None:
    text = screen_text(REPORT)
    assert all(case.case in text for case in REPORT.cases)
    assert "  failed: killed by SIGABRT\n" in text
    assert "1.50 ms" in text


def test_a_baselines_verdicts_come_worst_first() -> None:
    text = baseline_text(
        [
            BaselineComparison("a", "within", 1e3, 1e3, 1.0),
            BaselineComparison("b", "slower", 1e3, 2e3, 2.0),
            BaselineComparison("c", "slower", 1e3, 3e3, 3.0),
            BaselineComparison("d", "failed", 1e3, None, None, "hung"),
        ]
    )
    lines = text.splitlines()
    assert [line.split()[1] for line in lines[1:5]] == ["c", "b", "d", "a"]
    assert lines[3].endswith("hung")
    assert lines[-1] == "2 slower, 1 failed, 1 within"
