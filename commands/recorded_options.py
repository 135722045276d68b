"""What a report keeps of the options: only values that are known to hold no secret, redacted all the same."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opduel.commands.harness_options import CommitOptions, HarnessOptions
from opduel.records import RunConfiguration
from opduel.records.configuration import OPTIONS, kinds
from opduel.support.redaction import recorded_command

# Options whose values a report keeps: those of the run's configuration, and these. All others are masked, new ones too,
# until somebody adds them here: what can hold a password, a token, a header, or somebody's whole document
# (--notify_command, --info) has no place in this list.
_NOT_AS_A_WHOLE = ("env", "command_args", "string_map")
KEPT_OPTIONS = frozenset(
    {
        *(
            f"--{OPTIONS.get(name, name)}"
            for name, kind in kinds().items()
            if name not in _NOT_AS_A_WHOLE and kind is not bool
        ),
        *("-b", "-p", "-f", "-o", "-r", "-w", "--exec_dir", "--fuzz_spec", "--round_log", "--baseline", "--wipe_cache"),
        *(
            "--prior_runs",
            "--fleet",
            "--fleet_tag",
            "--fleet_timeout",
            "--fleet_silence",
            "-d",
            "--device",
            "--devices",
        ),
        "--excluded_devices",
        *("--output_format", "--output-format", "--output_file", "--output-file", "--int64-tensor"),
        *("--local_reporter", "--simple_local_reporter", "--html_reporter", "--export_reporter"),
        # repo_driver.py's: which commits, how they are built, how it runs
        *("--local", "--repo", "--branch", "--commit", "--base_commit", "--step", "--commit_file", "--bisect_releases"),
        *("--platforms", "--build_timeout", "--min_free", "--cache_size", "--interval", "--status_file", "--work_dir"),
        "--retry_after",
    }
)


def recorded(program: str, arguments: Sequence[str]) -> list[str]:
    """The command line of ``program`` (``opduel compare``) as reports keep it."""
    return [*program.split(), *recorded_command(["", *arguments], KEPT_OPTIONS)[1:]]


def recorded_options(program: str, options: HarnessOptions) -> list[str]:
    """Return the command line of ``program`` that asks for the same run, as reports keep it."""
    return recorded(program, run_configuration(options).words(name for name in kinds() if name != "program"))


def run_configuration(options: HarnessOptions, driver: CommitOptions | None = None) -> RunConfiguration:
    """What a run is asked for by harness.py's options, and by repo_driver.py's own if it is that which measures."""
    value_by_name = {**options.values(), **({} if driver is None else driver.values())}
    special = {
        "program": "harness.py" if driver is None else "repo_driver.py",
        "build_program": options.program,
        "metric": options.metric,
        "threshold": options.threshold,
        "env": tuple(sorted(options.env)),
        "profile_output": options.profile_output and str(options.profile_output.absolute()),
    }
    plain = {name: _plain(value_by_name[name]) for name in kinds() if value_by_name.get(name) is not None}
    return RunConfiguration(**{**plain, **special})


def _plain(value: Any) -> Any:
    """An option's value in JSON's types, lists as tuples."""
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    return str(value) if isinstance(value, Path) else value
