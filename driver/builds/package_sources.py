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
    loose: list[str] = Field(default_factory=list)
    backends: dict[str, list[str]]


class _Differences(Strict):
    ignored: list[str] = Field(default_factory=list)
    generators: list[str] = Field(default_factory=list)
    build_requires: list[str] = Field(default_factory=list)
    settings: list[str] = Field(default_factory=list)


@dataclass(frozen=True)
class Rules:
    """What is ignored, which Python files take part in building, and which are ``loose`` (may come and go without a
    compile), as patterns of paths; what build backends ask for; and of the project itself, what it needs besides to be
    built, and settings of its backend."""

    ignored: Sequence[str]
    generators: Sequence[str]
    backends: Mapping[str, Sequence[str]]
    build_requires: Sequence[str] = ()
    settings: Sequence[str] = ()
    loose: Sequence[str] = ()

    def is_ignored(self, path: str) -> bool:
        """Whether the file reaches no build that is measured."""
        return _matches(path, self.ignored)

    def is_code(self, path: str) -> bool:
        """Whether it is Python that is expected to be installed as it is."""
        return path.endswith(_PYTHON_FILE) and not _matches(path, self.generators)

    def is_loose(self, path: str) -> bool:
        """Whether such Python, added or removed, needs no compile: a test."""
        return self.is_code(path) and _matches(path, self.loose)


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
        general.loose,
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
    content; ``files`` has the Python code, path -> git's hash; ``loose`` those of them that may come and go."""

    native: str
    code: str
    files: Mapping[str, str]
    loose: frozenset[str] = frozenset()

    def differing(self, other: "Sources") -> list[str]:
        """The files of Python code that differ; the native part, with it all paths but loose ones, must be equal."""
        return sorted(path for path in {*self.files, *other.files} if self.files.get(path) != other.files.get(path))


def sources_of(listing: Mapping[str, str], rules: Rules) -> Sources:
    """``listing``: every file of the commit, path -> "mode type hash", as git ls-tree prints them.

    The native part covers the paths of the Python code, too, but for loose files: the backend decides what it installs.
    """
    kept = {path: what for path, what in listing.items() if not rules.is_ignored(path)}
    files = {path: what.split()[2] for path, what in kept.items() if rules.is_code(path) and " blob " in what}
    loose = frozenset(path for path in files if rules.is_loose(path))
    native = {path: "" if path in files else what for path, what in kept.items() if path not in loose}
    return Sources(_identity(native), _identity(files), files, loose)


class NotInstalledError(Exception):
    """A file is not installed as it is in the repository."""


def placed(path: str, theirs: Sources, site: Path) -> str | None:
    """Where below ``site``, which holds a build of ``theirs``, a file that differs lies, or a new one belongs; None:
    nowhere, as a loose file that is not installed.

    A new file belongs beside those of its folder that are installed.

    Raises:
        NotInstalledError: it is not there as it is in the repository: only a compile tells what becomes of it.
    """
    if path in theirs.files:
        name = installed_as(path, theirs.files[path], site)
        if name is None and (path not in theirs.loose or any((site / one).exists() for one in _names(path))):
            raise NotInstalledError
        return name
    folder, _, last = path.rpartition("/")
    beside = (one for one in theirs.files if one.rpartition("/")[0] == folder)
    names = (installed_as(one, theirs.files[one], site) for one in beside)
    found = next((name for name in names if name is not None), None)
    return found and str(Path(found).with_name(last))


def installed_as(path: str, blob: str, site: Path) -> str | None:
    """Where a file of the repository lies below ``site``, with the content that git calls ``blob``; None: nowhere, or a
    compiled module of its name is there, too."""
    for name in _names(path):
        place = site / name
        if place.is_file() and blob_id(place.read_bytes(), blob) == blob:
            compiled = [*place.parent.glob(f"{place.stem}.*.so"), place.with_suffix(".so")]
            return None if any(one.is_file() for one in compiled) else name
    return None


def _names(path: str) -> list[str]:
    """Where a file of the repository may lie when it is installed."""
    parts = path.split("/")
    return ["/".join(parts[above:]) for above in range(min(_MOST_ABOVE + 1, len(parts)))]


def _matches(path: str, patterns: Sequence[str]) -> bool:
    """Whether one of them matches; one that begins with a slash is for files at the top."""
    return any(fnmatchcase(f"/{path}" if one[0] == "/" and "/" not in path else path, one) for one in patterns)


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
