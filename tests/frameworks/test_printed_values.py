"""What programs print, read: Google Benchmark's JSON, JSON lines, AI-PEP's observers; and output that is none of it."""

import json
import re
from typing import Any

import pytest
from adaptor_modules import load_adaptor

printed = load_adaptor("generic").printed


def read(form: str, text: str, higher: tuple[str, ...] = ()) -> dict[str, tuple[Any, ...]]:
    """name -> value or error, unit, direction"""
    values = printed.values_of(form, text, higher)
    return {
        value["name"]: (value.get("value", value.get("error")), value["unit"], value["lower_is_better"])
        for value in values
    }


def benchmark(name: str, **fields: Any) -> dict[str, Any]:
    usual = {"run_name": name, "run_type": "iteration", "real_time": 9.0, "cpu_time": 2.0, "time_unit": "us"}
    return {"name": name, **usual, **fields}


def google(*rows: dict[str, Any]) -> str:
    return json.dumps({"context": {"date": "2026"}, "benchmarks": list(rows)}, indent=2)


def test_google_benchmark_has_the_time_that_each_benchmark_is_about() -> None:
    rows = [benchmark("BM_a/64"), benchmark("BM_b/real_time"), benchmark("BM_c/manual_time", items_per_second=7)]
    assert read("google_benchmark", "Running ./bench\n" + google(*rows) + "\n") == {
        "BM_a/64": (2000.0, "ns", True),
        "BM_b/real_time": (9000.0, "ns", True),
        "BM_c/manual_time": (9000.0, "ns", True),
    }


def test_of_repetitions_the_median_is_taken() -> None:
    runs = [benchmark("BM_a", cpu_time=time) for time in (5.0, 1.0, 2.0)]
    mean = benchmark("BM_a", run_type="aggregate", aggregate_name="mean", cpu_time=77.0)
    assert read("google_benchmark", google(*runs, mean)) == {"BM_a": (2000.0, "ns", True)}
    middle = {**mean, "name": "BM_a_median", "aggregate_name": "median", "cpu_time": 3.0}
    assert read("google_benchmark", google(mean, middle)) == {"BM_a": (3000.0, "ns", True)}


def test_a_benchmark_with_an_error_costs_its_own_value_alone() -> None:
    rows = [benchmark("BM_a", error_occurred=True, error_message="no data"), benchmark("BM_b")]
    values = read("google_benchmark", google(*rows))
    assert values == {"BM_a": ("reports an error: no data", "ns", True), "BM_b": (2000.0, "ns", True)}


def test_skipped_benchmarks_are_no_times() -> None:
    skip = {"skipped": True, "skip_message": "no accelerator", "cpu_time": 0.0, "real_time": 0.0}
    rows = [
        benchmark("all", **skip),
        benchmark("some", **skip),
        benchmark("some"),
        benchmark("broken", **skip),
        benchmark("broken", error_occurred=True, error_message="no data"),
    ]
    median = {**benchmark("BM_a", run_type="aggregate", aggregate_name="median"), "name": "BM_a_median"}
    outcomes = {entry["name"]: entry for entry in printed.values_of("google_benchmark", google(*rows, median))}
    assert (outcomes["all"]["error"], outcomes["all"]["kind"]) == ("no accelerator", "skipped")
    assert (outcomes["broken"]["error"], outcomes["broken"]["kind"]) == ("reports an error: no data", "error")
    assert [outcomes[name]["value"] for name in ("some", "BM_a")] == [2000.0, 2000.0]


def test_a_number_that_is_too_large_costs_its_own_value_alone() -> None:
    digits = "7" * 400
    text = f"""{{"name": "long", "value": {digits}}}
{{"name": "scaled", "value": 1e300, "unit": "s"}}
{{"name": "good", "value": 1e300}}
"""
    values = read("json_lines", text)
    assert values["good"] == (1e300, "", True)
    assert re.fullmatch(r"prints 7{57}\.\.\. for long, which is not a finite number", values["long"][0])
    assert values["scaled"] == ("prints 1e+300 for scaled, which is not a finite number", "ns", True)


def test_json_lines_are_found_among_others() -> None:
    text = """starting {
{"level": "info", "text": "a log of another kind"}
{"name": "rate", "value": 5, "unit": "MB/s", "lower_is_better": false}
  {"name": "latency  p99", "value": "1.5", "unit": "ms"}
{"name": "latency  p99", "value": 2.5, "unit": "ms"}
{"name": "plain", "value": 1e3, "unit": null}
"""
    text = text.replace("starting {", "starting")
    expected = {
        "rate": (5.0, "MB/s", False),
        "latency p99": (2e6, "ns", True),
        "plain": (1000.0, "", True),
    }
    assert read("json_lines", text) == expected
    assert read("json_lines", text, ("pl*", "rate"))["plain"] == (1000.0, "", False)


def test_observers_of_ai_pep() -> None:
    text = """I0101 12:00:00 PyTorchObserver {"type": "NET", "metric": "latency", "unit": "us", "value": "10"}
PyTorchObserver {"type": "NET", "metric": "latency", "unit": "us", "value": "12"}
Caffe2Observer {"conv_0": {"flops": {"value": 77, "unit": "FLOP"}}}
PyTorchObserver {"type": "NET", "metric": "power", "unit": "mW", "summary": {"p50": 3.5, "mean": 9}}
PyTorchObserver {"type": "NET", "metric": "command", "unit": "", "info_string": "run"}
{"type": "NET", "metric": "not an observer's", "value": 1}
"""
    assert read("observer", text) == {
        "NET latency": (11000.0, "ns", True),
        "conv_0 flops": (77.0, "FLOP", True),
        "NET power": (3.5, "mW", True),
    }


def test_tensorflow_lite_has_the_mean_of_the_last_run() -> None:
    def run(prefix: str, mean: str) -> str:
        settings = "Running benchmark for at least 50 iterations and at least 1 seconds"
        return f"{prefix}{settings}\n{prefix}count=50 first=9 curr=8 min=7 max=9 avg={mean} std=2 p5=7 median=8\n\n"

    for prefix in ("", "INFO: "):
        text = "STARTING!\n" + run(prefix, "1800") + run(prefix, "1.5e3")
        assert read("tflite", text) == {"NET latency": (1.5e6, "ns", True)}
    assert read("tflite", "Running benchmark for 1\ncount=1 curr=31\n") == {"NET latency": (31e3, "ns", True)}


@pytest.mark.parametrize(
    ("form", "text", "words"),
    [
        ("google_benchmark", "", r"^prints no value: Google Benchmark's JSON is expected"),
        ("google_benchmark", '{"context": {}, "bench', r"^prints no complete JSON document: Unterminated string"),
        ("google_benchmark", '{"a": 1}', r"^prints JSON without benchmarks: "),
        ("google_benchmark", '{"benchmarks": [1]}', r"^prints benchmarks that are not objects: "),
        ("json_lines", "hello\n", r"^prints no value: lines such as .* are expected$"),
        ("json_lines", '{log} started\n{"name": "x"}\n{"value": 3}\n{"na', r"^prints no value: lines such as "),
        ("observer", "PyTorchObserver {\nPyTorchObserver [1]", r"^prints no value: lines such as PyTorchObserver"),
    ],
)
def test_what_cannot_be_read_is_one_line(form: str, text: str, words: str) -> None:
    with pytest.raises(printed.ProgramError, match=words) as error:
        read(form, text)
    assert "\n" not in str(error.value)


def test_lines_of_logs_cost_nothing() -> None:
    logs = '{log} started\n{"name": "app", "level": 30, "msg": "a logger\'s"}\n{\n{}\n{"level": "in\n'
    assert read("json_lines", logs + '{"name": "x\u2028y", "value": 1}\r{"name": "y", "value": 2}') == {
        "x y": (1.0, "", True),
        "y": (2.0, "", True),
    }
    assert read("google_benchmark", logs + google(benchmark("BM_a"))) == {"BM_a": (2000.0, "ns", True)}
    observed = 'PyTorchObserver {"type": "NET", "metric": "latency", "unit": "us", "value": 1}'
    assert read("observer", f"PyTorchObserver {{log}} started\n{observed}") == {"NET latency": (1000.0, "ns", True)}


@pytest.mark.parametrize(
    ("form", "line", "name", "words"),
    [
        ("json_lines", '{"name": "x", "val', "x", "line 2 is not complete JSON (Unterminated string starting at: li"),
        ("json_lines", '{"name": "x", "value": 1, "lower_is_better": "no"}', "x", "line 2: lower_is_better is neither"),
        ("json_lines", '{"name": "x", "unit": "ms"}', "x", "prints null for x, which is not a finite number"),
        ("json_lines", '{"name": "x", "value": ' + "[" * 99999, "x", "line 2 is not complete JSON (nested too deeply)"),
        ("observer", 'PyTorchObserver {"type": "NET", "metric": "a", "va', "NET a", "line 2 is not complete JSON ("),
    ],
)
def test_a_line_that_cannot_be_read_costs_its_own_value_alone(form: str, line: str, name: str, words: str) -> None:
    good = '{"name": "y z", "type": "y", "metric": "z", "value": 1, "unit": "ms"}'
    values = read(form, f"PyTorchObserver {good}\n{line}" if form == "observer" else f"{good}\n{line}")
    assert values["y z"] == (1e6, "ns", True)
    assert values[name][0].startswith(words)


def test_every_name_is_printable_and_long_ones_are_cut_but_stay_apart() -> None:
    names = ["x" * 300, "x" * 299, "", "red\x1b[31m", "\ud800", "café  →", 7, None]
    text = "\n".join(json.dumps({"name": name, "value": 1, "unit": "\x1b[2J"}) for name in names)
    first, second, *other_lines = read("json_lines", text)
    assert {len(first), len(second)} == {printed.LONGEST_NAME}
    assert first != second
    assert other_lines == ["unnamed", "red\\x1b[31m", "\\ud800", "café →", "7"]
    assert {unit for _, unit, _ in read("json_lines", text).values()} == {"\\x1b[2J"}


@pytest.mark.parametrize("value", ["NaN", "Infinity", '"fast"', "null", "true", "[1]"])
def test_a_value_that_is_no_number_costs_its_own_case_alone(value: str) -> None:
    values = read("json_lines", f'{{"name": "x", "value": {value}}}\n{{"name": "y", "value": 1}}')
    assert values["y"] == (1.0, "", True)
    assert "for x, which is not a finite number" in values["x"][0]


def test_two_units_of_one_value_cannot_be_mixed() -> None:
    values = read("json_lines", '{"name": "x", "value": 1, "unit": "MB"}\n{"name": "x", "value": 1, "unit": "GB"}')
    assert values["x"][0] == "prints x in MB and in GB: use one unit"
    too_many = "\n".join(f'{{"name": "{number}", "value": 1}}' for number in range(printed.MOST_VALUES + 1))
    with pytest.raises(printed.ProgramError, match="more than 5000 values"):
        read("json_lines", too_many)
