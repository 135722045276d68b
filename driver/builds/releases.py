"""The data file of a framework's releases, with their Python and pins."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from packaging.utils import canonicalize_name
from pydantic import Field, StringConstraints

from opduel.driver.builds.data_file import Strict, read_data
from opduel.driver.builds.recipes import Recipe
from opduel.frameworks import Framework
from opduel.records import UsageError

FILE_NAME = "releases.yaml"

_Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
_Version = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9.!+]+$")]
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
        """Return the recipe of one release; case, dots and underscores in the name don't matter.

        Raises:
            UsageError: it is not in the data; the text lists those that are.
        """
        name = canonicalize_name(package)
        if exact := self.recipes.get(f"{name}=={version}"):
            return exact
        versions = [recipe.version for recipe in self.recipes.values() if recipe.package == name]
        if versions:
            raise UsageError(f"{name} {version} is not known: use one of {', '.join(versions)}")
        if not self.recipes:
            raise UsageError(f"{name}=={version}: {self.none_known}")
        raise UsageError(f"package {package!r} is not known: use one of {', '.join(self.recipes)}")

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
    """Read and check the framework's ``releases.yaml``; without one the framework has no releases.

    Raises:
        UsageError: it isn't YAML or says something impossible; names the file, the field and the fix.
    """
    path = framework.specifications / FILE_NAME
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
            field = f"{path}: packages.{package}.{environment}"
            if environment not in data.environments:
                names = ", ".join(data.environments)
                raise UsageError(f"{field}: there is no such environment: use one of {names}")
            chosen = data.environments[environment]
            for version in versions:
                recipe = Recipe(package, version, chosen.python, chosen.pins)
                if recipe.request in recipes:
                    raise UsageError(f"{field}: {version} is listed twice: remove one")
                recipes[recipe.request] = recipe
    return recipes
