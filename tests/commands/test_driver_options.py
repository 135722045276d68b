"""repo_driver.py's options: those that can't be had together, or at all, are one line and exit code 2."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import Outcome, driver_main, outcome_of

from opduel.commands.driver_options import parse_driver_options
from opduel.commands.harness_options import CommitOptions

Drive = Callable[..., Outcome]


@pytest.fixture
def drive(home: Path, capsys: pytest.CaptureFixture[str]) -> Drive:
    """Call ``repo_driver.main`` with the given arguments."""
    return lambda *arguments: outcome_of(driver_main, arguments, capsys)


@pytest.mark.parametrize(
    "option", ["repo_dir", "commit_file", "status_file", "frameworks_dir", "exec_dir", "work_dir", "remote_repository"]
)
def test_a_folder_of_a_user_who_is_not_there(drive: Drive, option: str) -> None:
    outcome = drive("--ab_testing", "-b", "smoke", f"--{option}", "~nosuchuser/there")
    assert outcome.code == 2
    assert f"--{option}" in outcome.err
    assert "~nosuchuser/there: " in outcome.err
    assert len(outcome.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("-b smoke", "add --ab_testing"),
        ("--ab_testing", "-b/--benchmark_file"),
        ("--ab_testing -b smoke --control mxnet==1.9.1", "--control: the driver chooses builds"),
        ("--ab_testing -b smoke --treatment mxnet==1.9.1", "--treatment: the driver chooses builds"),
        ("--ab_testing -b smoke --info {}", "--info: the driver chooses builds"),
        ("--ab_testing -b smoke --run_type verify", "--run_type: the driver chooses builds"),
        ("--ab_testing -b smoke --inject 5%", "--inject: the driver chooses builds"),
        ("--ab_testing -b smoke --verify", "--verify: the driver chooses builds"),
        ("--ab_testing -b smoke --baseline x", "--baseline: only applies to one build alone"),
        ("--ab_testing -b smoke --profile_output x", "--profile_output: is for one run of harness.py"),
        ("--ab_testing -b smoke --env LC_ALL=C", "--env LC_ALL: is set by opduel itself"),
        ("--ab_testing -b smoke --exact_base", "--exact_base: add --base_commit"),
        ("--ab_testing -b smoke --all_cases", "--all_cases: works with --local or --regression, which leave cases out"),
        ("--ab_testing -b smoke --improved", "--improved: works only with --regression; add it"),
        ("--ab_testing -b smoke --platforms host,cuda", "--platforms host,cuda: this host is one platform"),
        ("--ab_testing -b smoke --build wheel", "--build: invalid choice: 'wheel'"),
        ("--ab_testing -b smoke --step 0", "--step: '0' is not a whole number of at least 1"),
        ("--ab_testing -b smoke --interval -1", "--interval: '-1' is not a number of seconds, 0 or more"),
        ("--ab_testing -b smoke --build_timeout 0", "--build_timeout: '0' is not a number of seconds above 0"),
        ("--ab_testing -b smoke --cache_size nan", "--cache_size: 'nan' is not a number of GiB above 0"),
        ("--ab_testing -b smoke --min_free -1", "--min_free: '-1' is not a number of GiB, 0 or more"),
        ("--ab_testing -b smoke --cache_size 0", "--cache_size: '0' is not a number of GiB above 0"),
        ("--bisect_releases  -b smoke", "--bisect_releases: is empty: give a value"),
        ("--ab_testing -b smoke --remote_repository ", "--remote_repository: is empty: give a value"),
        ("--ab_testing -b smoke --branch  --commit x", "--branch: is empty"),
        ("--ab_testing -b smoke --regres", "unrecognized arguments: --regres"),
        ("--ab_testing -b nothing", "spec 'nothing' is neither a file nor a spec's name"),
        ("--bisect_releases mxnet==1.9.1 -b smoke", "--bisect_releases: give two or more releases"),
        ("--bisect_releases a==1,b==2 -b smoke --commit x", "--bisect_releases: measures releases, not commits"),
        ("--bisect_releases a==1,b==2 -b smoke --interval 5", "--bisect_releases: measures releases, not commits"),
        ("--packages a==1 -b", "--packages: expected 2 arguments"),
        ("--packages a==1 a==2 -b smoke --commit x", "--packages: measures packages, not commits"),
        ("--packages a==1 a==2 -b smoke --bisect_releases a==1,a==2", "leave out --commit, --base_commit, --packages"),
        ("--ab_testing -b smoke --repo_dir /no/such/folder", "/no/such/folder"),
        (
            '--ab_testing -b smoke --cmake_args=-DA="b',
            '--cmake_args -DA="b: No closing quotation: quote it as for a shell',
        ),
    ],
)
def test_wrong_usage_is_one_line(drive: Drive, arguments: str, words: str) -> None:
    outcome = drive(*arguments.split(" "))
    assert words in outcome.error_line()


def test_what_is_the_harness_s_is_handed_on() -> None:
    options = parse_driver_options(
        ["--ab_testing", "-b", "smoke", "--threshold", "5%", "--time_budget", "60", "--build", "source"]
    )
    assert (options.harness.benchmark_file, options.harness.time_budget) == ("smoke", 60.0)
    assert options.own.build == "source"


def test_platform_and_cache_are_the_harness_s_too() -> None:
    options = parse_driver_options(["--ab_testing", "-b", "smoke", "-p", "cuda", "--exec_dir", "/cache"])
    assert (options.harness.platform, options.harness.exec_dir) == ("cuda", Path("/cache"))
    assert (options.own.platforms, options.own.exec_dir) == ("cuda", Path("/cache"))


def test_help_is_shown(drive: Drive) -> None:
    outcome = drive("--help-all")
    assert outcome.code == 0
    text = " ".join(outcome.out.split())
    assert "--bisect_releases" in text
    assert "Exit codes: 0 done" in text


def test_nothing_is_left_where_it_was_used_wrongly(drive: Drive, home: Path) -> None:
    assert drive("--ab_testing", "-b", "smoke", "--exact_base").code == 2
    assert list(home.iterdir()) == []


def test_a_remote_folder_that_is_missing_ends_as_a_url_that_can_not_be_reached(drive: Drive) -> None:
    outcome = drive("--ab_testing", "-b", "smoke", "--remote_repository", "/no/such/folder")
    assert outcome.code == 3
    assert outcome.err.splitlines() == [
        "repo_driver.py: error: --remote_repository /no/such/folder: no such folder: give an existing one, or a URL"
    ]


@pytest.mark.parametrize(
    ("settings", "is_awaited"),
    [
        ({"local": Path()}, True),
        ({"commit": "main"}, True),
        ({"packages": ["a", "b"]}, True),
        ({"commit": "main", "interval": 60.0}, False),
        ({}, False),  # of a commit file: the next pass goes on
    ],
)
def test_who_waits_for_what_comes_of_it(settings: dict[str, Any], is_awaited: bool) -> None:
    assert CommitOptions(**settings).is_awaited is is_awaited


@pytest.mark.parametrize(
    ("words", "is_search"),
    [
        ("--ab_testing --repo_dir . --base_commit a --exact_base --commit b --regression -b smoke", True),
        ("--ab_testing --repo_dir . --base_commit a --commit b --regression -b smoke", False),
        ("--ab_testing --repo_dir . --interval 60 --regression -b smoke", False),
        ("--local .", False),
    ],
)
def test_commits_that_are_named_are_searched_in_a_checkout(words: str, is_search: bool) -> None:
    assert parse_driver_options(words.split()).own.is_search == is_search
