"""The data file of a framework's releases: which there are, on which Python, with which pins."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from frameworks import Framework
from records import UsageError

FILE_NAME = "releases.yaml"

_Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
_Version = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9.!+]+$")]
_Python = Annotated[str, StringConstraints(pattern=r"^3\.[0-9]+$")]
_MENDS = {
    "string_type": "put it in quotes",
    "missing": "add the field",
    "extra_forbidden": "remove it or correct its spelling",
    "string_pattern_mismatch": "correct its form",
}


@dataclass(frozen=True)
class Recipe:
    """All that decides what a release's environment holds."""

    package: str
    version: str
    python: str  # "3.11"
    pins: Mapping[str, str]  # every other package in the environment, name -> exact version

    @property
    def request(self) -> str:
        """As the user would ask for it."""
        return f"{self.package}=={self.version}"

    @property
    def requirements(self) -> list[str]:
        """Every package with its exact version, as installers read it."""
        return [self.request, *(f"{name}=={version}" for name, version in sorted(self.pins.items()))]

    @property
    def key(self) -> str:
        """A readable name with a short hash of the content: equal keys, equal environments."""
        content = json.dumps(asdict(self), sort_keys=True).encode()
        return f"{self.package}-{self.version}-py{self.python}-{hashlib.sha256(content).hexdigest()[:10]}"


@dataclass(frozen=True)
class Releases:
    """What can be asked for, and the builds that are used when nothing is."""

    default_control: str
    default_treatment: str
    recipes: Mapping[str, Recipe]  # by request: "package==version"
    path: Path

    @property
    def packages(self) -> list[str]:
        """The names of the packages, in the file's order."""
        return list(dict.fromkeys(recipe.package for recipe in self.recipes.values()))

    def recipe(self, package: str, version: str) -> Recipe:
        """The recipe of one release; case, dots and underscores in the name don't matter.

        Raises:
            UsageError: it is not in the data; the text lists those that are.
        """
        name = re.sub(r"[-_.]+", "-", package).lower()
        found = self.recipes.get(f"{name}=={version}")
        if found:
            return found
        versions = [recipe.version for recipe in self.recipes.values() if recipe.package == name]
        if versions:
            raise UsageError(f"{name} {version} is not known: use one of {', '.join(versions)}")
        raise UsageError(f"package {package!r} is not known: use one of {', '.join(self.recipes)}")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Defaults(_Strict):
    control: str
    treatment: str


class _Environment(_Strict):
    python: _Python
    pins: dict[_Name, _Version]


class _File(_Strict):
    defaults: _Defaults
    environments: dict[str, _Environment] = Field(min_length=1)
    packages: dict[_Name, dict[str, list[_Version]]] = Field(min_length=1)


def load_releases(framework: Framework) -> Releases:
    """Read and check the framework's ``releases.yaml``.

    Raises:
        UsageError: it is missing, isn't YAML or says something impossible; names the file, the field and the mend.
    """
    path = framework.specifications / FILE_NAME
    try:
        data = _File.model_validate(_read(path))
    except ValidationError as error:
        raise UsageError(_describe(path, error)) from None
    recipes = _recipes(path, data)
    for side, request in (("control", data.defaults.control), ("treatment", data.defaults.treatment)):
        if request not in recipes:
            raise UsageError(f"{path}: defaults.{side}: {request!r} is not listed under packages: name one that is")
    return Releases(data.defaults.control, data.defaults.treatment, recipes, path)


def _read(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}: this framework's releases are listed there; restore it") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: is not UTF-8 text: save it as UTF-8") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark else ""
        problem = getattr(error, "problem", None) or "not readable"
        raise UsageError(f"{path}: {where}not YAML ({problem}): correct it") from None


def _recipes(path: Path, data: _File) -> dict[str, Recipe]:
    recipes: dict[str, Recipe] = {}
    for package, by_environment in data.packages.items():
        for environment, versions in by_environment.items():
            field = f"{path}: packages.{package}.{environment}"
            if environment not in data.environments:
                known = ", ".join(data.environments)
                raise UsageError(f"{field}: there is no such environment: use one of {known}")
            chosen = data.environments[environment]
            for version in versions:
                recipe = Recipe(package, version, chosen.python, chosen.pins)
                if recipe.request in recipes:
                    raise UsageError(f"{field}: {version} is listed twice: remove one")
                recipes[recipe.request] = recipe
    return recipes


def _describe(path: Path, error: ValidationError) -> str:
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"]) or "the whole file"
    mend = _MENDS.get(first["type"], "correct it")
    return f"{path}: {field}: {first['msg'][:1].lower()}{first['msg'][1:]}: {mend}"
