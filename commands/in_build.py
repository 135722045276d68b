"""opduel python: Python in a build's environment, so that it can import opduel there."""

import contextlib
import hashlib
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import platformdirs

from opduel.commands.implied_framework import framework_of_builds
from opduel.driver.builds import BuildCache, resolve_build
from opduel.frameworks import Framework, framework_names, get_framework, worker_environment
from opduel.inside import PACKAGE
from opduel.records import Build, RunError


def run(framework: str, build: str, arguments: Sequence[str]) -> int:
    """Become the interpreter of a build, with these arguments. In place of the usual framework, the build's is taken
    where its name says which. UsageError: there is no such build; RunError: the interpreter could not be started."""
    usual = framework_names()[0]
    build_framework = get_framework((framework_of_builds([build]) or usual) if framework == usual else framework)
    resolved = resolve_build(build, build_framework, BuildCache())
    environment = inside_environment(resolved, build_framework, os.environ)
    sys.stdout.flush()
    try:
        os.execve(resolved.interpreter, [resolved.interpreter, *arguments], environment)
    except OSError as error:
        raise RunError(f"{resolved.interpreter}: could not be started ({error.strerror})") from None


def inside_environment(build: Build, framework: Framework, own: Mapping[str, str]) -> dict[str, str]:
    """As the harness runs a build, with one thread, but for what the user's variables say; opduel can be imported."""
    fixed = {**worker_environment(), **framework.environment(1), **framework.profiling.variables}
    path = [build.environment.get("PYTHONPATH", ""), own.get("PYTHONPATH", ""), str(import_folder())]
    environment = {**fixed, **own, **build.environment}
    return {**environment, "PYTHONPATH": os.pathsep.join(filter(None, path))}


def import_folder(cache: Path | None = None) -> Path:
    """A folder that holds nothing but ``opduel``, as a link: on a build's PYTHONPATH it adds no other module.

    The folder above the package would: our own environment's packages, or those of a checkout. RunError: the link can't
    be made.
    """
    digest = hashlib.sha256(PACKAGE.encode()).hexdigest()[:16]
    folder = (cache or platformdirs.user_cache_path("opduel")) / "importable" / digest
    link = folder / "opduel"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            link.symlink_to(PACKAGE, target_is_directory=True)
    except OSError as error:
        raise RunError(f"{link}: cannot be created ({error.strerror}): set XDG_CACHE_HOME to another folder") from None
    return folder
