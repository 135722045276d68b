"""A build: an interpreter that imports the framework, and where it came from; and a commit, which it may be of."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

PROGRAM_VARIABLE = "OPDUEL_PROGRAM"  # by which a worker knows the program that it runs


@dataclass(frozen=True)
class Commit:
    """One commit. ``time`` is the committer's, in seconds since 1970 (UTC); ``author`` is "Name <mail>"."""

    id: str  # 40 hexadecimal digits
    time: int
    author: str
    subject: str

    @property
    def short(self) -> str:
        """The first 12 digits: unique in any repository, and short enough to read."""
        return self.id[:12]

    @property
    def moment(self) -> str:
        """The time in ISO 8601, UTC."""
        return datetime.fromtimestamp(self.time, UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class Build:
    """One side's framework, ready to run.

    ``interpreter`` is started with ``environment`` added to the harness's own fixed variables.
    ``digest`` identifies the content: two builds with equal digests are the same build.
    """

    framework: str
    requested: str  # as the user wrote it: "mxnet==1.9.1", a path...
    strategy: str  # "release", "overlay", "source", "environment" or "interpreter"
    interpreter: str  # absolute path
    version: str  # the framework's own version string
    python: str  # the interpreter's version, "3.11.7"; empty for a program, which has none of its own
    digest: str
    packages: Mapping[str, str] = field(default_factory=dict)  # name -> version, as installed
    # What else is part of it: "BLAS of numpy" -> "OpenBLAS 0.3.27"; "compiler of numpy" -> "GCC 14.2.1", as its
    # libraries say; "compiler cc" -> that of a build from source.  None: it was made before this was recorded.
    details: Mapping[str, str] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)  # variables that the build itself needs
    directory: str | None = None  # in the build cache; None for a build that the user brought
    created: str | None = None  # ISO 8601, UTC
    duration_s: float | None = None  # seconds that making it took
    commit: Commit | None = None  # that it was made from; None for a release, or a build that the user brought

    @property
    def label(self) -> str:
        """The framework and its version, or the packages and theirs where the version names them: ``numpy 1.26.4``."""
        return self.version if " " in self.version else f"{self.framework} {self.version}"

    @property
    def description(self) -> str:
        """The label, and the Python that it runs in: ``numpy 1.26.4, Python 3.11.7``; a program has none."""
        return f"{self.label}, Python {self.python}" if self.python else self.label

    @property
    def executable(self) -> str:
        """What is named to measure this build again: the program that it is, else its interpreter."""
        return self.environment.get(PROGRAM_VARIABLE, self.interpreter)


AGAINST = " against "
COMPILER_OF = "compiler of "  # a package, in ``details``; a build that was made before that was recorded has none


def framework_label(control: Build, treatment: Build) -> str:
    """The framework of both sides; of two, ``ONE against OTHER``, the treatment's first."""
    names = treatment.framework, control.framework
    return names[0] if names[0] == names[1] else AGAINST.join(names)


def differing_packages(control: Build, treatment: Build) -> dict[str, tuple[str, str]]:
    """What else than the packages that both sides name, or that both are commits of, differs: Python, the numerical
    libraries in the packages, compilers, and packages by name -> version on either side, ``none`` where it is
    missing."""
    builds = (control, treatment)
    known = all(one.details is not None for one in builds)
    details = [(known and one.details) or {} for one in builds]
    sides = [{"python": one.python, **more, **one.packages} for one, more in zip(builds, details, strict=True)]
    named = _named(control) & _named(treatment)
    packages = sorted({*control.packages, *treatment.packages})
    names = ["python", *sorted({*details[0], *details[1]}), *packages]
    unknown = {name for name in names if name.startswith(COMPILER_OF) and not all(name in side for side in sides)}
    versions = {name: (sides[0].get(name, "none"), sides[1].get(name, "none")) for name in names if name not in unknown}
    return {name: both for name, both in versions.items() if both[0] != both[1] and name not in named}


def _named(build: Build) -> set[str]:
    """The packages that a build was asked for by name, and the one that it is a commit of."""
    asked = re.findall(r"(?:^|\s)([A-Za-z0-9._-]+)==", build.requested)
    asked += [build.version.split()[0]] if build.commit else []
    return {re.sub(r"[-_.]+", "-", name).lower() for name in asked}
