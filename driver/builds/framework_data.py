"""The data files of a framework: its releases, its repository, and how commits are built on each platform."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from packaging.utils import canonicalize_name
from pydantic import Field, StringConstraints

from opduel.driver.builds.data_file import Strict, read_data
from opduel.driver.builds.recipes import Recipe
from opduel.frameworks import Framework
from opduel.records import UsageError

RELEASES_FILE = "releases.yaml"
REPOSITORY_FILE = "repository.yaml"
PLATFORM_FILE = "platform.yaml"
BUILD_SCRIPT = "build.sh"

_Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
_Version = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9.!+]+$")]
_CommitId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
_Python = Annotated[str, StringConstraints(pattern=r"^3\.[0-9]+$")]


class Environment(Strict):
    """A Python, and the exact version of every package in it but the framework's own."""

    python: _Python
    pins: dict[_Name, _Version]


@dataclass(frozen=True)
class Releases:
    """The releases of a framework, which may have none, and the default builds, if any."""

    framework: str
    default_control: str | None
    default_treatment: str | None
    recipes: Mapping[str, Recipe]  # by request: "package==version"
    environments: Mapping[str, Environment]  # by name
    path: Path

    @property
    def packages(self) -> list[str]:
        """The names of the packages, in the file's order."""
        return list(dict.fromkeys(recipe.package for recipe in self.recipes.values()))

    def recipe(self, package: str, version: str) -> Recipe:
        """Return the recipe of one release; case, dots and underscores in the name don't matter. Raise UsageError if it
        is not in the data; the text lists those that are."""
        name = canonicalize_name(package)
        if exact := self.recipes.get(f"{name}=={version}"):
            return exact
        if not self.recipes:
            raise UsageError(f"{name}=={version}: {self.none_known}")
        own = [request for request, recipe in self.recipes.items() if recipe.package == name]
        raise UsageError(f"{name}=={version} is not known: use one of {', '.join(own or self.recipes)}")

    @property
    def none_known(self) -> str:
        """What is to be said where none are known."""
        why = "lists none" if self.path.exists() else "is missing"
        return f"{self.framework} has no releases ({self.path} {why}): give the path of a build"


class _Defaults(Strict):
    control: str
    treatment: str


class _File(Strict):
    defaults: _Defaults | None = None
    environments: dict[str, Environment] = Field(min_length=1)
    packages: dict[_Name, dict[str, list[_Version]]] = Field(default_factory=dict)


def load_releases(framework: Framework) -> Releases:
    """Read and check the framework's ``releases.yaml``; without one the framework has no releases. Raise UsageError if
    it isn't YAML or says something impossible; it names the file, the field and the fix."""
    path = framework.specifications / RELEASES_FILE
    if not path.exists():
        return Releases(framework.name, None, None, {}, {}, path)
    data = read_data(path, _File, "it lists this framework's releases")
    recipes = _recipes(path, data)
    control, treatment = (data.defaults.control, data.defaults.treatment) if data.defaults else (None, None)
    for side, request in (("control", control), ("treatment", treatment)):
        if request is not None and request not in recipes:
            raise UsageError(f"{path}: defaults.{side}: {request!r} is not listed under packages: name one that is")
    return Releases(framework.name, control, treatment, recipes, data.environments, path)


def _recipes(path: Path, data: _File) -> dict[str, Recipe]:
    recipes: dict[str, Recipe] = {}
    for package, by_environment in data.packages.items():
        for environment, versions in by_environment.items():
            if environment not in data.environments:
                names = ", ".join(data.environments)
                field = f"{path}: packages.{package}.{environment}"
                raise UsageError(f"{field}: there is no such environment: use one of {names}")
            chosen = data.environments[environment]
            for version in versions:
                recipe = Recipe(package, version, chosen.python, chosen.pins)
                recipes[recipe.request] = recipe
    return recipes


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
    """Read and check the framework's ``repository.yaml``. Raise UsageError if it is missing or says something
    impossible; it names the file, the field and the fix."""
    path = framework.specifications / REPOSITORY_FILE
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
    there, unless ``needs_data``. UsageError: there is no such platform (those that there are, are named), or its data
    are bad."""
    folder = folder / name
    script = folder / BUILD_SCRIPT
    if not script.is_file():
        names = ", ".join(sorted(path.parent.name for path in script.parents[1].glob(f"*/{BUILD_SCRIPT}"))) or "none"
        raise UsageError(f"--platform {name}: no {BUILD_SCRIPT} in {folder}: write it, or use one of: {names}")
    if not needs_data and not (folder / PLATFORM_FILE).exists():
        return Platform(name, script, (), ())
    data = read_data(folder / PLATFORM_FILE, _PlatformFile, "it says what the build script needs")
    return Platform(name, script, data.submodules, data.tools, data.processor_minutes, data.optional_tools)
