"""Two environments: the packages in which they differ, and an order in which these can be exchanged one by one."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from opduel.records import UsageError
from opduel.support.digests import data_digest
from opduel.support.text import counted

PYTHON = "python"
ABSENT = "none"
_NAMED = 3  # packages in a title
_INSTALLERS = {"pip", "uv"}  # what measures imports neither
_SITES = r"github\.com|gitlab\.com|codeberg\.org|bitbucket\.org"
_REPOSITORY = re.compile(rf"https?://(?:www\.)?(?:{_SITES})/[^/\s]+/[^/\s#?]+")

Unmet = tuple[str, Requirement]  # a requirement, and the package that has it


@dataclass(frozen=True)
class Package:
    """An installed package. ``files`` are relative to ``folder``; ``content`` is a digest of the code in them."""

    name: str
    version: str
    content: str
    folder: Path
    files: tuple[str, ...]
    changed_ns: int  # the latest modification time of a file
    requires: tuple[Requirement, ...] = ()
    repository: str | None = None


@dataclass(frozen=True)
class Environment:
    """Packages, and the interpreter and the version of the Python for which they are installed."""

    request: str
    interpreter: Path
    python: str
    packages: Mapping[str, Package]


def read_packages(folders: Iterable[Path], python: str) -> dict[str, Package]:
    """Return the packages that are installed in these folders for a version of Python (3.11.7), by name. UsageError: a
    package doesn't say which files it has."""
    packages: dict[str, Package] = {}
    for distribution in metadata.distributions(path=[str(folder) for folder in folders]):
        name = canonicalize_name(_field(distribution.metadata, "Name"))
        if name and name not in packages and name not in _INSTALLERS:
            packages[name] = _package(name, distribution, python)
    return packages


def _package(name: str, distribution: metadata.Distribution, python: str) -> Package:
    folder = Path(str(distribution.locate_file("")))
    if distribution.files is None:
        raise UsageError(f"{folder}: {name} has no list of its files (RECORD): install it by pip or uv")
    sizes, changed_ns = {}, 0
    for file in map(str, distribution.files):
        if "__pycache__" in file:
            continue
        with suppress(OSError):
            status = (folder / file).stat()
            sizes[file], changed_ns = status.st_size, max(changed_ns, status.st_mtime_ns)
    own = (file for file in distribution.files if not file.parts[0].endswith((".dist-info", "..")))
    code = sorted((str(file), file.hash.value, sizes.get(str(file), -1)) for file in own if file.hash)
    version = _field(distribution.metadata, "Version") or "unknown"
    files = tuple(str(file) for file in distribution.files)
    requires = tuple(_requirements(distribution.requires or (), python))
    return Package(
        name, version, data_digest(code), folder, files, changed_ns, requires, _repository(distribution.metadata)
    )


def _field(described: metadata.PackageMetadata, name: str) -> str:
    return str(next(iter(described.get_all(name) or ()), ""))


def _requirements(lines: Iterable[str], python: str) -> Iterator[Requirement]:
    """Yield what is required on a Python without extras; what can't be read is left out."""
    marked = {"python_version": ".".join(python.split(".")[:2]), "python_full_version": python, "extra": ""}
    for line in lines:
        with suppress(ValueError):
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate(marked):
                yield requirement


def _repository(described: metadata.PackageMetadata) -> str | None:
    """Return the address of a package's repository, as its metadata have it."""
    lines = [*(described.get_all("Project-URL") or ()), _field(described, "Home-page")]
    lines.sort(key=lambda line: re.match(r"(source|repository|code|github)", line, re.IGNORECASE) is None)
    match = next(filter(None, map(_REPOSITORY.search, lines)), None)
    return match[0].removesuffix(".git") if match else None


def unmet(packages: Mapping[str, Package], names: Collection[str]) -> Iterator[Unmet]:
    """Yield the requirements, of or for the packages of these names, that the packages don't meet."""
    for package in packages.values():
        for requirement in package.requires:
            needed = canonicalize_name(requirement.name)
            concerns = needed in names or package.name in names
            if concerns and not _meets(packages.get(needed), requirement):
                yield package.name, requirement


def _meets(package: Package | None, requirement: Requirement) -> bool:
    try:
        return package is not None and requirement.specifier.contains(package.version, prereleases=True)
    except InvalidVersion:
        return True


@dataclass(frozen=True)
class EnvironmentPair:
    """Two environments, whose packages can be exchanged for each other's.

    Where the treatment has another version of Python, its packages are those for the control's, and ``other_python`` is
    the treatment as it is: Python can then be exchanged last only.
    """

    control: Environment
    treatment: Environment
    other_python: Environment | None = None

    @cached_property
    def differing(self) -> tuple[str, ...]:
        """The packages in which the two differ, and ``python`` if they have different ones, sorted."""
        sides = self.control.packages, self.treatment.packages
        names = [name for name in {*sides[0], *sides[1]} if len({_identity(side.get(name)) for side in sides}) == 2]
        is_other = self.other_python is not None or self.control.interpreter != self.treatment.interpreter
        return tuple(sorted([*names, *([PYTHON] if is_other else [])]))

    def versions(self, name: str) -> tuple[str, str]:
        """Return the version of a package on either side."""
        if name == PYTHON:
            return self.control.python, (self.other_python or self.treatment).python
        sides = self.control.packages, self.treatment.packages
        old, new = (side[name].version if name in side else ABSENT for side in sides)
        return old, new

    def change(self, name: str) -> str:
        """Return what is exchanged, in words: ``numpy 1.26.4 -> 2.2.6``."""
        old, new = self.versions(name)
        return f"{name} {old} -> {new}{' (other files)' if old == new else ''}"

    def mixture(self, exchanged: Set[str]) -> Environment:
        """Return the control with these packages of the treatment."""
        if self.other_python is not None and PYTHON in exchanged:
            return self.other_python
        sides = self.control.packages, self.treatment.packages
        names = sorted({*sides[0], *sides[1]})
        packages = {name: sides[name in exchanged][name] for name in names if name in sides[name in exchanged]}
        owner = self.treatment if PYTHON in exchanged else self.control
        return Environment(self.title(exchanged), owner.interpreter, owner.python, packages)

    def title(self, exchanged: Set[str]) -> str:
        """Return a mixture in words."""
        names = sorted(exchanged)
        if not names or len(names) == len(self.differing):
            return (self.treatment if names else self.control).request
        if len(names) > _NAMED:
            count = counted(len(self.differing), "package")
            return f"{self.control.request} with {len(names)} of the {count} of {self.treatment.request}"
        versions = ((name, self.versions(name)[1]) for name in names)
        return f"{self.control.request} with {', '.join(f'{name} {version}' for name, version in versions)}"

    def completed(self, exchanged: Set[str]) -> frozenset[str]:
        """Return these packages with those that must be exchanged together with them for all requirements to be met,
        but for those that an environment doesn't meet itself."""
        if self.other_python is not None and PYTHON in exchanged:
            return frozenset(self.differing)
        while more := set(filter(None, (self._remedy(line, exchanged) for line in self._conflicts(exchanged)))):
            exchanged = exchanged | more
        return frozenset(exchanged)

    def line(self) -> list[frozenset[str]]:
        """Return mixtures from the control to the treatment, each with as few more packages as requirements allow."""
        points: list[frozenset[str]] = [frozenset()]
        while len(points[-1]) < len(self.differing):
            names = [name for name in self.differing if name not in points[-1]]
            mixtures = [self.completed(points[-1] | {name}) for name in names]
            points.append(min(mixtures, key=lambda mixture: (len(mixture), PYTHON in mixture, sorted(mixture))))
        return points

    @cached_property
    def _unmet_by_sides(self) -> set[tuple[str, str]]:
        sides = self.control.packages, self.treatment.packages
        return {(user, str(requirement)) for side in sides for user, requirement in unmet(side, self.differing)}

    def _conflicts(self, exchanged: Set[str]) -> Iterator[Unmet]:
        for user, requirement in unmet(self.mixture(exchanged).packages, self.differing):
            if (user, str(requirement)) not in self._unmet_by_sides:
                yield user, requirement

    def _remedy(self, conflict: Unmet, exchanged: Set[str]) -> str | None:
        """Return the package whose exchange meets a requirement, or the one that has it; None if there is none."""
        user, requirement = conflict
        needed = canonicalize_name(requirement.name)
        can_be_exchanged = {*self.differing} - exchanged
        if needed in can_be_exchanged and _meets(self.treatment.packages.get(needed), requirement):
            return str(needed)
        return next((name for name in (user, str(needed)) if name in can_be_exchanged), None)


def _identity(package: Package | None) -> tuple[str, str] | None:
    return None if package is None else (package.version, package.content)
