"""A Python project's files: where its pyproject.toml is, and its tables; the name in its setup.cfg."""

from collections.abc import Mapping
from configparser import ConfigParser
from configparser import Error as ConfigParserError
from pathlib import Path
from typing import Any

PROJECT_FILE = "pyproject.toml"


def project_file_above(folder: Path, subfolder: str = "") -> Path | None:
    """Return the nearest pyproject.toml above a suite's folder, up to its repository's top, of which ``subfolder`` may
    have it; None without one."""
    for place in (folder, *folder.parents):
        for path in (place / subfolder / PROJECT_FILE, place / PROJECT_FILE):
            if path.is_file():
                return path
        if (place / ".git").exists():
            break
    return None


def top_of_checkout(folder: Path) -> Path | None:
    """Return the top of the checkout that a folder is in; None if there is none."""
    return next((place for place in (folder, *folder.parents) if (place / ".git").exists()), None)


def table_in(table: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a table of a project file; empty if it is missing, or something else."""
    value = table.get(name)
    return value if isinstance(value, dict) else {}


def name_in_setup_cfg(content: bytes | None) -> str | None:
    """Return the name that setuptools' own file of settings gives a project; None without one."""
    parser = ConfigParser(interpolation=None)
    try:
        parser.read_string((content or b"").decode(errors="replace"))
    except ConfigParserError:
        return None
    return parser.get("metadata", "name", fallback=None)
