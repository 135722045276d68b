"""AI-PEP's options for programs: the program of a build, words of command lines; and where they can't be meant."""

import json
from pathlib import Path

import pytest

from opduel.commands.case_selection import Choice, choose_cases, fetch_case_files
from opduel.commands.options import read_options
from opduel.commands.programs import program_of
from opduel.records import UsageError

SIZES = ("--string_map", '{"size": 100, "unit": "{unit}"}')


def chosen(folder: Path, *arguments: str) -> Choice:
    path = folder / "own.json"
    tests = [
        {"command": ["{program}", "-n", "{size}{unit}"], "prepare": ["make", "{size}"], "identifier": "first"},
        {"command": ["{program}", "{program}"], "parse": "json_lines", "identifier": "second"},
    ]
    path.write_text(json.dumps({"framework": "generic", "tests": tests}), encoding="utf-8")
    return choose_cases(read_options(["-b", str(path), *arguments]), 0)


def test_words_are_put_into_command_lines_and_at_their_ends(tmp_path: Path) -> None:
    options = ("--string_map", '{"size": 100, "unit": "k b"}', "--command_args", "--fast 'a b'")
    first, second = chosen(tmp_path, *options).cases
    assert first.inputs["command"] == ["{program}", "-n", "100k b", "--fast", "a b"]
    assert first.inputs["prepare"] == ["make", "100"]
    assert second.inputs["command"] == ["{program}", "{program}", "--fast", "a b"]


def test_the_program_of_a_build_is_where_the_option_says() -> None:
    options = read_options(["--program", "out/{build}/bench"])
    assert program_of(options, "v1") == "out/v1/bench"
    assert program_of(read_options([]), "v1") == "v1"


def test_patterns_wait_for_the_values_that_programs_print(tmp_path: Path) -> None:
    assert len(chosen(tmp_path, *SIZES, "--operators", "second.latency*").cases) == 2
    with pytest.raises(UsageError, match="no case matches 'third'"):
        chosen(tmp_path, *SIZES, "--metric", "time", "--operators", "third")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--program", "out/bench"), r"^--program out/bench: has no {build}: write it in place of"),
        (("--fuzz", "3"), "^--fuzz: a program has no inputs that could be drawn: leave it out"),
        (("--string_map", "[1]"), r"--string_map: '\[1\]' is not a JSON object of texts and numbers: write"),
        (("--string_map", '{"program": "x"}'), "--string_map: .* is not a JSON object of texts and numbers"),
        (
            (),
            r"/own.json: first: nothing replaces {size} in its command lines: add it to --string_map, '{\"siz",
        ),
        (
            (*SIZES, "--command_args", "-x < a"),
            "^--command_args: has '<', and there is no shell: name an input file in",
        ),
        (("--command_args", "'"), "--command_args: .*No closing quotation: quote it as for a shell"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        chosen(tmp_path, *arguments)


@pytest.mark.parametrize("option", ["program", "command_args", "string_map"])
def test_other_frameworks_have_no_programs(option: str) -> None:
    value = '{"a": "b"}' if option == "string_map" else "{build}"
    with pytest.raises(UsageError, match=f"--{option}: is for frameworks of programs, and the spec is for mxnet: "):
        choose_cases(read_options(["-b", "smoke", f"--{option}", value]), 0)


def test_words_stand_in_the_locations_of_files_too(tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    file = {"filename": "net.pb", "location": "{MODEL_DIR}/net.pb", "md5": 32 * "0"}
    test = {"commands": ["{program} {files.net}"], "identifier": "{ID}", "metric": "delay"}
    path.write_text(json.dumps({"model": {"name": "net", "files": {"net": file}}, "tests": [test]}), encoding="utf-8")
    options = read_options(["-b", str(path), "--model_cache", str(tmp_path)])
    missing = r"net-0/value: files.net: {MODEL_DIR}/net.pb: nothing stands for {MODEL_DIR}: add --string_map"
    with pytest.raises(UsageError, match=missing):
        fetch_case_files(choose_cases(options, 0), options)
    (case,) = choose_cases(read_options(["-b", str(path), "--string_map", '{"MODEL_DIR": "/m"}']), 0).cases
    assert case.files["net"].location == "/m/net.pb"
