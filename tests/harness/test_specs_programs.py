"""Specs of programs: command lines, what is read of them, and what can't be meant."""

import json
from pathlib import Path
from typing import Any

import pytest

from opduel.harness.specs import Settings, Spec, expand_cases, load_spec, validate
from opduel.records import Case, UsageError


def spec_of(*tests: dict[str, Any], **fields: Any) -> Spec:
    return validate({"framework": "generic", "tests": list(tests), **fields})


def program_test(**fields: Any) -> dict[str, Any]:
    return {"command": ["{program}"], **fields}


def cases(*tests: dict[str, Any], **fields: Any) -> list[Case]:
    return expand_cases(spec_of(*tests, **fields))


def test_a_command_line_is_a_case_for_each_metric() -> None:
    expanded = cases(
        program_test(command=["{program}", "--size=100", "-x", "a b"], metric=["time", "cpu_time"], timeout=5.0),
        program_test(parse="observer", identifier="net", env={"A": "b"}, threshold="5%"),
        defaults={"timeout": 7.0},
    )
    assert [(case.id, case.metric, case.timeout_s, case.threshold) for case in expanded] == [
        ("size=100_x_a_b", "time", 5.0, 0.02),
        ("size=100_x_a_b/cpu_time", "cpu_time", 5.0, 0.02),
        ("net/value", "value", 7.0, 0.05),
    ]
    assert expanded[0].inputs == {"command": ["{program}", "--size=100", "-x", "a b"]}
    assert expanded[2].inputs == {"command": ["{program}"], "parse": "observer", "env": {"A": "b"}}
    assert {case.operator for case in expanded} == {"size=100_x_a_b", "net"}
    assert cases(program_test())[0].id == "program"


def test_it_runs_in_the_specs_folder_or_one_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "own.json"
    path.write_text(
        json.dumps({"framework": "generic", "tests": [program_test(), program_test(identifier="b", cwd="data")]})
    )
    first, second = expand_cases(load_spec(path))
    assert (first.inputs["cwd"], second.inputs["cwd"]) == (str(tmp_path), str(tmp_path / "data"))
    assert first.category == "own"
    bundle = tmp_path / "bundle.json"
    bundle.write_text(json.dumps({"framework": "generic", "specs": ["own.json"], "defaults": {"metric": "cpu_time"}}))
    assert {case.metric for case in expand_cases(load_spec(bundle))} == {"cpu_time"}


def test_a_command_line_may_be_a_text_and_name_files(tmp_path: Path) -> None:
    path = tmp_path / "own.json"
    test = program_test(
        command='{program} --net={files.net} --dims "1, 3"', files={"net": {"location": "x", "md5": 32 * "0"}}
    )
    path.write_text(json.dumps({"framework": "generic", "tests": [test]}))
    (case,) = expand_cases(load_spec(path))
    assert case.inputs["command"] == ["{program}", "--net={files.net}", "--dims", "1, 3"]
    assert case.files["net"].location == str(tmp_path / "x")


def test_input_and_what_is_run_around_a_program_are_the_specs_own(tmp_path: Path) -> None:
    path = tmp_path / "own.json"
    around = {"prepare": "cp 'a b' c", "cleanup": ["rm", "c"], "exit_codes": [0, 1]}
    test = program_test(stdin="words.txt", fresh_folder=True, **around)
    path.write_text(
        json.dumps({"framework": "generic", "tests": [test, program_test(identifier="b", cwd="x", **around)]})
    )
    with pytest.raises(
        UsageError, match=r"own.json: tests\[0\].stdin: .*/words.txt is not a file: give a path relative"
    ):
        load_spec(path)
    (tmp_path / "words.txt").write_text("words")
    first, second = (case.inputs for case in expand_cases(load_spec(path)))
    lines = {"prepare": ["cp", "a b", "c"], "cleanup": ["rm", "c"], "exit_codes": [0, 1]}
    own = {"command": ["{program}"], "stdin": str(tmp_path / "words.txt"), "fresh_folder": True}
    assert first == {**own, **lines}
    assert second == {"command": ["{program}"], "cwd": str(tmp_path / "x"), **lines}


@pytest.mark.parametrize(
    "words",
    [["<", "a"], ["<a.txt"], ["|", "sort"], ["2>/dev/null"], ["2>&1"], [">", "out.txt"], ["a", "&&", "b"]],
)
def test_what_a_shell_would_follow_is_refused(words: list[str]) -> None:
    with pytest.raises(UsageError, match=r"has .*, and there is no shell: name an input file in"):
        spec_of(program_test(command=["{program}", *words]))
    with pytest.raises(
        UsageError, match=r'tests\[0\].prepare has .* and there is no shell: start one, as in \["sh", "-c"'
    ):
        spec_of(program_test(prepare=["cp", *words]))


def test_what_only_looks_like_a_shells_is_an_argument() -> None:
    words = ["-d|", "<b>", "a|b", "->", "=>", "<div class='x'>", ";", "{}", "a && b", "$1>0", ">5", "<0.5"]
    assert cases(program_test(command=["{program}", *words], prepare=["sh", "-c", "a | b > c"], identifier="it"))


@pytest.mark.parametrize(
    ("test", "words"),
    [
        (program_test(exit_codes=[]), "tests[0].exit_codes is empty"),
        (program_test(exit_codes=[256]), "tests[0].exit_codes[0] is 256: use at most 255"),
        (program_test(exit_codes=1), "tests[0].exit_codes is 1: use a list"),
        (program_test(prepare=[]), "tests[0].prepare is empty"),
        (program_test(fresh_folder="yes"), 'tests[0].fresh_folder is "yes": use true or false'),
        ({"operator": "nd.add", "inputs": {}}, "tests[0].command is missing: generic runs programs"),
        (program_test(command=[]), "tests[0].command is empty"),
        (program_test(command=["/bin/sh", "-c"]), 'tests[0].command begins with "/bin/sh": begin with "{program}"'),
        (program_test(command="{program} 'x"), "(No closing quotation): quote it as for a shell"),
        (program_test(command="{program} {files.x}"), "tests[0].files.x is missing: command names it"),
        (program_test(prepare="cp {files.y} ."), "tests[0].files.y is missing: prepare names it"),
        (program_test(commands=["x"]), "tests[0].commands is not a field: did you mean command?"),
        (program_test(dtype="float64"), "tests[0].dtype is not a field"),
        (
            program_test(parse="csv"),
            'tests[0].parse is "csv": use one of google_benchmark, json_lines, observer, tflite',
        ),
        (program_test(metric="value"), "tests[0].parse is missing: the metric value needs it"),
        (
            program_test(metric="memory"),
            'tests[0].metric is "memory": use one of time, cpu_time, process_memory, value',
        ),
        (program_test(metric="time", parse="observer"), "tests[0].parse is for the metric value: add that"),
        (program_test(higher_is_better=["x"]), "tests[0].higher_is_better is for printed values: add parse"),
        (program_test(env={"OPDUEL_PROGRAM": "x"}), "use the name of an environment variable"),
        (program_test(env={"A": 1}), "tests[0].env.A is 1: use a string"),
        (program_test(identifier="a/b"), 'tests[0].identifier is "a/b": use letters'),
        (program_test(timeout=0.0), "tests[0].timeout is 0.0: use a number greater than 0"),
    ],
)
def test_what_cannot_be_meant_is_one_line_with_the_field(test: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as error:
        spec_of(test)
    assert words in str(error.value).replace("'", '"')
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "defaults", [{"dtype": "float16"}, {"directions": ["backward"]}, {"input_sets": 5}, {"tolerance": {"rtol": 0.1}}]
)
def test_programs_have_few_defaults(defaults: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as error:
        spec_of(program_test(), defaults=defaults)
    assert f"defaults.{next(iter(defaults))} a program has none: use metric, threshold, timeout alone" in str(
        error.value
    )


def test_other_frameworks_have_no_command_lines() -> None:
    with pytest.raises(UsageError, match=r"tests\[0\].command is for the framework generic alone"):
        validate({"framework": "mxnet", "tests": [program_test()]})


def test_what_is_asked_for_on_the_command_line_must_be_for_programs() -> None:
    spec = spec_of(program_test())
    assert [case.metric for case in expand_cases(spec, metrics=["cpu_time"], thresholds={"cpu_time": 0.3})] == [
        "cpu_time"
    ]
    for settings, metrics, words in (
        (Settings(dtype="float64"), (), "--dtype: a program has none"),
        (None, ("error",), r"tests\[0\]: the metric error isn't for programs: use time"),
        (None, ("value",), r"tests\[0\]: has no parse, which the metric value needs"),
    ):
        with pytest.raises(UsageError, match=words):
            expand_cases(spec, settings=settings, metrics=metrics)
    with pytest.raises(UsageError, match=r"tests\[1\] and tests\[0\] have the same id, program: give their"):
        cases(program_test(), program_test())
