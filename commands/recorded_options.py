"""What a report keeps of the options: only values that are known to hold no secret, redacted all the same."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opduel.commands.options import asked_metrics, by_metric, variables
from opduel.records import RunConfiguration
from opduel.records.configuration import kinds
from opduel.records.redaction import recorded_command

# Options whose values a report keeps. All others are masked, new ones too, until somebody adds them here: what can hold
# a password, a token, a header, or somebody's whole document (--notify_command, --info) has no place in this list.
KEPT_OPTIONS = frozenset(
    {
        # harness.py's: what is measured,
        *("-b", "--benchmark_file", "--control", "--treatment", "--operators", "--category", "--inputs", "--dtype"),
        *("--ctx", "--directions", "--int64_tensor", "--int64-tensor", "--metric", "--framework", "-p", "--platform"),
        *(
            "--exec_dir",
            "--model_cache",
            "--profile_output",
            "--network",
            "--fuzz",
            "--fuzz_spec",
            "--root_model_dir",
            "--shared_libs",
        ),
        # of one build alone,
        *("--rounds", "--profiler", "--output_format", "--output-format", "--output_file", "--output-file"),
        *("-f", "-o", "-r", "-w", "--runs", "--warmup", "--baseline", "--golden", "--wipe_cache"),
        # how it is decided, and how far it is trusted,
        *("--threshold", "--alpha", "--time_budget", "--round_log", "--max_rounds", "--seed", "--threads", "--timeout"),
        *("--inject", "--sentinels", "--busy_host", "--verify_after"),
        # and where it is kept.
        *("--local_reporter", "--simple_local_reporter", "--html_reporter", "--export_reporter"),
        *("--user_identifier", "--run_type", "--regressed_types"),
        # repo_driver.py's: which commits, how they are built, how it runs.
        *(
            "--local",
            "--repo",
            "--repo_dir",
            "--remote_repository",
            "--branch",
            "--commit",
            "--base_commit",
            "--step",
            "--commit_file",
        ),
        *("--bisect_releases", "--build", "--platforms", "--frameworks_dir", "--cmake_args", "--build_timeout"),
        *("--min_free", "--cache_size", "--interval", "--status_file", "--work_dir", "--retry_after"),
    }
)


def recorded(program: str, arguments: Sequence[str]) -> list[str]:
    """The command line of ``program`` (``opduel compare``) as reports keep it."""
    return [*program.split(), *recorded_command(["", *arguments], KEPT_OPTIONS)[1:]]


def run_configuration(options: argparse.Namespace, driver: argparse.Namespace | None = None) -> RunConfiguration:
    """What a run is asked for by harness.py's options, and by repo_driver.py's own if it is that which measures."""
    given = {**vars(options), **({} if driver is None else vars(driver))}
    special = {
        "program": "harness.py" if driver is None else "repo_driver.py",
        "metric": tuple(asked_metrics(options)),
        "threshold": by_metric(options),
        "env": tuple(sorted(variables(options))),
        "profile_output": options.profile_output and str(options.profile_output.absolute()),
    }
    plain = {name: _plain(given[name]) for name in kinds() if given.get(name) is not None}
    return RunConfiguration(**{**plain, **special})


def _plain(value: Any) -> Any:
    """An option's value in JSON's types, lists as tuples."""
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    return str(value) if isinstance(value, Path) else value
