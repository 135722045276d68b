"""What decides the build of a Python package's commit: its project file, native sources and Python code. Pure."""

import hashlib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from pydantic import Field

from opduel.driver.builds.data_file import Strict, read_data
from opduel.records import UsageError
from opduel.support.digests import data_digest
from opduel.support.project_file import PROJECT_FILE, table_in

RULES = "rules.yaml"
LEGACY_BACKEND = "setuptools.build_meta:__legacy__"  # where a project names none (PEP 517)
_LEGACY_REQUIRES = ("setuptools", "wheel")
_PYTHON_FILE = ".py"
_MOST_ABOVE = 2  # folders in the repository above what is installed: src, lib/python


_Value = TypeVar("_Value")


class Rules(Strict):
    """How commits of a package are built.

    Patterns of paths tell which files are ``ignored``, which Python files are ``generators`` that take part in
    building, and which are ``loose``, so that they are added and removed without a compile. ``backends`` has the
    requirements of each build backend; ``build_requires`` and ``settings`` are further ones of the project.
    """

    ignored: list[str] = Field(default_factory=list)
    generators: list[str] = Field(default_factory=list)
    loose: list[str] = Field(default_factory=list)
    backends: dict[str, list[str]] = Field(default_factory=dict)
    build_requires: list[str] = Field(default_factory=list)
    settings: list[str] = Field(default_factory=list)

    def is_ignored(self, path: str) -> bool:
        """Tell whether the file is irrelevant for builds."""
        return _matches(path, self.ignored)

    def is_code(self, path: str) -> bool:
        """Tell whether it is Python code that should be installed unchanged."""
        return path.endswith(_PYTHON_FILE) and not _matches(path, self.generators)

    def is_loose(self, path: str) -> bool:
        """Tell whether it is Python code, such as a test, that is added and removed without a compile."""
        return self.is_code(path) and _matches(path, self.loose)


@dataclass(frozen=True)
class Project:
    """The part of a commit's ``pyproject.toml`` that is about building it."""

    name: str
    backend: str
    requires: tuple[str, ...]
    requires_python: str | None
    backend_path: tuple[str, ...] = ()

    def allows(self, python: str) -> bool:
        """Tell whether it can be built for that Python, ``3.11``."""
        try:
            return self.requires_python is None or f"{python}.99" in SpecifierSet(self.requires_python)
        except InvalidSpecifier:
            return True  # the build backend has the last word


def load_rules(folder: Path, project: str) -> Rules:
    """Return the rules for all packages, with those of ``<project>.yaml``, if there is one. Raise UsageError if a file
    is missing or invalid."""
    rules = read_data(folder / RULES, Rules, "it says how commits of Python packages are built")
    path = folder / f"{project}.yaml"
    if not path.exists():
        return rules
    own = read_data(path, Rules, "it says what differs for that package")
    joined = {name: [*getattr(rules, name), *getattr(own, name)] for name in ("ignored", "generators", "loose")}
    return own.model_copy(update={**joined, "backends": {**rules.backends, **own.backends}})


def read_project(content: bytes | None, usual_name: str) -> Project:
    """Read a project file; without one (None) the commit is built by setuptools. Raise UsageError if it can't be
    read."""
    data = _table(content)
    system, project = table_in(data, "build-system"), table_in(data, "project")
    requires = _of_type(system, "requires", list)
    return Project(
        canonicalize_name(_of_type(project, "name", str) or usual_name),
        str(system.get("build-backend", LEGACY_BACKEND)),
        _LEGACY_REQUIRES if requires is None else tuple(map(str, requires)),
        _of_type(project, "requires-python", str),
        tuple(map(str, _of_type(system, "backend-path", list) or ())),
    )


def _of_type(table: Mapping[str, Any], name: str, kind: type[_Value]) -> _Value | None:
    """Return a field's value; None if it is missing, or of another type."""
    value = table.get(name)
    return value if isinstance(value, kind) else None


@dataclass(frozen=True)
class Sources:
    """The files of a commit that decide its build.

    ``native`` and ``code`` are digests of both parts. ``files`` has the Python code, path -> git's hash; ``loose`` are
    those of them that are added and removed without a compile. ``subfolder`` is the package's in the repository.
    """

    native: str
    code: str
    files: Mapping[str, str]
    loose: frozenset[str] = frozenset()
    subfolder: str = ""

    def differing(self, other: "Sources") -> list[str]:
        """Return the paths of differing Python code; the native part, and all paths but loose ones, must be equal."""
        return sorted(path for path in {*self.files, *other.files} if self.files.get(path) != other.files.get(path))


def sources_of(listing: Mapping[str, str], rules: Rules, subfolder: str = "") -> Sources:
    """Return the sources in ``listing``: all files of the commit, path -> "mode type hash", as git ls-tree prints.
    ``subfolder`` is the package's; what lies outside of it may take part in building, too.

    The native part includes the paths of Python code that isn't loose, because the backend decides what it installs.
    """
    places = {path: _within(path, subfolder) for path in listing}
    entries = {path: entry for path, entry in listing.items() if not rules.is_ignored(places[path])}
    blobs = {path: entry.split()[2] for path, entry in entries.items() if " blob " in entry}
    files = {path: blob for path, blob in blobs.items() if rules.is_code(places[path])}
    loose = frozenset(path for path in files if rules.is_loose(places[path]))
    native = {path: "" if path in files else entry for path, entry in entries.items() if path not in loose}
    return Sources(data_digest(native), data_digest(files), files, loose, subfolder)


class NotInstalledError(Exception):
    """A file is not installed unchanged."""


def installed_path(path: str, donor_sources: Sources, site: Path) -> str | None:
    """Return where a file is, or a new one belongs, below ``site``, which contains a build of ``donor_sources``.

    A new file belongs beside installed files of its folder. None for a loose file that is not installed.
    NotInstalledError: the file is not installed unchanged, so that a compile is needed.
    """
    if path in donor_sources.files:
        inner = _within(path, donor_sources.subfolder)
        name = installed_as(inner, donor_sources.files[path], site)
        is_there = any((site / place).exists() for place in _names(inner))
        if name is None and (path not in donor_sources.loose or is_there):
            raise NotInstalledError
        return name
    folder, _, last = path.rpartition("/")
    beside = (other for other in donor_sources.files if other.rpartition("/")[0] == folder)
    inner_names = ((_within(other, donor_sources.subfolder), donor_sources.files[other]) for other in beside)
    names = (installed_as(inner, blob, site) for inner, blob in inner_names)
    neighbour = next((name for name in names if name is not None), None)
    return neighbour and str(Path(neighbour).with_name(last))


def installed_as(path: str, blob: str, site: Path) -> str | None:
    """Return where a file of the repository is below ``site`` with the content of git's ``blob``; None if it isn't, or
    a compiled module hides it."""
    for name in _names(path):
        place = site / name
        if place.is_file() and blob_id(place.read_bytes(), blob) == blob:
            compiled = [*place.parent.glob(f"{place.stem}.*.so"), place.with_suffix(".so")]
            return None if any(module.is_file() for module in compiled) else name
    return None


def _within(path: str, subfolder: str) -> str:
    """Return a path in the repository as one in the package's folder, if it is there."""
    return path.removeprefix(f"{subfolder}/")


def _names(path: str) -> list[str]:
    """Return the paths at which a file of the repository may be installed."""
    parts = path.split("/")
    return ["/".join(parts[above:]) for above in range(min(_MOST_ABOVE + 1, len(parts)))]


def _matches(path: str, patterns: Sequence[str]) -> bool:
    """Tell whether a pattern matches; one that begins with a slash is for files in the top folder."""
    return any(
        fnmatchcase(f"/{path}" if pattern[0] == "/" and "/" not in path else path, pattern) for pattern in patterns
    )


def blob_id(content: bytes, like: str) -> str:
    """Return git's hash of a file's content, by the algorithm of the hash ``like``."""
    algorithm = hashlib.sha1 if len(like) == 40 else hashlib.sha256
    return algorithm(b"blob %d\0" % len(content) + content).hexdigest()


def _table(content: bytes | None) -> dict[str, Any]:
    try:
        return {} if content is None else tomllib.loads(content.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{PROJECT_FILE}: can't be read ({error}): correct it, or build another commit") from None
