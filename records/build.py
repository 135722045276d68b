"""A build: an interpreter that imports the framework, and where it came from; and a commit, which it may be of."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

PROGRAM_VARIABLE = "OPDUEL_PROGRAM"  # by which a worker knows the program that it runs
ARGUMENTS_VARIABLE = "OPDUEL_PROGRAM_ARGUMENTS"  # and the arguments that are a part of the build: a JSON list


@dataclass(frozen=True)
class Commit:
    """One commit."""

    id: str
    """40 hexadecimal digits"""
    time: int
    """the committer's, in seconds since 1970, UTC"""
    author: str
    """``Name <mail>``"""
    subject: str
    """the first line of the message"""

    @property
    def short(self) -> str:
        """The first 12 digits: unique in any repository, and short enough to read."""
        return self.id[:12]

    @property
    def moment(self) -> str:
        """The time in ISO 8601, UTC; empty if its year is impossible, as a foreign report may have it."""
        try:
            return datetime.fromtimestamp(self.time, UTC).isoformat(timespec="seconds")
        except (OverflowError, OSError, ValueError):
            return ""

    @property
    def words(self) -> str:
        """``abc123def456 2022-03-07 Jane Doe: Fixed it``."""
        return f"{self.short} {self.moment[:10]} {self.author.partition(' <')[0]}: {self.subject}"


@dataclass(frozen=True)
class Build:
    """One side's framework, ready to run."""

    framework: str
    """its name"""
    requested: str
    """the build as the user wrote it: ``package==version``, a path, of a commit 12 digits"""
    strategy: str
    """how it was built: ``release``, ``overlay``, ``source``, ``environment``, ``interpreter`` or ``program``"""
    interpreter: str
    """absolute path of its Python; for a program, of opduel's own"""
    version: str
    """the framework's version; from requirements, the packages with theirs: ``scipy 1.14.1, numpy 1.26.4``; of an
    environment those of the packages that the cases call"""
    python: str
    """the interpreter's version; empty for a program"""
    digest: str
    """identifies the content: builds with equal digests are the same"""
    packages: Mapping[str, str] = field(default_factory=dict)
    """installed packages, name to version"""
    details: Mapping[str, str] = field(default_factory=dict)
    """libraries and compilers: ``BLAS of numpy``, ``compiler of numpy``"""
    environment: Mapping[str, str] = field(default_factory=dict)
    """variables that the build itself needs"""
    directory: str | None = None
    """its folder in the build cache; null for the user's own"""
    created: str | None = None
    """ISO 8601, UTC"""
    duration_s: float | None = None
    """seconds that building took"""
    commit: Commit | None = None
    """the commit that it was built from"""

    @property
    def label(self) -> str:
        """The framework and its version, or the packages and theirs where the version names them: ``numpy 1.26.4``."""
        return self.version if " " in self.version else f"{self.framework} {self.version}"

    @property
    def name(self) -> str:
        """What people call it: as it was requested, but an environment with its packages: ``numpy 1.26.4 in ~/env``."""
        is_path = self.strategy in ("environment", "interpreter") and " " in self.version
        return f"{self.version} in {self.requested}" if is_path else self.requested

    @property
    def description(self) -> str:
        """The label, and the Python that it runs in: ``numpy 1.26.4, Python 3.11.7``; a program has none."""
        if self.version == self.python:  # an environment of which no package is known to matter
            return f"Python {self.python}"
        return f"{self.label}, Python {self.python}" if self.python else self.label

    @property
    def executable(self) -> str:
        """What is named to measure this build again: the program that it is, else its interpreter."""
        return self.environment.get(PROGRAM_VARIABLE, self.interpreter)

    def with_packages(self, names: Iterable[str]) -> "Build":
        """Return an environment of many packages under the versions of these, of which some may not be in it; any other
        build as it is."""
        if self.version != self.python:
            return self
        versions = [f"{name} {self.packages[name]}" for name in dict.fromkeys(names) if name in self.packages]
        return replace(self, version=", ".join(versions[:MOST_NAMED]) or self.version)


MOST_NAMED = 3  # packages in the name of an environment
AGAINST = " against "
COMPILER_OF = "compiler of "  # a package, in ``details``, where its libraries name one


def framework_label(control: Build, treatment: Build) -> str:
    """Return the framework of both sides; of two, ``ONE against OTHER``, the treatment's first."""
    names = treatment.framework, control.framework
    return names[0] if names[0] == names[1] else AGAINST.join(names)


def differing_packages(control: Build, treatment: Build) -> dict[str, tuple[str, str]]:
    """Return what differs besides the packages that both sides name, or that both are commits of: Python, the
    numerical libraries in the packages, compilers, and packages by name -> version on either side, ``none`` where it
    is missing."""
    sides = [{"python": build.python, **build.details, **build.packages} for build in (control, treatment)]
    named = _named(control) & _named(treatment)
    packages = sorted({*control.packages, *treatment.packages})
    names = ["python", *sorted({*control.details, *treatment.details}), *packages]
    unknown = {name for name in names if name.startswith(COMPILER_OF) and not all(name in side for side in sides)}
    versions = {name: (sides[0].get(name, "none"), sides[1].get(name, "none")) for name in names if name not in unknown}
    return {name: pair for name, pair in versions.items() if pair[0] != pair[1] and name not in named}


def _named(build: Build) -> set[str]:
    """Return the packages that the name of a build has, and the one that it is a commit of."""
    names = re.findall(r"(?:^|\s)([A-Za-z0-9._-]+)==", build.requested)
    is_named = build.commit is not None or build.name != build.requested
    names += [package.split()[0] for package in build.version.split(", ")] if is_named else []
    return {re.sub(r"[-_.]+", "-", name).lower() for name in names}
