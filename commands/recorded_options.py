"""The command line that a report keeps: only values that are known to hold no secret, redacted all the same."""

from collections.abc import Sequence

from opduel.commands.harness_options import CONFIGURATION, HarnessOptions
from opduel.records.configuration import OPTIONS, kinds
from opduel.support.redaction import recorded_command

# Options whose values a report keeps: those of the run's configuration, and these. All others are masked, new ones too,
# until somebody adds them here: what can hold a password, a token, a header, or somebody's whole document
# (--notify_command, --info) has no place in this list.
_KEPT_BESIDE = """
-s -b -p -f -o -r -w --exec_dir --fuzz_spec --round_log --baseline --wipe_cache --prior_runs --int64-tensor
--output_format --output-format --output_file --output-file
--fleet --fleet_tag --fleet_timeout --fleet_silence -d --device --devices --excluded_devices
--local_reporter --simple_local_reporter --html_reporter --export_reporter
--local --repo --branch --commit --base_commit --step --commit_file --bisect_releases --packages --platforms
--build_timeout --min_free --cache_size --interval --status_file --work_dir --retry_after
"""
_NOT_AS_A_WHOLE = ("env", "command_args", "string_map")
_OF_CONFIGURATION = [name for name, kind in kinds().items() if name not in _NOT_AS_A_WHOLE and kind is not bool]
KEPT_OPTIONS = frozenset(_KEPT_BESIDE.split()) | {f"--{OPTIONS.get(name, name)}" for name in _OF_CONFIGURATION}


def recorded(program: str, arguments: Sequence[str]) -> list[str]:
    """Return the command line of ``program`` (``opduel compare``) as reports keep it."""
    if program.endswith(" local") and list(arguments[:2]) == ["--local", "."]:  # which is what it stands for
        arguments = arguments[2:]
    return [*program.split(), *recorded_command(["", *arguments], KEPT_OPTIONS)[1:]]


def recorded_options(program: str, options: HarnessOptions) -> list[str]:
    """Return the command line of ``program`` that asks for the same run, as reports keep it."""
    return recorded(program, options.configuration().words(name for name in CONFIGURATION if name != "program"))
