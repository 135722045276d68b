"""What the checkout of a package has: the package, and what of it can be measured."""

import re
import tomllib
from collections.abc import Iterator
from configparser import ConfigParser
from configparser import Error as ConfigError
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from opduel.driver.suites.configuration import CONFIGURATION
from opduel.records import UsageError
from opduel.support.files import UnreadableError, read_text

PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg")
# Tests that pytest-benchmark, or another plug-in with its fixture, measures.
_TEST_FILE = re.compile(r"(test|bench)\w*\.py|\w+_(test|bench|benchmark|benchmarks)\.py")
_BENCHMARK = re.compile(r"def \w+\([^)]*\bbenchmark\b|@pytest\.mark\.benchmark\b")
_LEFT_OUT = {"build", "dist", "node_modules", "site-packages", "venv", "env"}
_DEEPEST = 5  # folders


@dataclass(frozen=True)
class Package:
    """A package in a checkout: the name that it is installed by, the one that it is imported by (empty if that can't be
    seen), and the folder of its project file."""

    name: str
    module: str
    folder: Path


def package_of(folder: Path, top: Path) -> Package:
    """Return the package of a folder in a checkout, or of the nearest folder above it that has one, or else of the
    only one below its top. UsageError: there is none, or there are several."""
    places = [place for place in (folder, *folder.parents) if place.is_relative_to(top)]
    for place in places:
        if any((place / name).is_file() for name in PROJECT_FILES):
            name = _name_in(place) or place.name
            return Package(name, _module_in(place, name), place)
    below = sorted({path.parent for name in PROJECT_FILES for path in top.glob(f"[!.]*/{name}")})
    if len(below) == 1:
        return package_of(below[0], top)
    if below:
        names = ", ".join(place.name for place in below)
        raise UsageError(f"{top}: has a package in each of {names}: name the folder of one")
    raise UsageError(f"{top}: has no package: there is neither pyproject.toml nor setup.py: write one")


def find_suite(folder: Path) -> list[str]:
    """Return what ``--suite`` takes of a folder: where asv's configuration is, or else the files of tests that use the
    fixture ``benchmark``; nothing if it has neither. UsageError: there are several configurations."""
    if (folder / CONFIGURATION).is_file():
        return [str(folder)]
    configured = sorted(path.parent for path in folder.glob(f"*/{CONFIGURATION}") if path.parent.name[0] != ".")
    if len(configured) > 1:
        names = " and ".join(place.name for place in configured)
        raise UsageError(
            f"{folder}: {names} have a suite each: choose one, with opduel local --suite {configured[0].name}"
        )
    return [str(place) for place in configured] or sorted(map(str, _files_of_tests(folder)))


def _files_of_tests(folder: Path, depth: int = 0) -> Iterator[Path]:
    with suppress(OSError):
        for path in folder.iterdir():
            if path.is_dir():
                is_left_out = path.name[0] in "._" or path.name in _LEFT_OUT or path.is_symlink()
                if depth < _DEEPEST and not is_left_out and not (path / "pyvenv.cfg").exists():
                    yield from _files_of_tests(path, depth + 1)
            elif _TEST_FILE.fullmatch(path.name) and _BENCHMARK.search(_text(path)):
                yield path


def _text(path: Path) -> str:
    try:
        return read_text(path, pipes=False)
    except UnreadableError:
        return ""


def _name_in(folder: Path) -> str | None:
    """Return the name in a project file."""
    with suppress(tomllib.TOMLDecodeError):
        data = tomllib.loads(_text(folder / "pyproject.toml"))
        tool = data.get("tool")
        for table in (data.get("project"), tool.get("poetry") if isinstance(tool, dict) else None):
            if isinstance(table, dict) and isinstance(table.get("name"), str):
                return str(table["name"])
    with suppress(ConfigError):
        parser = ConfigParser(interpolation=None)
        parser.read_string(_text(folder / "setup.cfg"))
        return parser.get("metadata", "name", fallback=None)
    return None


def _module_in(folder: Path, name: str) -> str:
    """Return the module of the package's name, or else the only one."""
    places = (folder / "src", folder, folder / "python", folder / "lib")
    modules = [path.parent.name for place in places for path in sorted(place.glob("*/__init__.py"))]
    modules += [path.stem for path in sorted((folder / "src").glob("*.py"))]
    usual = canonicalize_name(name).replace("-", "_")
    if usual in modules or (folder / f"{usual}.py").is_file():
        return usual
    others = [module for module in modules if not re.match(r"(tests?|docs?|bench\w*|examples?|asv_bench)$", module)]
    return others[0] if others else ""
