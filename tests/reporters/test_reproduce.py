"""The command that measures a case again: what it says, and that harness.py reads it as that one case."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import report_samples as samples
from hostile import hostile

from opduel.commands.case_selection import choose_cases
from opduel.commands.driver_options import parse_driver_options
from opduel.commands.options import read_options
from opduel.records import Case, Commit, Report, RunConfiguration
from opduel.reporters.document import from_text, to_bytes
from opduel.reporters.reproduce import program, reproduction

SPEC = str(Path(__file__).resolve().parents[2] / "specifications" / "smoke.json")


def report_of(cases: Sequence[Case], command: Sequence[str] = (), **changes: Any) -> Report:
    """Make a report of a run that measured these cases."""
    comparisons = [samples.comparison(case.id, operator=case.operator, metric=case.metric) for case in cases]
    configuration = asdict(replace(configuration_of(command), env=changes.get("env", ())))
    run = {"command": ["harness.py", *command], "spec_path": SPEC, "configuration": configuration, **changes}
    return replace(samples.report(comparisons, **run), cases=tuple(cases))


def configuration_of(command: Sequence[str]) -> RunConfiguration:
    """As the commands make it of their options."""
    if "--repo_dir" in command:
        options = parse_driver_options(["--ab_testing", *command])
        return options.harness.configuration(options.own)
    return read_options(command).configuration()


def chosen(*words: str, seed: int = 7) -> Sequence[Case]:
    """What harness.py would measure."""
    return choose_cases(read_options(words), seed).cases


def again(report: Report, number: int = 0) -> list[str]:
    """The words of the command for the case of that number, as a shell reads them."""
    commands = reproduction(report)
    return shlex.split(f"{commands.here} {commands.of(report.comparisons[number])}")


def test_the_users_variables_are_given_again() -> None:
    (case, *_) = chosen("-b", "smoke")
    environment = {"DNNL_VERBOSE": "1", "MINE": "***", "LC_ALL": "C"}
    words = again(report_of([case], ["-b", "smoke"], env=["DNNL_VERBOSE", "MINE"], environment=environment))
    assert read_options(words[2:]).variables == {"DNNL_VERBOSE": "1", "MINE": "***"}


@pytest.mark.parametrize(
    "command",
    [
        ["-b", "smoke"],
        ["-b", "smoke", "--metric", "time,error", "--metric", "memory"],
        ["-b", "smoke", "--operators", "exp", "--operators", "*/backward", "--dtype=float64", "--metric", "time,error"],
        ["-b", "smoke", "--directions", "forward,backward"],
        ["-b", "nets", "--operators", "squeezenet"],
    ],
)
def test_every_case_of_a_run_is_measured_again_alone(command: list[str]) -> None:
    cases = chosen(*command)
    spec_path = str(Path(SPEC).with_name(f"{command[1]}.json"))
    report = report_of(cases, command, spec_path=spec_path)
    for number, case in enumerate(cases):
        program, name, *words = again(report, number)
        assert (program, name) == ("python3", "harness.py")
        options = read_options(words)
        assert choose_cases(options, options.seed).cases == [case]
        assert (options.control, options.treatment) == ("mxnet==1.8.0.post0", "mxnet==1.9.1")


@pytest.mark.nightly
def test_cases_of_the_whole_catalogue_are_distinguished() -> None:
    cases = chosen("-b", "all")
    report = report_of(cases, ["-b", "all"], spec_path=str(Path(SPEC).with_name("all.json")))
    commands = reproduction(report)
    patterns = [shlex.split(commands.of(comparison))[1] for comparison in report.comparisons]
    plain = [pattern for pattern in patterns if "[" not in pattern]
    assert len(plain) > len(cases) / 2  # most need no pattern
    every = "\n".join(case.id for case in cases)
    assert all(every.count(pattern) == 1 for pattern in plain)
    for number in (0, len(cases) - 1):
        words = again(report, number)[2:]
        assert [case.id for case in chosen(*words)] == [cases[number].id]


def test_inputs_of_the_command_line_are_given_again() -> None:
    command = ["--operators", "nd.add", "--operators", "nd.dot", "--metric", "time,error", "--directions", "both"]
    command += ["--inputs", '{"lhs": [8, 8], "rhs": [8, 8]}', "--inputs", '{"lhs": [4, 4], "rhs": [4, 4]}']
    cases = chosen(*command)
    assert len(cases) == 8
    report = report_of(cases, command, spec_path=None)
    for number, case in enumerate(cases):
        (selected,) = chosen(*again(report, number)[2:])
        definitions = [
            (
                selected_case.operator,
                selected_case.inputs,
                selected_case.direction,
                selected_case.metric,
                selected_case.dtype,
            )
            for selected_case in (selected, case)
        ]
        assert definitions[0] == definitions[1]


def test_a_network_of_the_command_line_is_named_again() -> None:
    own = ["--network", "resnet18_v1", "--inputs", '{"data": [1, 3, 32, 32]}']
    words = again(report_of(chosen(*own), [*own, "--with_operators"], spec_path=None))
    assert words[words.index("--network") + 1] == "resnet18_v1"
    assert json.loads(words[words.index("--inputs") + 1]) == {"data": [1, 3, 32, 32]}
    assert "--with_operators" in words
    assert words[words.index("--operators") + 1] == "resnet18_v1/forward"


def test_random_sizes_are_drawn_by_the_seed_that_drew_them() -> None:
    """The driver's runs have seeds of their own, and sizes that are those of all its commits."""
    cases = chosen("-b", "random", seed=0)
    report = report_of(cases, ["-b", "random"], seed=3735928559, spec_seed=0, spec_path=SPEC.replace("smoke", "random"))
    words = again(report, 3)
    seed = int(words[words.index("--seed") + 1])
    assert [case.id for case in chosen(*words[words.index("-b") :], seed=seed)] == [cases[3].id]


def test_sets_of_inputs_are_given_again() -> None:
    assert "--input_sets 100" in " ".join(
        again(report_of(chosen("-b", "smoke"), ["-b", "smoke", "--input_sets", "100"]))
    )


def test_only_what_holds_for_a_case_is_kept() -> None:
    command = ["-b", "smoke", "--threshold", "1%", "--alpha=0.1", "--int64-tensor", "off", "--roofline", "--breakdown"]
    command += ["--time_budget", "5", "--round_log", "log", "--local_reporter", "somewhere", "--verify", "--seed", "3"]
    command += [
        "--user_identifier",
        "me",
        "--inject",
        "5%",
        "--html_reporter=page.html",
        "--remote_access_token",
        "secret",
    ]
    report = report_of([samples.report().cases[0]], command)
    assert again(report)[2:] == [
        *("--control", "mxnet==1.8.0.post0", "--treatment", "mxnet==1.9.1", "-b", "smoke"),
        *("--int64_tensor", "off", "--threshold", "1%", "--alpha", "0.1", "--roofline", "--breakdown", "--seed", "7"),
        *("--operators", "steady"),
    ]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/home/me/checkout/specifications/operators/unary.yaml", ["-b", "operators/unary"]),
        ("specifications/conv.json", ["-b", "conv"]),
        ("/home/me/my specs/conv.json", ["-b", "/home/me/my specs/conv.json"]),
        (None, []),
    ],
)
def test_our_specs_are_named_and_others_are_paths(path: str | None, words: list[str]) -> None:
    assert again(report_of([samples.report().cases[0]], spec_path=path))[6 : 6 + len(words)] == words


def test_a_build_that_is_no_release_is_its_interpreter() -> None:
    report = report_of([samples.report().cases[0]])
    brought = replace(
        report.treatment, strategy="environment", requested="../mine", interpreter="/home/me/mine/bin/python"
    )
    assert again(replace(report, treatment=brought))[4:6] == ["--treatment", "/home/me/mine/bin/python"]
    assert not reproduction(report).anywhere


def test_a_program_is_named_by_its_own_path() -> None:
    report = report_of([samples.report().cases[0]])
    control, treatment = (
        replace(report.control, strategy="program", environment={"OPDUEL_PROGRAM": path}) for path in ("/v1/b", "/v2/b")
    )
    words = again(replace(report, control=control, treatment=treatment))
    assert words[2:6] == ["--control", "/v1/b", "--treatment", "/v2/b"]


def test_commits_can_be_rebuilt() -> None:
    command = ["-b", "smoke", "--repo_dir", "/src/my mxnet", "--threads", "1", "--work_dir", "w", "-p", "cuda"]
    command += ["--frameworks_dir", "/mine"]
    report = report_of(chosen("-b", "smoke"), command)
    sides = [
        replace(build, strategy="overlay", commit=Commit(digit * 40, 0, "a <b>", "c"))
        for build, digit in ((report.control, "1"), (report.treatment, "2"))
    ]
    report = replace(report, control=sides[0], treatment=sides[1])
    commands = reproduction(report)
    words = shlex.split(f"{commands.anywhere} {commands.of(report.comparisons[0])}")
    assert words[:2] == ["python3", "repo_driver.py"]
    options = parse_driver_options(words[2:])
    assert (options.own.base_commit, options.own.commit, options.own.exact_base) == ("1" * 40, "2" * 40, True)
    assert (options.own.repo_dir, options.own.build) == (Path("/src/my mxnet"), "overlay")
    assert (options.own.platforms, options.own.frameworks_dir) == ("cuda", Path("/mine"))
    assert [case.id for case in choose_cases(options.harness, 7).cases] == [report.comparisons[0].case]


@pytest.mark.parametrize(("treatment", "named"), [("HEAD python==3.12", "2" * 40 + " python==3.12"), (".", "")])
def test_commits_that_were_named_as_builds_are_named_by_their_ids(treatment: str, named: str) -> None:
    report = report_of(chosen("-b", "smoke"), ["-b", "smoke", "--control", "main", "--treatment", treatment])
    sides = [
        replace(build, strategy="source", commit=Commit(digit * 40, 0, "a <b>", "c"))
        for build, digit in ((report.control, "1"), (report.treatment, "2"))
    ]
    words = shlex.split(reproduction(replace(report, control=sides[0], treatment=sides[1])).anywhere)
    assert words[2:4] == (["1" * 40, named] if named else []), "a work tree is no longer what it was"


def test_commits_of_a_program_can_be_rebuilt_with_where_it_is_in_a_build(tmp_path: Path) -> None:
    spec = tmp_path / "own.json"
    spec.write_text('{"framework": "generic", "tests": [{"command": ["{program}", "{size}"], "identifier": "it"}]}')
    command = ["-b", str(spec), "--repo_dir", "/src/tool", "--frameworks_dir", "/mine", "--program", "{build}/my bench"]
    command += ["--string_map", '{"size": 3}', "--command_args=-v"]
    command_line = [*command, "--base_commit", "1", "--exact_base"]
    configuration = asdict(configuration_of(command_line))
    report = samples.report([samples.comparison("it")], spec_path=str(spec), configuration=configuration)
    sides = [
        replace(build, strategy="source", commit=Commit(digit * 40, 0, "a <b>", "c"))
        for build, digit in ((report.control, "1"), (report.treatment, "2"))
    ]
    report = from_text(to_bytes(replace(report, control=sides[0], treatment=sides[1])).decode())
    options = parse_driver_options(shlex.split(reproduction(report).anywhere)[2:])
    program_options = (options.harness.build_program, options.harness.string_map, options.harness.command_args)
    assert program_options == ("{build}/my bench", '{"size": 3}', "-v")
    assert "--program" not in reproduction(report).here, "there the sides are the programs themselves"


@pytest.mark.parametrize("command", [(), ("--threads",)])
def test_odd_commands_make_no_trouble(command: tuple[str, ...]) -> None:
    report = samples.report(command=command, spec_path=None, seed=None)
    assert reproduction(report).here == "python3 harness.py --control mxnet==1.8.0.post0 --treatment mxnet==1.9.1"


@pytest.mark.parametrize(
    "case", ["a b; rm -rf ~", "x`id`$(id)", "it's", "!x", "[a]*?", "-x", "", "a\nb", "\x1b[31m\u202e"]
)
def test_odd_names_stay_one_word_and_cannot_command_a_terminal(case: str) -> None:
    report = samples.report([samples.comparison(case)])
    commands = reproduction(report)
    line = f"{commands.here} {commands.of(report.comparisons[0])}"
    assert line.isprintable()
    words = shlex.split(line)
    assert len(words) == 12
    assert words[:2] == ["python3", "harness.py"]


def test_a_hostile_report_gives_a_command_of_our_own_all_the_same() -> None:
    report = hostile(samples.report(command=["harness.py", "--ctx", "cpu"]))
    commands = reproduction(report)
    for comparison in report.comparisons:
        words = shlex.split(f"{commands.here} {commands.of(comparison)}")
        assert words[:3] == ["python3", "harness.py", "--control"]
        assert [word for word in words if word.startswith("-")] == [
            "--control",
            "--treatment",
            "-b",
            "--seed",
            "--operators",
        ]


def test_inputs_are_json() -> None:
    report = report_of(
        chosen("--operators", "nd.add", "--inputs", '{"lhs": [2], "rhs": [2]}'),
        ["--operators", "nd.add", "--inputs={}"],
        spec_path=None,
    )
    words = again(report)
    assert json.loads(words[words.index("--inputs") + 1]) == {"lhs": [2], "rhs": [2]}


def test_an_installed_opduel_has_no_scripts(tmp_path: Path) -> None:
    assert program("harness.py", "compare") == ["python3", "harness.py"]
    assert program("harness.py", "compare", RunConfiguration(program="opduel")) == ["opduel", "compare"]
    assert program("harness.py", "compare", root=tmp_path) == ["opduel", "compare"]
