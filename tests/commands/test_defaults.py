"""run_bench.py as the one entry: every command's default arguments from the config, regression runs handed over."""

import json
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from command_line import Outcome

from opduel.commands import run_bench
from opduel.commands.config import ARGUMENTS, COMMANDS, config_path, read_config, write_config
from opduel.commands.defaults import CALIBRATE, DRIVER, HARNESS, PARSERS, is_for_driver, with_defaults
from opduel.records import UsageError

Calls = list[tuple[str, list[str]]]
Run = Callable[..., Outcome]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """What run_bench.py hands over, and to which command."""
    command_lines: Calls = []

    def note(command: str, words: Sequence[str]) -> int:
        command_lines.append((command, list(words)))
        return 0

    for name in ("run_harness", "run_calibration", "run_driver"):
        monkeypatch.setattr(run_bench, name, note)
    return command_lines


def configure(**commands: Any) -> None:
    names = {"harness": HARNESS, "driver": DRIVER, "calibrate": CALIBRATE}
    write_config(config_path(), {ARGUMENTS: {names[name]: options for name, options in commands.items()}})


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (["--ab_testing", "--regression", "-b", "smoke"], DRIVER),
        (["-b", "smoke", "--commit=abc"], DRIVER),
        (["--bisect_releases", "a==1,b==2", "-b", "smoke"], DRIVER),
        (["-b", "smoke", "--repo_dir", "x"], DRIVER),
        (["-b", "smoke", "--platform", "host", "--exec_dir", "x"], HARNESS),  # both have these
        (["-b", "smoke", "--threshold", "5%"], HARNESS),
        (["--calibrate", "-b", "smoke"], CALIBRATE),
    ],
)
def test_a_driver_s_option_hands_over_to_the_driver(
    bench: Run, calls: Calls, arguments: list[str], command: str
) -> None:
    assert bench(*arguments).code == 0
    assert calls == [(command, [word for word in arguments if word != "--calibrate"])]


def test_what_is_wrong_is_said_by_the_driver(bench: Run) -> None:
    assert "add --ab_testing" in bench("-b", "smoke", "--commit", "x").error_line()


def test_defaults_come_first_and_the_command_line_overrides_them(bench: Run, calls: Calls, home: Path) -> None:
    configure(harness={"time_budget": 600, "--busy_host": "report", "operators": ["a", "b"], "roofline": True})
    assert bench("-b", "smoke").code == 0
    assert bench("-b", "smoke", "--time_budget=5", "--operators", "c").code == 0
    defaults = ["--time_budget=600", "--busy_host=report", "--operators=a", "--operators=b", "--roofline"]
    assert calls == [
        (HARNESS, [*defaults, "-b", "smoke"]),
        (HARNESS, ["--busy_host=report", "--roofline", "-b", "smoke", "--time_budget=5", "--operators", "c"]),
    ]


def test_every_command_has_its_own(bench: Run, calls: Calls) -> None:
    configure(
        harness={"seed": 1},
        driver={"ab_testing": True, "regression": True, "time_budget": 60, "improved": False},
        calibrate={"time_budget": 90},
    )
    assert bench("-b", "smoke", "--base_commit", "1.8.0").code == 0
    assert bench("--calibrate").code == 0
    assert calls == [
        (DRIVER, ["--ab_testing", "--regression", "--time_budget=60", "-b", "smoke", "--base_commit", "1.8.0"]),
        (CALIBRATE, ["--time_budget=90"]),
    ]


def test_a_name_for_an_option_is_as_good_as_another(bench: Run, calls: Calls) -> None:
    configure(driver={"platforms": "cuda"}, harness={"platform": "laptop"})
    bench("--ab_testing", "-b", "smoke", "-p", "host")
    bench("-b", "smoke", "-phost")
    assert [arguments for _, arguments in calls] == [
        ["--ab_testing", "-b", "smoke", "-p", "host"],
        ["-b", "smoke", "-phost"],
    ]


def test_defaults_of_an_ab_are_left_out_for_one_build_alone_and_the_other_way_round(bench: Run, calls: Calls) -> None:
    configure(harness={"verify": True, "rounds": 3, "seed": 7})
    bench("-b", "smoke")
    bench("-b", "smoke", "--single")
    assert [arguments[:2] for _, arguments in calls] == [["--verify", "--seed=7"], ["--rounds=3", "--seed=7"]]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"frobnicate": 1}, "harness.py.frobnicate: harness.py has no such option"),
        ({"ab_testing": True}, "harness.py.ab_testing: harness.py has no such option"),
        ({"time_budget": "soon"}, "harness.py.time_budget: 'soon' is not a number"),
        ({"time_budget": True}, "harness.py.time_budget: is true, and takes a value: give one"),
        ({"time_budget": [1, 2]}, "harness.py.time_budget: takes one value"),
        ({"operators": {"a": 1}}, "harness.py.operators: give a text, a number, true, false, or a list of texts"),
        ({"verify": 1}, "harness.py.verify: takes no value: give true or false"),
        ({"backend": "x"}, "harness.py.backend: a build has the backend"),
    ],
)
def test_a_bad_default_names_the_file_and_the_field(bench: Run, options: dict[str, Any], words: str) -> None:
    configure(harness=options)
    line = bench("-b", "smoke").error_line()
    assert f"{config_path()}: arguments.{words}" in line


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([], "arguments: must be an object of commands"),
        ({"bench.py": {}}, "arguments.bench.py: no such command; use harness.py, repo_driver.py"),
        ({"harness.py": 1}, "arguments.harness.py: must be an object of options"),
    ],
)
def test_arguments_that_are_no_objects(home: Path, value: Any, words: str) -> None:
    write_config(config_path(), {ARGUMENTS: value})
    with pytest.raises(UsageError, match=words.replace("(", r"\(")):
        read_config(config_path())


def test_options_are_kept_and_taken_by_the_next_run(bench: Run, calls: Calls) -> None:
    write_config(config_path(), {"control": "mxnet==1.8.0.post0"})
    words = ["--time_budget", "60", "--metric", "time", "--metric=memory", "--wipe_cache", "--verify", "-p", "laptop"]
    outcome = bench("--keep_options", *words)
    assert (outcome.code, calls) == (0, [])
    assert "defaults for harness.py kept" in outcome.err
    assert stat.S_IMODE(config_path().stat().st_mode) == 0o600
    assert json.loads(config_path().read_text()) == {
        "control": "mxnet==1.8.0.post0",
        "arguments": {
            HARNESS: {
                "time_budget": "60",
                "metric": ["time", "memory"],
                "wipe_cache": True,
                "verify": True,
                "platform": "laptop",
            }
        },
    }
    bench("-b", "smoke")
    defaults = ["--time_budget=60", "--metric=time", "--metric=memory", "--wipe_cache", "--verify", "--platform=laptop"]
    assert calls == [(HARNESS, [*defaults, "-b", "smoke"])]


def test_what_is_measured_is_not_kept_and_a_run_goes_on(bench: Run, calls: Calls) -> None:
    driver = ["--ab_testing", "--repo_dir", "/src", "--commit", "HEAD", "-b", "smoke", "--operators", "dot"]
    assert bench("--keep_options", *driver).code == 0
    assert read_config(config_path())[ARGUMENTS] == {DRIVER: {"ab_testing": True, "repo_dir": "/src"}}
    assert calls == [(DRIVER, driver)]


def test_neither_a_token_nor_any_value_is_shown(bench: Run, calls: Calls) -> None:
    assert bench("--keep_options", "--remote_access_token", "hunter2", "--notify_command", "curl hunter2").code == 0
    assert "remote_access_token" not in read_config(config_path())[ARGUMENTS][HARNESS]
    outcome = bench("-b", "smoke")
    assert "--notify_command" in outcome.err
    assert "hunter2" not in outcome.err


def test_without_defaults_nothing_changes_and_nothing_is_said(home: Path) -> None:
    for command in COMMANDS:
        assert with_defaults(command, ["-b", "x"]) == ["-b", "x"]
    assert not config_path().exists()
    assert set(PARSERS) == set(COMMANDS)
    assert not is_for_driver(["-b", "smoke", "--user_identifier=--commit"])
