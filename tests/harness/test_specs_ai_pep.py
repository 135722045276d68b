"""AI-PEP's own specs: what they say becomes cases of programs, and what can't be is one line with the field."""

import json
from pathlib import Path
from typing import Any

import pytest

from opduel.harness.specs import expand_cases, is_bundle, load_spec, members_of
from opduel.records import Case, UsageError

MD5 = 32 * "0"
MODEL = {
    "category": "CNN",
    "cooldown": 5,
    "files": {"predict": {"filename": "net.pb", "location": "//net.pb", "md5": MD5}},
    "format": "caffe2",
    "kind": "deployment",
    "name": "net",
    "batch": 64,
    "dims": "{batch},3",
}
COMMAND = '{program} --net {files.predict} --warmup {warmup} --iter {iter} --input "data" --input_dims "{dims}"'
TEST = {"commands": [COMMAND], "identifier": "{ID}", "iter": 50, "warmup": 1, "metric": "delay"}


def write(path: Path, *tests: dict[str, Any], **model: Any) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"model": MODEL | model, "tests": list(tests)}), encoding="utf-8")
    return path


def cases(path: Path, *tests: dict[str, Any], **model: Any) -> list[Case]:
    return expand_cases(load_spec(write(path / "net.json", *tests, **model)))


def test_a_model_and_its_tests_are_cases_of_a_program(tmp_path: Path) -> None:
    second = {**TEST, "commands": "{program} {input_files.image}", "identifier": "net-image", "timeout": 9}
    del second["metric"]
    second["input_files"] = {"image": {"filename": "i", "location": "i.pb", "md5": MD5}}
    first, last = cases(tmp_path, TEST, second, command_args="--fast yes")
    assert (first.id, first.timeout_s, last.id, last.timeout_s) == (
        "net-0/value",
        300,
        "net-image/value",
        9,
    )
    assert first.inputs["parse"] == "observer"
    words = "--warmup 1 --iter 50 --input data --input_dims 64,3 --fast yes"
    assert first.inputs["command"] == ["{program}", "--net", "{files.predict}", *words.split()]
    assert first.files["predict"].location == "//net.pb"
    assert last.inputs["command"] == ["{program}", "{files.image}", "--fast", "yes"]
    assert last.files["image"].location == str(tmp_path / "i.pb")


def test_a_list_of_benchmarks_is_a_bundle(tmp_path: Path) -> None:
    write(tmp_path / "a" / "first.json", TEST, name="first")
    write(tmp_path / "a" / "second.json", TEST, name="second")
    bundle = tmp_path / "all.json"
    bundle.write_text(json.dumps({"meta": {"group": "CNN"}, "benchmarks": ["a/first.json", "a/second.json"]}))
    assert is_bundle(bundle)
    assert [path.name for path in members_of(bundle)] == ["first.json", "second.json"]
    assert [case.operator for case in expand_cases(load_spec(bundle))] == ["first-0", "second-0"]
    assert [case.operator for case in expand_cases(load_spec(bundle, ["second"]))] == ["second-0"]


INPUTS = {"data": {"shapes": [[1, 3], [2, 3]], "type": "float"}, "info": {"shapes": [[1], [2]], "type": "float"}}


def test_inputs_of_several_shapes_are_a_case_each(tmp_path: Path) -> None:
    plain = {name: value for name, value in TEST.items() if name != "commands"}
    for_caffe2 = cases(tmp_path, {**plain, "inputs": INPUTS, "commands": {"caffe2": {"run_individual": "true"}}})
    assert [case.operator for case in for_caffe2] == ["net-0", "net-1"]
    command = "{program} --net {files.predict} --warmup 1 --iter 50 --input_dims 2,3;2 --input data,info"
    assert for_caffe2[1].inputs["command"] == f"{command} --input_type float --run_individual true".split()
    graph = {"graph": MODEL["files"]["predict"]}
    (for_tflite, _) = cases(tmp_path, {**plain, "inputs": {"in": INPUTS["data"]}}, format="tflite", files=graph)
    settings = "--graph={files.graph} --warmup_runs=1 --num_runs=50 --input_layer=in --input_layer_shape=1,3"
    assert for_tflite.inputs["command"] == f"{{program}} {settings}".split()
    assert for_tflite.inputs["parse"] == "tflite"


def test_a_command_may_be_prepared_and_have_an_output_folder(tmp_path: Path) -> None:
    (case,) = cases(tmp_path, {**TEST, "commands": ["cp {dims} x", "{program} --out '{TGTDIR}/y'"]}, command_args="-v")
    assert case.inputs["prepare"] == ["cp", "64,3", "x"]
    assert case.inputs["command"] == ["{program}", "--out", "./y", "-v"]
    assert (case.inputs["fresh_folder"], "cwd" in case.inputs) == (True, False)


def test_threads_and_variables_are_the_programs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    test = {**TEST, "OMP_NUM_THREADS": 2, "env": {"A": 1}, "platform_args": {"taskset": "3"}}
    assert cases(tmp_path, test)[0].inputs["env"] == {"OMP_NUM_THREADS": "2", "A": "1"}
    assert "net: platform_args: is for phones, and ignored" in caplog.text


def test_words_that_stand_for_themselves_end(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"{a} makes a command line of more than 100000 characters: shorten it"):
        cases(tmp_path, {**TEST, "commands": ["{program} {a}"], "a": "{a}" * 1000})
    (case,) = cases(tmp_path, {**TEST, "commands": ["{program} {a}"], "a": "{a}"})
    assert case.inputs["command"] == ["{program}", "{a}"]


@pytest.mark.parametrize(
    ("test", "words"),
    [
        ({"metric": "power"}, 'tests[0].metric is "power", which is measured on phones alone: use "delay"'),
        ({"preprocess": {"commands": ["x"]}}, "tests[0].preprocess: are commands for the host: run them yourself"),
        ({"commands": ["a", "b", "{program}"]}, "tests[0].commands: use two at most: one that prepares, and the one"),
        ({"commands": ["{program} 'a"]}, "(No closing quotation): quote it as for a shell"),
        ({"commands": ["{program} {files.init}"]}, "tests[0].files.init is missing: command names it"),
        ({"commands": {}}, "tests[0].commands is missing: give the command line that runs the program"),
        ({"commands": {}, "inputs": {"data": {"shapes": 1, "type": "float"}}}, "tests[0].inputs.data.shapes"),
        ({"commands": {}, "inputs": {**INPUTS, "x": {"shapes": [[1]], "type": "float"}}}, "give each input as many"),
        ({"identifier": None}, "tests[0].identifier"),
        ({"timeout": "x"}, "tests[0].timeout"),
        ({"files": []}, "tests[0].files"),
    ],
)
def test_what_cannot_be_is_one_line_with_the_field(tmp_path: Path, test: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as error:
        cases(tmp_path, {**TEST, **test})
    assert words in str(error.value)
    assert "\n" not in str(error.value)
