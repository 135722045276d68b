"""Settings that a team shares: ``[tool.opduel]`` in pyproject.toml, or opduel.toml, in this folder or one above it.

Options of the subcommands by name, for all that have them, and in tables for one subcommand:

    [tool.opduel]                            # in opduel.toml, the same without "tool.opduel"
    control = "PACKAGE==VERSION"
    benchmark_file = "benchmarks/ours.json"  # paths begin at the file's folder
    threshold = ["2%", "instructions=0.5%"]
    remote_reporter = "https://results.example.org/api/v1/reports|nightly"

    [tool.opduel.drive]
    regression = true
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opduel.records import UsageError
from opduel.support.atomic import user_path
from opduel.support.files import MissingError, UnreadableError, read_text

OWN_FILE, SHARED_FILE = "opduel.toml", "pyproject.toml"
# What a file that comes with a checkout must not say: it would run a command, choose the user's secrets, or have the
# user's programs talk to a scheduler that can make them execute anything.
USERS_OWN = ("notify_command", "remote_access_token", "remote_access_token_file", "fleet", "fleet_certificates")
# Beside those whose type is ``options.path``.
PATHS = ("local_reporter", "simple_local_reporter", "html_reporter", "spool", "root_model_dir")
# Or names, or addresses.
MAY_BE_PATHS = ("benchmark_file", "control", "treatment", "prior_runs", "network", "remote_repository")


@dataclass(frozen=True)
class Setting:
    """A default of one option. ``where`` names file and field in messages."""

    file: Path
    where: str
    name: str  # as options are called once they are read: time_budget
    value: Any


def project_settings(subcommand: str, subcommands: Sequence[str], folder: Path | None = None) -> list[Setting]:
    """The settings that hold for a subcommand, its own table's before those for all; empty without a file. UsageError:
    the file is no TOML, or has a table of no subcommand, or a setting that is the user's own."""
    place = _find((folder or Path.cwd()).absolute())
    if place is None:
        return []
    path, table = place
    prefix = f"{path}: " + ("tool.opduel." if path.name == SHARED_FILE else "")
    tables = {name: value for name, value in table.items() if isinstance(value, dict)}
    if unknown := sorted(set(tables) - set(subcommands)):
        raise UsageError(f"{prefix}{unknown[0]}: is not a subcommand: use {', '.join(subcommands)}, or take it out")
    own = {f"{subcommand}.{name}": value for name, value in tables.get(subcommand, {}).items()}
    shared = {name: value for name, value in table.items() if name not in tables}
    settings = [
        Setting(path, prefix + where, where.rpartition(".")[2].replace("-", "_"), value)
        for where, value in {**own, **shared}.items()
    ]
    for setting in settings:
        if setting.name in USERS_OWN:
            raise UsageError(f"{setting.where}: can't be set for a project: use the command line or your own config")
    return settings


def _find(folder: Path) -> tuple[Path, Mapping[str, Any]] | None:
    """The nearest file that has settings, and its table."""
    for place in (folder, *folder.parents):
        for name in (OWN_FILE, SHARED_FILE):
            table = _table(place / name)
            if table is not None:
                return place / name, table
    return None


def _table(path: Path) -> Mapping[str, Any] | None:
    """The settings of one file; None if it has none."""
    own = path.name == OWN_FILE
    try:
        text = read_text(path, pipes=False)
        if not own and "opduel" not in text:
            return None  # whether it is valid is another tool's concern
        document = tomllib.loads(text)
    except MissingError:
        return None
    except UnreadableError as error:
        if not own:
            return None
        raise UsageError(f"{path}: cannot be read: {error}: correct it") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"{path}: is not TOML ({error}): correct it") from None
    tools = document if own else document.get("tool")
    table = tools if own else tools.get("opduel") if isinstance(tools, dict) else None
    if table is not None and not isinstance(table, dict):
        raise UsageError(f"{path}: tool.opduel: must be a table of settings: write [tool.opduel]")
    return table


def resolve_setting(setting: Setting, is_path: bool) -> Any:
    """The setting's value, with relative paths beginning at the file's folder; of a list, those of each.

    ``is_path``: whether the option takes a path and nothing else.
    """
    if isinstance(setting.value, list):
        return [_resolve_value(setting, item, is_path) for item in setting.value]
    return _resolve_value(setting, setting.value, is_path)


def _resolve_value(setting: Setting, value: Any, is_path: bool) -> Any:
    folder = setting.file.parent
    if not isinstance(value, str) or not value:
        return value

    def place(text: str) -> str:
        return str(folder / user_path(text, setting.where))

    if is_path or setting.name in PATHS:
        return place(value)
    if setting.name == "shared_libs":
        return ",".join(place(name.strip()) for name in value.split(","))
    if setting.name == "info":  # or the document itself
        return value if value.lstrip().startswith("{") else place(value)
    if setting.name == "network" and ":" in value:  # FILE.py:CLASS, or without .py
        file, _, name = value.rpartition(":")
        is_there = any((folder / candidate).is_file() for candidate in (file, f"{file}.py"))
        return f"{place(file)}:{name}" if is_there else value
    if setting.name == "suite":  # PATH[@COMMIT][:SUBFOLDER]
        file = value if (folder / value).exists() else re.split("[@:]", value)[0]
        return place(file) + value.removeprefix(file) if file and (folder / file).exists() else value
    if setting.name in MAY_BE_PATHS and (value.startswith("~") or (folder / value).exists()):
        return place(value)
    if setting.name == "export_reporter" and "=" in value:
        form, _, file = value.partition("=")
        return f"{form}={place(file)}"
    if value.startswith("@"):
        return f"@{place(value[1:])}"
    return value
