"""What of a Python package's commit decides its build: its project file, native sources, and Python code. Pure."""

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from pydantic import Field

from opduel.driver.builds.data_file import Strict, read_data
from opduel.records import UsageError

PROJECT_FILE = "pyproject.toml"
RULES = "rules.yaml"
LEGACY_BACKEND = "setuptools.build_meta:__legacy__"  # where a project names none (PEP 517)
_LEGACY_REQUIRES = ("setuptools", "wheel")
_PYTHON_FILE = ".py"
_MOST_ABOVE = 2  # folders in the repository above what is installed: src, lib/python


class _Rules(Strict):
    ignored: list[str]
    generators: list[str]
    backends: dict[str, list[str]]


class _Differences(Strict):
    ignored: list[str] = Field(default_factory=list)
    generators: list[str] = Field(default_factory=list)
    build_requires: list[str] = Field(default_factory=list)
    settings: list[str] = Field(default_factory=list)


@dataclass(frozen=True)
class Rules:
    """What is ignored, and which Python files take part in building, as patterns of paths; what build backends ask for;
    and of the project itself, what it needs besides to be built, and settings of its backend."""

    ignored: Sequence[str]
    generators: Sequence[str]
    backends: Mapping[str, Sequence[str]]
    build_requires: Sequence[str] = ()
    settings: Sequence[str] = ()

    def is_ignored(self, path: str) -> bool:
        """Whether the file reaches no build that is measured."""
        return any(fnmatchcase(path, one) for one in self.ignored)

    def is_code(self, path: str) -> bool:
        """Whether it is Python that is expected to be installed as it is."""
        return path.endswith(_PYTHON_FILE) and not any(fnmatchcase(path, one) for one in self.generators)


@dataclass(frozen=True)
class Project:
    """What a commit's ``pyproject.toml`` says of building it."""

    name: str
    backend: str
    requires: tuple[str, ...]
    requires_python: str | None

    def allows(self, python: str) -> bool:
        """Whether it can be built for that Python, ``3.11``."""
        try:
            return self.requires_python is None or f"{python}.99" in SpecifierSet(self.requires_python)
        except InvalidSpecifier:
            return True  # the build backend has the last word


def load_rules(folder: Path, project: str) -> Rules:
    """The rules for every package, with what differs for this one (``<project>.yaml``), if anything does.

    Raises:
        UsageError: a file is missing or bad.
    """
    general = read_data(folder / RULES, _Rules, "it says how commits of Python packages are built")
    path = folder / f"{project}.yaml"
    own = read_data(path, _Differences, "it says what differs for that package") if path.exists() else _Differences()
    return Rules(
        (*general.ignored, *own.ignored),
        (*general.generators, *own.generators),
        general.backends,
        own.build_requires,
        own.settings,
    )


def read_project(content: bytes | None, usual_name: str) -> Project:
    """What the file says; None: the commit has none, and is built by setuptools.

    Raises:
        UsageError: it can't be read.
    """
    data = _table(content)
    system, project = data.get("build-system"), data.get("project")
    system = system if isinstance(system, dict) else {}
    project = project if isinstance(project, dict) else {}
    name, python = project.get("name"), project.get("requires-python")
    requires = system.get("requires")
    return Project(
        normalized(name) if isinstance(name, str) else normalized(usual_name),
        str(system.get("build-backend", LEGACY_BACKEND)),
        tuple(map(str, requires)) if isinstance(requires, list) else _LEGACY_REQUIRES,
        python if isinstance(python, str) else None,
    )


def normalized(name: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


@dataclass(frozen=True)
class Sources:
    """A commit's files that reach its build: ``native`` and ``code`` are the identities of both parts, equal for equal
    content; ``files`` has the Python code, path -> git's hash."""

    native: str
    code: str
    files: Mapping[str, str]

    def differing(self, other: "Sources") -> list[str]:
        """The files of Python code that differ; the native part, and with it the paths, must be equal."""
        return sorted(path for path, name in self.files.items() if other.files.get(path) != name)


def sources_of(listing: Mapping[str, str], rules: Rules) -> Sources:
    """``listing``: every file of the commit, path -> "mode type hash", as git ls-tree prints them.

    The native part covers the paths of the Python code, too: the backend decides what it installs.
    """
    kept = {path: what for path, what in listing.items() if not rules.is_ignored(path)}
    files = {path: what.split()[2] for path, what in kept.items() if rules.is_code(path) and " blob " in what}
    native = {path: "" if path in files else what for path, what in kept.items()}
    return Sources(_identity(native), _identity(files), files)


def installed_as(path: str, blob: str, site: Path) -> str | None:
    """Where a file of the repository lies below ``site``, with the content that git calls ``blob``; None: nowhere, or a
    compiled module of its name is there, too."""
    parts = path.split("/")
    for above in range(min(_MOST_ABOVE + 1, len(parts))):
        name = "/".join(parts[above:])
        place = site / name
        if place.is_file() and blob_id(place.read_bytes(), blob) == blob:
            compiled = [*place.parent.glob(f"{place.stem}.*.so"), place.with_suffix(".so")]
            return None if any(one.is_file() for one in compiled) else name
    return None


def blob_id(content: bytes, like: str) -> str:
    """Git's hash of a file's content, by the algorithm that made ``like``."""
    algorithm = hashlib.sha1 if len(like) == 40 else hashlib.sha256
    return algorithm(b"blob %d\0" % len(content) + content).hexdigest()


def _table(content: bytes | None) -> dict[str, Any]:
    try:
        return {} if content is None else tomllib.loads(content.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{PROJECT_FILE}: can't be read ({error}): build another commit") from None


def _identity(data: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
