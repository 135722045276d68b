"""What a run was asked for: as its parsers have it, as a report keeps it, and as a command line says it again."""

import json
from dataclasses import asdict, replace

import pytest

from opduel.commands.driver_options import driver_parser
from opduel.commands.harness_options import CommitOptions
from opduel.commands.options import harness_parser, read_options
from opduel.records import SAMPLED, Case, RunConfiguration, RunRecord, rounds_at, usual_rounds
from opduel.records.configuration import OPTIONS, kinds

DRIVERS = ("repo_dir", "remote_repository", "frameworks_dir", "cmake_args", "with_packages", "build")
NO_OPTIONS = ("program", "env", "seed", "regressed_types")  # env: names without values; regressed_types: JSON
CASE = Case("a", "nd.add", "forward", {}, "float32", "cpu", 0.02, 60.0)
GIVEN = RunConfiguration(
    benchmark_file="smoke",
    operators=("exp*", "-odd"),
    category=("unary",),
    inputs=('{"a": [1]}', '{"a": [2]}'),
    with_operators=True,
    fuzz=3,
    dtype="float64",
    ctx="gpu(1)",
    directions=("forward", "both"),
    int64_tensor="off",
    metric=("time", "error"),
    timeout=7.5,
    threshold={"time": 0.015, "memory": 0.07},
    alpha=0.01,
    max_rounds=12,
    time_budget=90.0,
    threads=4,
    inject=0.05,
    sentinels=0,
    busy_host="report",
    verify=True,
    verify_after=0.5,
    wipe_cache=True,
    roofline=True,
    user_identifier="me & you",
    platform="rack 7",
)


def test_what_is_not_given_is_what_the_parsers_say() -> None:
    assert read_options([]).configuration() == RunConfiguration()
    driver = read_options([]).configuration(CommitOptions())
    assert driver == RunConfiguration(program="repo_driver.py")


def test_every_field_is_an_option_of_that_name() -> None:
    ours = {name for action in harness_parser()._actions for name in action.option_strings}
    drivers = {name for action in driver_parser()._actions for name in action.option_strings}
    for name in set(kinds()) - {"program"}:
        assert f"--{OPTIONS.get(name, name)}" in (drivers if name in DRIVERS else ours)


def test_its_words_are_read_as_the_same() -> None:
    words = GIVEN.words(name for name in kinds() if name not in (*NO_OPTIONS, *DRIVERS))
    assert read_options(words).configuration() == GIVEN
    same = replace(GIVEN, threshold=dict.fromkeys(SAMPLED, 0.02))
    assert same.words(["threshold"]) == ["--threshold", "2%"]
    words = RunConfiguration(build_program="{build}/a b").words(["program", "build_program"])
    assert read_options(words).build_program == "{build}/a b"
    driver = RunConfiguration(program="repo_driver.py", repo_dir="/my clone", cmake_args="-DX=1", build="source")
    own = CommitOptions.of(driver_parser().parse_args(driver.words(DRIVERS)))
    assert read_options([]).configuration(own) == driver


@pytest.mark.parametrize(
    ("threshold", "rounds"),
    [(0.5, 50), (0.005, 50), (0.0025, 84), (0.002, 99), (0.001, 160), (0.00045, 160), (1e-9, 160), (0.0, 160)],
)
def test_small_thresholds_have_more_rounds(threshold: float, rounds: int) -> None:
    assert rounds_at(threshold) == rounds
    assert usual_rounds([replace(CASE, threshold=0.5), replace(CASE, threshold=threshold)]) == rounds


def test_counts_have_no_noise_that_more_rounds_would_help_against() -> None:
    assert usual_rounds([CASE, replace(CASE, metric="instructions", threshold=1e-6)]) == 50
    assert usual_rounds([]) == 50


def test_rounds_that_were_given_are_given_again() -> None:
    configuration = read_options(["--max_rounds", "30", "--threshold", "0.1%"]).configuration()
    assert (configuration.max_rounds, configuration.words(["max_rounds"])) == (30, ["--max_rounds", "30"])
    configuration = read_options(["--threshold", "0.1%"]).configuration()
    assert (configuration.max_rounds, configuration.words(["max_rounds"])) == (None, [])


def test_a_report_keeps_it() -> None:
    assert RunRecord.of({"configuration": json.loads(json.dumps(asdict(GIVEN)))}).configuration == GIVEN
