"""The user's config file: answers that run_bench.py keeps and harness.py falls back to."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import platformdirs

from opduel.records import RunError, UsageError
from opduel.reporters.options import TOKEN_VARIABLE, ReporterOptions
from opduel.support.atomic import write_atomically
from opduel.support.files import MissingError, UnreadableError, parse_json, read_text

# What may be kept, and the question that asks for it. Each is also an option of harness.py.
ANY_BUILD = "a release such as NAME==VERSION, or a path"
QUESTIONS = {
    "control": f"Control build ({ANY_BUILD})",
    "treatment": "Treatment build (likewise)",
    "local_reporter": "Folder in which to keep reports",
}
# What else may be kept, though nobody asks for it.
UNASKED = ("remote_access_token_file",)
# And default arguments, by command and option: commands/defaults.py.
ARGUMENTS = "arguments"
COMMANDS = ("harness.py", "repo_driver.py", "run_bench.py --calibrate")


def config_path() -> Path:
    """``$XDG_CONFIG_HOME/opduel/config.json``, ~/.config when that is not set."""
    return platformdirs.user_config_path("opduel") / "config.json"


def default_reports() -> Path:
    """Where reports are kept when nobody says: ``$XDG_STATE_HOME/opduel/reports``."""
    return platformdirs.user_state_path("opduel") / "reports"


def default_model_cache() -> Path:
    """Where networks' files are kept when nobody says: ``$XDG_CACHE_HOME/opduel/models``."""
    return platformdirs.user_cache_path("opduel") / "models"


def read_config(path: Path) -> dict[str, Any]:
    """The kept answers, texts by name, and under ``ARGUMENTS`` the default arguments of commands; empty without a file.
    UsageError, which names the field and the fix: the file is not what run_bench.py writes."""
    fix = "correct it, or remove it"
    try:
        data = parse_json(read_text(path, pipes=False))
    except MissingError:
        return {}
    except UnreadableError as error:
        raise UsageError(f"{path}: cannot be read: {error}: {fix}") from None
    if not isinstance(data, dict):
        raise UsageError(f"{path}: must hold one JSON object: {fix}")
    for name, value in data.items():
        if name == ARGUMENTS:
            _check_arguments(path, value)
            continue
        if name not in (*QUESTIONS, *UNASKED):
            raise UsageError(f"{path}: {name}: no such option; use {', '.join((*QUESTIONS, *UNASKED, ARGUMENTS))}")
        if not isinstance(value, str) or not value:
            raise UsageError(f"{path}: {name}: must be a non-empty string")
    return data


class StoredAnswers(Mapping[str, str]):
    """The kept answers, read on their first use: a broken file stops no command that needs none of them.

    Any method raises UsageError as ``read_config``.
    """

    @cached_property
    def _answers(self) -> dict[str, str]:
        return read_config(config_path())

    def __getitem__(self, name: str) -> str:
        return self._answers[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._answers)

    def __len__(self) -> int:
        return len(self._answers)


def _check_arguments(path: Path, value: Any) -> None:
    """Raise UsageError unless default arguments are objects by command; their content is checked when a command takes
    them."""
    if not isinstance(value, dict):
        raise UsageError(f"{path}: {ARGUMENTS}: must be an object of commands: {', '.join(COMMANDS)}")
    for command, options in value.items():
        if command not in COMMANDS:
            raise UsageError(f"{path}: {ARGUMENTS}.{command}: no such command; use {', '.join(COMMANDS)}")
        if not isinstance(options, dict):
            raise UsageError(f"{path}: {ARGUMENTS}.{command}: must be an object of options")


def with_stored_token(reporting: ReporterOptions, config: Mapping[str, str]) -> ReporterOptions:
    """Return the reporters' options, with the config's token file where they and the environment have no token."""
    sources = reporting.remote_access_token, reporting.remote_access_token_file, os.environ.get(TOKEN_VARIABLE) or None
    if any(source is not None for source in sources):
        return reporting
    file = config.get("remote_access_token_file")
    if file is None:
        return reporting
    return replace(reporting, remote_access_token_file=file)


def write_config(path: Path, answers: Mapping[str, Any]) -> None:
    """Keep the answers, atomically and readable by the user alone; a link to a file elsewhere stays a link. RunError:
    the folder can't be written."""
    place = path.resolve()
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(place, f"{json.dumps(answers, indent=2)}\n".encode(), mode=0o600)
    except OSError as error:
        raise RunError(f"{path}: cannot be written: {error.strerror}") from None


def forget_config(path: Path) -> bool:
    """Remove the file; returns whether there was one. RunError: it is there and can't be removed."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise RunError(f"{path}: cannot be removed: {error.strerror}") from None
    return True
