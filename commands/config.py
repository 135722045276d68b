"""The user's config file: answers that run_bench.py keeps and harness.py falls back to."""

import argparse
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import platformdirs

from records import RunError, UsageError
from records.files import MissingError, UnreadableError, parse_json, read_text
from reporters.atomic import is_special
from reporters.remote.token import VARIABLE

# What may be kept, and the question that asks for it. Each is also an option of harness.py.
QUESTIONS = {
    "control": "Control build (a release such as NAME==VERSION, or a path)",
    "treatment": "Treatment build (likewise)",
    "local_reporter": "Folder in which to keep reports",
}
# What else may be kept, though nobody asks for it.
UNASKED = ("remote_access_token_file",)


def config_path() -> Path:
    """``$XDG_CONFIG_HOME/opduel/config.json``, ~/.config when that is not set."""
    return platformdirs.user_config_path("opduel") / "config.json"


def default_reports() -> Path:
    """Where reports are kept when nobody says: ``$XDG_STATE_HOME/opduel/reports``."""
    return platformdirs.user_state_path("opduel") / "reports"


def default_model_cache() -> Path:
    """Where networks' files are kept when nobody says: ``$XDG_CACHE_HOME/opduel/models``."""
    return platformdirs.user_cache_path("opduel") / "models"


def read_config(path: Path) -> dict[str, str]:
    """The kept answers; empty without a file.

    Raises:
        UsageError: the file is not what run_bench.py writes; the text names the field and the fix.
    """
    fix = "correct it, or run: run_bench.py --reset_options"
    try:
        data = parse_json(read_text(path, pipes=False))
    except MissingError:
        return {}
    except UnreadableError as error:
        raise UsageError(f"{path}: cannot be read: {error}: {fix}") from None
    if not isinstance(data, dict):
        raise UsageError(f"{path}: must hold one JSON object: {fix}")
    for name, value in data.items():
        if name not in (*QUESTIONS, *UNASKED):
            raise UsageError(f"{path}: {name}: no such option; use {', '.join((*QUESTIONS, *UNASKED))}")
        if not isinstance(value, str) or not value:
            raise UsageError(f"{path}: {name}: must be a text that is not empty")
    return data


def with_kept_token(options: argparse.Namespace, config: Mapping[str, str]) -> argparse.Namespace:
    """Options of whoever sends reports: where neither they nor the environment have a token, the config's file does."""
    file = config.get("remote_access_token_file")
    found = options.remote_access_token, options.remote_access_token_file, os.environ.get(VARIABLE) or None
    if file is None or any(one is not None for one in found):
        return options
    return argparse.Namespace(**{**vars(options), "remote_access_token_file": file})


def write_config(path: Path, answers: dict[str, str]) -> None:
    """Keep the answers, atomically and readable by the user alone; a link to a file elsewhere stays a link.

    Raises:
        RunError: the folder can't be written.
    """
    place = path.resolve()
    if is_special(place):
        raise RunError(f"{path}: cannot be written: it is no regular file")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        descriptor, aside = tempfile.mkstemp(dir=place.parent, prefix=".config-")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(answers, file, indent=2)
                file.write("\n")
            os.replace(aside, place)
        except BaseException:
            os.unlink(aside)
            raise
    except OSError as error:
        raise RunError(f"{path}: cannot be written: {error.strerror}") from None


def forget_config(path: Path) -> bool:
    """Remove the file; returns whether there was one.

    Raises:
        RunError: it is there and can't be removed.
    """
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise RunError(f"{path}: cannot be removed: {error.strerror}") from None
    return True
