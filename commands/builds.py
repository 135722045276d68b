"""The builds that a command measures: those asked for, or else the user's own, or the framework's; made if need be."""

import functools
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from opduel.commands.config import config_path
from opduel.commands.driver_options import GIB
from opduel.commands.entry import log
from opduel.commands.harness_options import CommitOptions, HarnessOptions
from opduel.commands.programs import program_of
from opduel.driver.builds import BuildCache, load_releases, resolve_build
from opduel.driver.builds.cache import prune
from opduel.driver.builds.named_commit import named_commit
from opduel.frameworks import Framework
from opduel.frameworks.roles import PackageBuilds
from opduel.records import Build, UsageError
from opduel.records.measurement import Side


def usual_build(side: Side, config: Mapping[str, str], framework: Framework, option: str | None = None) -> str:
    """The build that is taken when none is asked for: the config's, or else the framework's default. UsageError, which
    names ``option`` (default: ``side``), if there is none."""
    if side in config:
        log.info("%s: %s, from %s", side, config[side], config_path())
        return config[side]
    releases = load_releases(framework)
    usual = {"control": releases.default_control, "treatment": releases.default_treatment}[side]
    if usual is None:
        hint = framework.builds.request_hint
        raise UsageError(f"--{option or side}: {framework.name} has no default build: give one{hint}")
    log.info("%s: %s, from %s", side, usual, releases.path)
    return usual


def make_builds(
    options: HarnessOptions,
    framework: Framework,
    requests: Sequence[str],
) -> list[Build]:
    """The builds of that name or at that path, made if need be, with the libraries of ``--shared_libs``. OpduelError:
    there is no such build, it can't be made, or none of them takes the libraries."""
    cache, libraries = BuildCache(options.exec_dir), library_path(options.shared_libs)
    sdists = options.allow_sdist
    for request in requests if isinstance(framework.builds, PackageBuilds) else ():
        named_commit(request)  # UsageError for a name that means nothing, before any build is made

    @functools.cache  # a build against itself is made, or inspected, once
    def make(request: str) -> Build:
        return resolve_build(program_of(options, request), framework, cache, libraries, sdists)

    builds = of_one_python(list(map(make, requests)), requests, make)
    if libraries and not any(build.environment for build in builds):
        raise UsageError("--shared_libs: a release has its own libraries: leave it out, or measure a build at a path")
    if any(build.commit for build in builds):
        prune(cache, CommitOptions.cache_size * GIB, {str(build.directory) for build in builds})
    return builds


def of_one_python(builds: Sequence[Build], requests: Sequence[str], make: Callable[[str], Build]) -> list[Build]:
    """Return the builds, those of the cache made again for the newest of their Pythons where commits need different
    ones, and no request names one."""
    versions = [tuple(map(int, build.python.split(".")[:2])) for build in builds if build.commit]
    python = "{}.{}".format(*max(versions)) if versions else ""
    of_one = []
    for build, request in zip(builds, requests, strict=True):
        is_other = build.directory is not None and not f"{build.python}.".startswith(f"{python}.")
        if python and is_other and not re.search(r"\bpython *==", request):
            log.info("%s: made for Python %s, which the other build needs", request, python)
            build = make(f"{request} python=={python}")
        of_one.append(build)
    return of_one


def library_path(libraries: Sequence[str]) -> dict[str, str]:
    """The variable by which the dynamic linker finds these libraries, before whatever the user has there."""
    if not libraries:
        return {}
    folders = dict.fromkeys(str(Path(library).parent) for library in libraries)
    inherited = os.environ.get("LD_LIBRARY_PATH")
    return {"LD_LIBRARY_PATH": os.pathsep.join([*folders, *([inherited] if inherited else [])])}


def warn_of_python(control: Build, treatment: Build) -> None:
    """Say that the two sides run on different Pythons, if they do."""
    if control.python != treatment.python:
        log.warning(
            "the builds have different Pythons (%s, %s), which can cause a difference", control.python, treatment.python
        )
