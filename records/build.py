"""A build: an interpreter that imports the framework, and where it came from; and a commit, which it may be of."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime


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
    python: str  # the interpreter's version, "3.11.7"
    digest: str
    packages: Mapping[str, str] = field(default_factory=dict)  # name -> version, as installed
    environment: Mapping[str, str] = field(default_factory=dict)  # variables that the build itself needs
    directory: str | None = None  # in the build cache; None for a build that the user brought
    created: str | None = None  # ISO 8601, UTC
    duration_s: float | None = None  # seconds that making it took
    commit: Commit | None = None  # that it was made from; None for a release, or a build that the user brought

    @property
    def label(self) -> str:
        """The framework and its version, or the packages and theirs where the version names them: ``numpy 1.26.4``."""
        return self.version if " " in self.version else f"{self.framework} {self.version}"


def differing_packages(control: Build, treatment: Build) -> dict[str, tuple[str, str]]:
    """What else than the packages that both sides name differs: Python, and packages by name -> version on either side,
    ``none`` where it is missing."""
    sides = ({"python": control.python, **control.packages}, {"python": treatment.python, **treatment.packages})
    asked = [set(re.findall(r"(?:^|\s)([A-Za-z0-9._-]+)==", one.requested)) for one in (control, treatment)]
    named = {re.sub(r"[-_.]+", "-", name).lower() for name in asked[0] & asked[1]}
    versions = {
        name: (sides[0].get(name, "none"), sides[1].get(name, "none")) for name in sorted({**sides[0], **sides[1]})
    }
    return {name: both for name, both in versions.items() if both[0] != both[1] and name not in named}
