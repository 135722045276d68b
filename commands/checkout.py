"""What the checkout of a package has: the package, and what of it can be measured."""

import os
import tomllib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from opduel.driver.suites.configuration import CONFIGURATION
from opduel.driver.suites.pytest_files import timed_files
from opduel.records import UsageError
from opduel.support.files import UnreadableError, read_text
from opduel.support.project_file import name_in_setup_cfg, table_in

PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg")


@dataclass(frozen=True)
class Package:
    """A package in a checkout: the name that it is installed by, and the folder of its project file."""

    name: str
    folder: Path


def package_of(folder: Path, top: Path) -> Package:
    """Return the package of a folder in a checkout, or of the nearest folder above it that has one, or else of the
    only one below its top. UsageError: there is none, or there are several."""
    places = [place for place in (folder, *folder.parents) if place.is_relative_to(top)]
    for place in places:
        if any((place / name).is_file() for name in PROJECT_FILES):
            return Package(_name_in(place) or place.name, place)
    below = sorted({path.parent for name in PROJECT_FILES for path in top.glob(f"[!.]*/{name}")})
    if len(below) == 1:
        return package_of(below[0], top)
    if below:
        names = ", ".join(place.name for place in below)
        raise UsageError(f"{top}: has a package in each of {names}: name the folder of one")
    raise UsageError(f"{top}: has no package: there is neither pyproject.toml nor setup.py: write one")


@dataclass(frozen=True)
class OwnSuite:
    """The suite of a checkout: a folder that ``--suite`` takes. ``files`` have its timed tests; asv's has none."""

    folder: Path
    files: tuple[Path, ...] = ()


def find_suite(folder: Path) -> OwnSuite | None:
    """Return a folder's asv suite, or else the innermost folder that has all its tests with the fixture ``benchmark``;
    None if it has neither.
    UsageError: it has several asv suites."""
    places = [folder] if (folder / CONFIGURATION).is_file() else sorted(folder.glob(f"[!.]*/{CONFIGURATION}"))
    if len(places) > 1:
        names = [path.parent.name for path in places]
        raise UsageError(
            f"{folder}: {' and '.join(names)} have a suite each: choose one, with opduel local --suite {names[0]}"
        )
    if places:
        return OwnSuite(folder if places == [folder] else places[0].parent)
    files = timed_files(folder)
    if not files:
        return None
    return OwnSuite(Path(os.path.commonpath([path.parent for path in files])), tuple(files))


def _text(path: Path) -> str:
    try:
        return read_text(path, pipes=False)
    except UnreadableError:
        return ""


def _name_in(folder: Path) -> str | None:
    """Return the name in a project file."""
    with suppress(tomllib.TOMLDecodeError):
        data = tomllib.loads(_text(folder / "pyproject.toml"))
        for table in (table_in(data, "project"), table_in(table_in(data, "tool"), "poetry")):
            if isinstance(table.get("name"), str):
                return str(table["name"])
    return name_in_setup_cfg(_text(folder / "setup.cfg").encode())
