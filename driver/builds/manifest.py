"""The manifest of a cached build: written last, and checked against the files when it is read."""

import json
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from opduel.driver.builds.recipes import AnyRecipe, ProgramRecipe
from opduel.records import Build
from opduel.support.validation import explain

FILE_NAME = "manifest.json"


class UnusableBuild(Exception):
    """The folder has no complete build; the text says why."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PackagePart(_Part):
    """The part of a manifest for builds of packages."""

    commit: str  # that the build was made for; others with equal sources share it
    distribution: str  # "scikit-learn"
    imports: list[str]  # what its packages are called when they are imported
    locked: str  # a requirements file of the packages beside it
    built_by: str = ""  # of an asv suite with a build_command: that, or the build backend where it failed


class NativePart(_Part):
    """The part of a manifest for builds of a framework's commits: the native library, and its origin."""

    commit: str  # that the build was made for; others with equal sources share it
    sources: str  # identity of the native sources
    package: str  # the Python package's folder, relative to the build's
    files: list[str]  # that the library brought, relative to the package
    toolchain: list[str]  # "cmake version 3.25.1"...; empty for a library taken from a release
    flags: list[str]  # further arguments of CMake


class Manifest(_Part):
    """The content of ``manifest.json``. Paths are relative to the build's directory, so that the cache can be moved."""

    manifest_version: Literal[1] = 1
    framework: str
    requested: str
    strategy: str
    interpreter: str
    version: str
    python: str
    digest: str
    packages: dict[str, str] = {}
    details: dict[str, str] = {}
    environment: dict[str, str] = {}
    created: str = Field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    duration_s: float
    recipe: AnyRecipe
    native: NativePart | None = None
    source: PackagePart | None = None
    libraries: dict[str, int] = {}  # the framework's native libraries -> size in bytes

    def write(self, directory: Path) -> None:
        """Put the manifest into ``directory``."""
        text = json.dumps(self.model_dump(mode="json"), indent=2) + "\n"
        (directory / FILE_NAME).write_text(text, encoding="utf-8")

    def build(self, directory: Path) -> Build:
        """Return the record of the build, which lies in ``directory``."""
        values = self.model_dump(include={field.name for field in fields(Build)})
        return Build(**{**values, "interpreter": str(directory / self.interpreter)}, directory=str(directory))


def read_manifest(directory: Path, recipe: AnyRecipe | None = None) -> Manifest:
    """Return the manifest in ``directory``, checked against ``recipe`` (if given) and the files; starts no process.
    UnusableBuild: it is missing or damaged, belongs to another recipe, or what it promises isn't there."""
    try:
        manifest = Manifest.model_validate_json((directory / FILE_NAME).read_bytes())
    except OSError as error:
        raise UnusableBuild(f"its manifest can't be read ({error.strerror})") from None
    except ValidationError as error:
        raise UnusableBuild(f"its manifest is damaged ({explain(error, 'the file')})") from None
    if recipe is not None and manifest.recipe != recipe:
        raise UnusableBuild("its manifest belongs to another recipe")
    interpreter = directory / manifest.interpreter
    is_program = isinstance(manifest.recipe, ProgramRecipe)  # its worker is of whoever runs it
    if not is_program and not (interpreter.is_file() and interpreter.stat().st_mode & 0o111):
        raise UnusableBuild("its interpreter is gone")
    for path, size in manifest.libraries.items():
        library = directory / path
        if not library.is_file() or library.stat().st_size != size:
            raise UnusableBuild(f"its library {library.name} is gone or has another size")
    return manifest
