"""harness.py's options: what they take, and the one line that anything else gets."""

import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import HARNESS, Outcome, run_process, run_script

from opduel.commands.driver_options import driver_parser
from opduel.commands.harness_options import CommitOptions, HarnessOptions
from opduel.commands.option_rules import RULES, refuse_options
from opduel.commands.options import read_options
from opduel.records import SAMPLED, UsageError

Run = Callable[..., Outcome]


def parsed(option: str, text: str) -> Any:
    return getattr(read_options(["-b", "x", f"{option}={text}"]), option.removeprefix("--"))


@pytest.mark.parametrize(
    ("option", "text", "value"),
    [
        ("--inject", "2%", 0.02),
        ("--inject", "2 %", 0.02),
        ("--inject", "0.5%", 0.005),
        ("--inject", "5e-3", 0.005),
        ("--inject", "99.9%", 0.999),
        ("--inject", "10%", 0.1),
        ("--inject", "0.05", 0.05),
        ("--inject", "0", 0.0),
        ("--alpha", "0.01", 0.01),
        ("--seed", "0", 0),
        ("--seed", "4294967295", 4294967295),
        ("--time_budget", "90", 90.0),
        ("--time_budget", "0.5", 0.5),
        ("--timeout", "10", 10.0),
        ("--max_rounds", "2", 2),
        ("--threads", "1", 1),
        ("--run_type", "verify", "verify"),
    ],
)
def test_good_values(option: str, text: str, value: float | str) -> None:
    parsed_value = parsed(option, text)
    assert parsed_value == pytest.approx(value) if isinstance(value, float) else parsed_value == value
    assert type(parsed_value) is type(value)


@pytest.mark.parametrize(
    "option", ["exec_dir", "model_cache", "round_log", "output_file", "baseline", "profile_output"]
)
def test_paths(option: str) -> None:
    assert str(parsed(f"--{option}", "~/there")) == str(Path.home() / "there")
    with pytest.raises(
        UsageError, match=rf"--{option}.*: ~nosuchuser/there: there is no such user: give the full path"
    ):
        parsed(f"--{option}", "~nosuchuser/there")
    with pytest.raises(UsageError, match=rf"--{option}.*: the value is empty: give a path"):
        parsed(f"--{option}", "")


def test_thresholds_are_for_every_metric_or_for_one() -> None:
    def thresholds(*texts: str) -> dict[str, float]:
        parsed = read_options(["-b", "x", *(f"--threshold={text}" for text in texts)])
        return parsed.threshold

    assert thresholds() == {}
    assert thresholds("2 %") == dict.fromkeys(SAMPLED, 0.02)
    assert thresholds("instructions=1%") == {"instructions": 0.01}
    assert thresholds("0.05", "instructions=0.5%") == {**dict.fromkeys(SAMPLED, 0.05), "instructions": 0.005}
    assert thresholds("instructions=0.5%", "5%") == dict.fromkeys(SAMPLED, 0.05)


def test_metrics_come_once_each_in_the_order_given() -> None:
    def metrics(*texts: str) -> list[str]:
        return list(read_options(["-b", "x", *(f"--metric={text}" for text in texts)]).metric)

    assert metrics() == []
    assert metrics("instructions") == ["instructions"]
    assert metrics("instructions,time,instructions") == ["instructions", "time"]
    assert metrics("time", "instructions,time") == ["time", "instructions"]


@pytest.mark.parametrize(
    ("option", "text"),
    [
        *(
            ("--threshold", text)
            for text in ("2", "1", "100%", "200%", "-1", "-1%", "nan", "nan%", "inf", "", "%", "x")
        ),
        *(("--threshold", text) for text in ("2%%", "%2", "2%x", "0,02")),
        *(("--threshold", text) for text in ("mood=2%", "time=2", "instructions=", "=2%", "error=2%")),
        *(("--metric", text) for text in ("mood", "", "time,", "time;instructions", "Time")),
        *(("--inject", text) for text in ("1", "5", "-0.1", "nan", "")),
        *(("--alpha", text) for text in ("0", "1", "-0.1", "1.5", "nan", "5%", "")),
        *(("--seed", text) for text in ("-1", "4294967296", "1.5", "x", "")),
        *(("--time_budget", text) for text in ("0", "-1", "nan", "inf", "1m", "")),
        *(("--timeout", text) for text in ("0", "-1", "nan", "inf", "")),
        *(("--max_rounds", text) for text in ("1", "0", "-2", "2.5", "many", "")),
        *(("--threads", text) for text in ("0", "-1", "1.5", "all", "")),
        *(("--sentinels", text) for text in ("-1", "1.5", "few", "")),
        *(("--verify_after", text) for text in ("-1", "nan", "inf", "1h", "")),
        ("--busy_host", "ignore"),
        ("--run_type", "test"),
    ],
)
def test_bad_values_name_the_option_and_the_text(option: str, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parsed(option, text)
    assert option in str(caught.value)
    assert repr(text) in str(caught.value)


def test_of_two_values_for_a_variable_the_later_one_holds() -> None:
    words = ["-b", "x", "--env", "A=1", "--env", "B=x=y", "--env=A=", "--env", "_c=2"]
    assert read_options(words).variables == {"A": "", "B": "x=y", "_c": "2"}


def test_the_value_of_a_variable_is_in_no_error() -> None:
    with pytest.raises(UsageError) as caught:
        parsed("--env", "MY-NAME=hunter2")
    assert "hunter2" not in str(caught.value)


def test_the_parsers_defaults_are_those_of_the_typed_options() -> None:
    assert read_options([]).values() == HarnessOptions().values()
    assert not [name for name in HarnessOptions().values() if read_options([]).is_given(name)]
    assert CommitOptions.of(driver_parser().parse_args([])) == CommitOptions()


def test_an_option_that_is_refused_is_named_as_the_user_gave_it() -> None:
    with pytest.raises(UsageError, match=r"^--warmup: leave it out$"):
        read_options(["--warmup", "0"]).refuse(["runs", "warmup"], "leave it out")
    with pytest.raises(UsageError, match=r"^metrics: leave it out$"):
        HarnessOptions(explicit=frozenset({"metric"}), arguments={"metric": "metrics"}).refuse(
            ["metric"], "leave it out"
        )


def test_options_that_are_refused_are_options() -> None:
    names = {name for rules in RULES.values() for rule in rules for name in (*rule.options, *rule.but)}
    options = read_options([])
    assert names <= {*options.values(), "program", *vars(options.reporting)}
    for use in RULES:
        refuse_options(options, use)
    with pytest.raises(UsageError, match=r"^--json: belongs to an A/B, not to --single or an option of it"):
        refuse_options(read_options(["--json"]), "one build")


def test_defaults() -> None:
    options = read_options(["--benchmark_file", "x"])
    assert (options.alpha, options.threads, options.inject) == (0.05, 1, 0.0)
    assert (options.threshold, options.seed, options.time_budget, options.control) == ({}, None, None, None)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["-b/--benchmark_file", "--help"]),
        (["-b"], ["-b/--benchmark_file", "expected one argument"]),
        (["-b", "smoke", "--frobnicate"], ["--frobnicate"]),
        (["-b", "smoke", "surplus"], ["surplus"]),
        (["-b", "smoke", "two\nlines"], ["two lines"]),
        (
            ["-b", "smoke", "--thresh", "2%", "--threads", "100000"],
            ["--thresh "],
        ),  # no abbreviations: a new option would change what they mean
        (["-b", "smoke", "--threshold", "200%"], ["--threshold", "200%"]),
        (["-b", "smoke", "--threads", "100000"], ["--threads 100000", str(len(os.sched_getaffinity(0)))]),
        (["-b", "no-such-spec"], ["no-such-spec", "smoke"]),
        (["-b", "/"], ["'/'"]),
        (["-b", "smoke", "--framework", "jax"], ["--framework jax", "mxnet"]),
        (["-b", "smoke", "--operators", "no such case"], ["no such case"]),
        (["-b", "smoke", "--control", "mxnet==0.0.1"], ["0.0.1", "1.9.1"]),
        (["-b", "smoke", "--control", "torch==2.0"], ["torch==2.0 is not known: use one of mxnet"]),
        (["-b", "smoke", "--control", "whatever"], ["whatever", "mxnet==1.9.1"]),
        (["-b", "smoke", "--control", ""], ["--control: is empty: give a value"]),
        (["-b", "smoke", "--operators", "exp", "--operators", ""], ["--operators: is empty"]),
        (["-b", "smoke", "--threads=--"], ["--threads: is empty"]),
        (["-b", "smoke", "--operators=--"], ["--operators: is empty"]),
        (["-b", "x" * 20_000], [f"spec '{'x' * 39}..."]),
        (["-b", "a b" * 9_000], ["'a ba ba b"]),
        (["-b", "smoke", "--threshold", "9" * 20_000], ["99...99"]),
        (["-b", "smoke", "--token", "pass word", "--key=word", "word"], ["--token *** --key=*** ***;"]),
        (["-b", "smoke", "--control", "/no/such/build"], ["/no/such/build"]),
        (["-b", "smoke", "--control", os.devnull], [os.devnull]),
        (["-b", "smoke", "--local_reporter", ""], ["--local_reporter"]),
        (["-b", "smoke", "--env", "DNNL_VERBOSE"], ["--env", "'DNNL_VERBOSE' has no =: write NAME=VALUE"]),
        (["-b", "smoke", "--env", "=1"], ["--env", "'' is not a variable name"]),
        (["-b", "smoke", "--env", "MY-NAME=1"], ["--env", "'MY-NAME' is not a variable name"]),
        (["-b", "smoke", "--env", "OMP_NUM_THREADS=2"], ["--env OMP_NUM_THREADS", "opduel itself"]),
        (
            ["-b", "smoke", "--single", "--treatment", "mxnet==1.9.1", "--env", "LC_ALL=C"],
            ["--env LC_ALL", "opduel itself"],
        ),
        (["-b", "smoke", "--profile_output", "/proc/x"], ["--profile_output /proc/x: cannot be written"]),
        (["-b", "smoke", "--profile_output", "/dev/null"], ["--profile_output /dev/null: cannot be written"]),
        (["-b", "smoke", "--verify_after", "5"], ["--verify_after", "works only with --verify: add that"]),
        (
            ["-b", "smoke", "--verify", "--verify_after", "60", "--time_budget", "60"],
            ["--verify_after 60", "budget of 60 s"],
        ),
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(run: Run, arguments: list[str], words: list[str]) -> None:
    if "--control" in arguments:
        arguments = [*arguments, "--treatment", "mxnet==1.9.1"]
    line = run(*arguments).error_line()
    assert line.startswith("harness.py: error: ")
    for word in words:
        assert word in line


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", ["spec.json"]),
        ("", ["spec.json"]),
        ("[]", ["spec.json"]),
        ('{"framework": "mxnet"}', ["tests", "missing"]),
        ('{"framework": "mxnet", "tests": [{"operator": "nd.exp", "inputs": {}, "iters": 3}]}', ["tests[0].iters"]),
        ('{"framework": "mxnet", "tests": [{"operator": "nd.exp", "inputs": {"data": [-1]}}]}', ["inputs.data"]),
    ],
)
def test_a_bad_spec_is_one_line_and_exit_2(run: Run, tmp_path: Path, content: str, words: list[str]) -> None:
    (tmp_path / "spec.json").write_text(content)
    line = run("-b", str(tmp_path / "spec.json")).error_line()
    for word in [str(tmp_path / "spec.json"), *words]:
        assert word in line


@pytest.mark.parametrize("builds", [(), ("--single", "--treatment", "mxnet==1.9.1")])
def test_profiles_mix_with_nothing_else(run: Run, tmp_path: Path, builds: tuple[str, ...]) -> None:
    (tmp_path / "mine.txt").write_text("the user's")
    line = run("-b", "smoke", *builds, "--profile_output", str(tmp_path)).error_line()
    assert f"--profile_output {tmp_path}: contains other files than profiles: give a new or empty folder" in line
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_as_a_process_wrong_usage_leaves_no_traceback(home: Path) -> None:
    line = run_script(HARNESS, "-b", "smoke", "--seed", "x").error_line()
    assert (
        line
        == "harness.py: error: argument --seed: 'x' is not a whole number from 0 to 4294967295; see harness.py --help\n"
    )


@pytest.mark.parametrize("environment", [{}, {"PYTHONPATH": "/nowhere"}])
def test_closed_streams_are_no_trouble(environment: dict[str, str], home: Path) -> None:
    """Nor to the entering of the environment, of which a PYTHONPATH makes certain."""
    command = f'exec "{sys.executable}" "{HARNESS}" -b no-such-spec <&- >&- 2>&-'
    assert run_process(["sh", "-c", command], environment) == Outcome(2, "", "")


def test_threads_are_checked_before_builds_are_made(run: Run, home: Path) -> None:
    builds = ("--control", "/no/such/build", "--treatment", "/no/such/build")
    assert "--threads" in run("-b", "smoke", *builds, "--threads", "100000").error_line()


def test_shares_are_never_out_of_range() -> None:
    for text in ("1e-400", "1e-5%", "0.9999999"):
        assert 0 <= parsed("--inject", text) < 1
        assert math.isfinite(parsed("--inject", text))
