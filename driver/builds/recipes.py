"""Recipes: all that decides a build, so that equal recipes share one build.

Of each, ``request`` says in words what is made; ``key`` is a readable name with a short hash of the content.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from opduel.support.atomic import path_part
from opduel.support.digests import data_digest
from opduel.support.text import listed

_NAMED = 3  # packages in a build's version
_PINNED = re.compile(r"([A-Za-z0-9._-]+)==(\S+)")


@dataclass(frozen=True)
class Recipe:
    """All that decides the environment of a release."""

    package: str
    version: str
    python: str  # "3.11"
    pins: Mapping[str, str]  # every other package in the environment, name -> exact version

    @property
    def request(self) -> str:
        """As the user would ask for it."""
        return f"{self.package}=={self.version}"

    @property
    def key(self) -> str:
        return f"{self.package}-{self.version}-py{self.python}-{_hash(self, 10)}"


@dataclass(frozen=True)
class LockedRecipe:
    """All that decides an environment made of requirements.

    ``locked`` is a requirements file: each package's exact version, and the hashes of its files.
    """

    requested: tuple[str, ...]  # a line of the requirements each
    python: str
    locked: str
    sdists: bool = False  # whether packages may be built from source distributions

    @property
    def request(self) -> str:
        return " ".join(self.requested)

    @property
    def pins(self) -> dict[str, str]:
        """Every package of the environment, name -> exact version."""
        matches = (_PINNED.match(line) for line in self.locked.splitlines())
        return {match[1]: match[2] for match in matches if match}

    @property
    def version(self) -> str:
        """What was asked for by name, with the versions that were found: ``scipy 1.14.1, numpy 1.26.4``."""
        pins = self.pins
        names = [name for line in self.requested if (name := package_of(line)) in pins] or list(pins)
        return listed([f"{name} {pins[name]}" for name in names] or [f"python {self.python}"], _NAMED)

    @property
    def key(self) -> str:
        values = {name: value for name, value in asdict(self).items() if name != "sdists" or value}
        first = path_part(self.version.partition(",")[0].replace(" ", "-"))
        return f"{first}-py{self.python}-{data_digest(values)[:10]}"


@dataclass(frozen=True)
class CommitRecipe:
    """All that decides the build of a framework's commit.

    ``code`` is git's hash of the Python package's folder, ``library`` the identity of the native library; ``pins`` name
    every package of the environment with its exact version.
    """

    code: str
    library: str
    python: str
    pins: Mapping[str, str]

    @property
    def request(self) -> str:
        return f"code {self.code[:12]} over {self.library}"

    @property
    def key(self) -> str:
        return f"code-{self.code[:12]}-{_hash(self)}"


@dataclass(frozen=True)
class PackageRecipe:
    """All that decides the build of a Python package's commit.

    ``native`` is the identity of the native sources, ``code`` that of the Python code
    (``opduel.driver.builds.package_sources``). ``toolchain`` has the versions of compilers and other tools, ``script``
    is the identity of the build script, ``flags`` are the build backend's settings. ``built_with`` is a requirements
    file with exact versions of what it was built with; ``beside`` are requirements of the environment besides the
    package's own. ``subfolder`` is the package's in its repository, ``variables`` (NAME=VALUE) are those of the script.
    """

    project: str
    native: str
    code: str
    python: str
    backend: str
    toolchain: tuple[str, ...]
    script: str
    flags: tuple[str, ...]
    built_with: str
    beside: tuple[str, ...]
    sdists: bool = False
    subfolder: str = ""
    variables: tuple[str, ...] = ()

    @property
    def request(self) -> str:
        return f"{self.project}, code {self.code[:12]}"

    @property
    def key(self) -> str:
        return f"code-{self.code[:12]}-{_hash(self)}"


@dataclass(frozen=True)
class ProgramRecipe:
    """All that decides the build of a program's commit: ``script`` is the build script's identity, ``flags`` its
    further arguments, ``toolchain`` the versions of the tools."""

    commit: str
    script: str
    flags: tuple[str, ...]
    toolchain: tuple[str, ...]

    @property
    def request(self) -> str:
        return f"program of {self.commit[:12]}"

    @property
    def key(self) -> str:
        return f"program-{self.commit[:12]}-{_hash(self)}"


@dataclass(frozen=True)
class MixtureRecipe:
    """All that decides an environment of packages that are installed elsewhere: of each its name, version, content,
    folder and time of change. ``release`` (name==version) is installed beside them, unless it is empty."""

    base: str  # the interpreter of which it is made
    python: str
    parts: tuple[tuple[str, str, str, str, int], ...]
    release: str

    @property
    def request(self) -> str:
        with_release = f" and {self.release}" if self.release else ""
        return f"{len(self.parts)} packages for Python {self.python}{with_release}"

    @property
    def key(self) -> str:
        return f"mixture-{_hash(self)}"


AnyRecipe = Recipe | CommitRecipe | LockedRecipe | PackageRecipe | ProgramRecipe | MixtureRecipe


def _hash(recipe: AnyRecipe, digits: int = 12) -> str:
    return data_digest(asdict(recipe))[:digits]


def package_of(line: str) -> str:
    """Return the name of the package that a line of requirements names, as uv writes it."""
    return canonicalize_name(Requirement(re.sub(r" --hash=\S+", "", line)).name)
