"""The data files of a framework's repository: where its commits come from, and how they are built."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, StringConstraints

from opduel.driver.builds.data_file import Strict, read_data
from opduel.driver.builds.releases import load_releases
from opduel.frameworks import Framework
from opduel.records import UsageError

FILE_NAME = "repository.yaml"
PLATFORM_FILE = "platform.yaml"
BUILD_SCRIPT = "build.sh"

_CommitId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]


class RepositoryData(Strict):
    """The content of ``repository.yaml``, which explains its fields."""

    remote: str
    package: str
    not_native: list[str] = Field(min_length=1)
    checkout: list[str] = Field(default_factory=list)
    environment: str
    releases: dict[str, _CommitId] = Field(default_factory=dict)


class _PlatformFile(Strict):
    submodules: list[str] = Field(default_factory=list)
    tools: list[str] = Field(min_length=1)
    optional_tools: list[str] = Field(default_factory=list)
    processor_minutes: int | None = Field(default=None, gt=0)


@dataclass(frozen=True)
class Platform:
    """How commits are compiled on one kind of machine: the script, the ``tools`` that it needs, and the
    ``optional_tools`` that it can use.

    ``processor_minutes`` is the time of a full compile, in minutes of one processor; None where nobody has measured it.
    """

    name: str
    script: Path
    submodules: Sequence[str]
    tools: Sequence[str]
    processor_minutes: int | None = None
    optional_tools: Sequence[str] = ()


def load_repository_data(framework: Framework) -> RepositoryData:
    """Read and check the framework's ``repository.yaml``.

    Raises:
        UsageError: it is missing or says something impossible; names the file, the field and the fix.
    """
    path = framework.specifications / FILE_NAME
    data = read_data(path, RepositoryData, "it says where this framework's commits come from")
    releases = load_releases(framework)
    for request in data.releases:
        if request not in releases.recipes:
            raise UsageError(
                f"{path}: releases.{request}: is not listed in {releases.path}: remove it, or list it there"
            )
    if data.environment not in releases.environments:
        names = ", ".join(releases.environments)
        fix = f"use one of {names}" if names else "write that file, with the environment"
        raise UsageError(f"{path}: environment: there is no {data.environment!r} in {releases.path}: {fix}")
    return data


def load_platform(folder: Path, name: str, needs_data: bool = True) -> Platform:
    """Return the platform's build script and data, in a folder of its name within ``folder``; the data only if they are
    there, unless ``needs_data``.

    Raises:
        UsageError: there is no such platform (those that there are, are named), or its data are bad.
    """
    folder = folder / name
    script = folder / BUILD_SCRIPT
    if not script.is_file():
        names = ", ".join(sorted(path.parent.name for path in script.parents[1].glob(f"*/{BUILD_SCRIPT}"))) or "none"
        raise UsageError(f"--platform {name}: no {BUILD_SCRIPT} in {folder}: write it, or use one of: {names}")
    if not needs_data and not (folder / PLATFORM_FILE).exists():
        return Platform(name, script, (), ())
    data = read_data(folder / PLATFORM_FILE, _PlatformFile, "it says what the build script needs")
    return Platform(name, script, data.submodules, data.tools, data.processor_minutes, data.optional_tools)
