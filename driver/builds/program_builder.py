"""Programs as builds: executable files that are there, and commits of any program, built by the user's script:
``build.sh REPO_DIR DESTINATION``.

The destination is a folder, and ``--program`` says where in it the program is; or the program itself, as in AI-PEP.
"""

import hashlib
import json
import logging
import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from opduel.driver.builds.builder import Builder
from opduel.driver.builds.compiler import Compiler
from opduel.driver.builds.environment_build import named_after
from opduel.driver.builds.framework_data import load_platform
from opduel.driver.builds.manifest import FILE_NAME, Manifest
from opduel.driver.builds.recipes import ProgramRecipe
from opduel.frameworks import Framework, worker_environment
from opduel.records import BrokenBuildError, Build, Commit, UsageError
from opduel.records.build import ARGUMENTS_VARIABLE, PROGRAM_VARIABLE
from opduel.support.digests import file_digest
from opduel.support.linked import linked_libraries

BUILD = "{build}"  # in --program: the folder that the script was given as its destination
_FOLDER_HINT = f"if the script's second argument is a folder to it, add --program {BUILD}/NAME"
_SHOWN = 12  # hexadecimal digits of a digest
_ELF = b"\x7fELF"

log = logging.getLogger(__name__)


class ProgramBuilder(Builder):
    """Builds commits of one repository, each by the script in the platform's folder. Raise UsageError if there is no
    such script."""

    def __post_init__(self) -> None:
        super().__post_init__()
        settings, folder = self._settings, self._framework.specifications
        if settings.strategy not in ("auto", "source"):
            raise UsageError(f"--build {settings.strategy}: programs are built from source: leave it out")
        self._file = f"{folder.name}_benchmark" if settings.program in (None, BUILD) else ""
        self._program = settings.program if settings.program and not self._file else f"{BUILD}/{self._file}"
        self._platform = load_platform(folder, settings.platform, needs_data=False)

    def strategy(self, commits: Sequence[Commit]) -> str:
        return "source"

    def build(self, commit: Commit, strategy: str, processors: frozenset[int] | None = None) -> Build:
        recipe = self._recipe(commit)
        build = self._cache.find_or_make(
            self._framework.name, recipe, lambda directory, _: self._make(commit, recipe, directory, processors)
        )
        program = Path(self._program.replace(BUILD, str(build.directory)))
        if not (program.is_file() and os.access(program, os.X_OK)):
            where = _FOLDER_HINT if self._file else "correct --program"
            raise BrokenBuildError(
                f"{commit.short}: its build {build.directory} has no program {self._program}: {where}, or correct "
                f"what {self._platform.script} leaves there"
            )
        environment = {PROGRAM_VARIABLE: str(program)}
        # The worker's Python is ours now, and not the one that was ours when it was built.
        return named_after(commit, replace(build, interpreter=sys.executable, environment=environment))

    def compile_key(self, commit: Commit, strategy: str) -> str | None:
        recipe = self._recipe(commit)
        return None if self._cache.find(self._framework.name, recipe) else recipe.key

    @cached_property
    def _compiler(self) -> Compiler:
        def checkout(commit: Commit, folder: Path) -> None:
            self._repository.checkout(commit, folder, (), self._platform.submodules)

        folder = self._work / self._platform.name
        return Compiler(folder, self._platform, self._settings.flags, checkout, self._stopped, output=self._file)

    def _recipe(self, commit: Commit) -> ProgramRecipe:
        script = " ".join([file_digest(self._platform.script), *([self._file] if self._file else [])])
        return ProgramRecipe(commit.id, script, self._settings.flags, self._compiler.toolchain)

    def _make(
        self, commit: Commit, recipe: ProgramRecipe, directory: Path, processors: frozenset[int] | None
    ) -> Manifest:
        """Run the script, copy its destination into the build's folder, and return the manifest."""
        destination = self._work / "destinations" / commit.short
        try:
            seconds = self._compile(self._compiler, commit, destination, processors)
            if (destination / FILE_NAME).exists():
                why = f"leaves a {FILE_NAME}, which is opduel's own there: give it another name or folder"
                raise BrokenBuildError(f"{commit.short}: {self._platform.script} {why}")
            shutil.copytree(destination, directory, symlinks=True, dirs_exist_ok=True)
        except BrokenBuildError as error:
            raise BrokenBuildError(f"{error}; {_FOLDER_HINT}" if self._file else str(error)) from None
        finally:
            shutil.rmtree(destination, ignore_errors=True)
        log.info("built %s in %.0f s", commit.short, seconds)
        return Manifest(
            framework=self._framework.name,
            requested=commit.short,
            strategy="source",
            interpreter=sys.executable,
            version=f"{Path(self._program).name} {commit.short}",
            python="",
            digest=_digest_of_folder(directory),
            duration_s=round(seconds, 1),
            recipe=recipe,
        )


def _digest_of_folder(folder: Path) -> str:
    """Return a digest of the names, modes and contents of all files."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            digest.update(f"{name} -> {os.readlink(path)}\n".encode())
        elif path.is_file():
            digest.update(f"{name} {path.stat().st_mode & 0o111} {file_digest(path)}\n".encode())
    return digest.hexdigest()


def program_build(requested: str, framework: Framework, environment: Mapping[str, str]) -> Build:
    """Return the program at a path, or of that name among the user's commands, perhaps with arguments (``gzip -k``);
    ``environment`` holds variables that it needs. Raise UsageError if there is none, or it can't be executed."""
    program, arguments = _program_and_arguments(requested)
    path = _find(program)
    own = file_digest(path)
    if arguments:
        environment = {**environment, ARGUMENTS_VARIABLE: json.dumps(arguments)}
    if _is_native(path):
        libraries = _libraries(path, environment)
        identities = [own, *map(":".join, sorted(libraries.items()))]
    else:  # a script may run whatever lies beside it: two at different places are different builds
        libraries, identities = {}, [own, str(path)]
    identities += arguments
    digest = hashlib.sha256("\n".join(identities).encode()).hexdigest()
    return Build(
        framework=framework.name,
        requested=requested,
        strategy="program",
        interpreter=sys.executable,
        version=f"{path.name} {own[:_SHOWN]}",
        python="",
        digest=digest,
        packages={name: identity[:_SHOWN] for name, identity in libraries.items()},
        environment={**environment, PROGRAM_VARIABLE: str(path)},
    )


def _program_and_arguments(requested: str) -> tuple[str, list[str]]:
    """Return the words of a command line as a shell splits them; a path with spaces in it is one."""
    if os.path.exists(os.path.expanduser(requested)):
        return requested, []
    try:
        program, *arguments = shlex.split(requested)
    except ValueError:  # a quote that isn't closed, or nothing
        return requested, []
    return program, arguments


def _find(requested: str) -> Path:
    name = os.path.expanduser(requested)
    if os.sep not in name and not os.path.exists(name):
        name = shutil.which(name) or name
    path = Path(os.path.abspath(name))  # not resolved: a program may go by the name that it is called by
    if not os.path.exists(path):
        raise UsageError(f"{requested}: no such program: give the path of an executable file, or a command's name")
    if not (os.path.isfile(path) and os.access(path, os.X_OK | os.R_OK)):
        raise UsageError(f"{requested}: is no file that you can read and execute: give a program, or chmod +rx it")
    return path


def _is_native(path: Path) -> bool:
    with open(path, "rb") as stream:
        return stream.read(len(_ELF)) == _ELF


def _libraries(path: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Name -> digest of the shared libraries that the dynamic linker finds for it; empty where it can't be asked."""
    linked = linked_libraries(path, {**worker_environment(), **environment})
    return {name: file_digest(library) for name, library in linked.items()}
