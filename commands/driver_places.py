"""What a driver's run depends on besides its commits, how it builds these, and where it keeps what it needs."""

import json
import os
import shlex
from pathlib import Path

import platformdirs

from opduel.commands.driver_options import GIB, USUAL_PLATFORM, DriverOptions
from opduel.commands.fleet_options import HOST_OPTIONS
from opduel.commands.harness_options import CommitOptions
from opduel.commands.local import package_folder
from opduel.commands.session import Session
from opduel.commands.suite_selection import SuiteSelection
from opduel.driver.builds.builder import BuildSettings
from opduel.driver.builds.builders import platform_of
from opduel.driver.builds.compiler import Limits
from opduel.driver.builds.requirements import requirements_of
from opduel.driver.git.access import is_url
from opduel.driver.suites.configuration import SuiteConfiguration
from opduel.frameworks import Framework
from opduel.records import UsageError
from opduel.reporters.options import OPTION_BY_NAME
from opduel.support.atomic import path_part
from opduel.support.digests import data_digest
from opduel.support.redaction import bare_address


def run_identity(options: DriverOptions, session: Session, suite: str | None = None) -> str:
    """Return what a run depends on besides its commits: with other options, another spec, or another ``suite`` (its
    identity), it is another run. With another time budget it is the same run, which goes on from its rounds."""
    without_effect = {*OPTION_BY_NAME, "single", "explain", "prior_runs", "time_budget", *HOST_OPTIONS}
    settings = {name: value for name, value in options.harness.values().items() if name not in without_effect}
    cases = json.dumps([case.measured_by() for case in session.cases], sort_keys=True, default=str)
    own = options.own
    scripts = own.frameworks_dir and own.frameworks_dir.absolute()  # other scripts may make other builds
    builds = [own.build, own.cmake_args, scripts, own.with_packages]
    return json.dumps([settings, data_digest(cases), *builds, suite, own.all_cases], sort_keys=True, default=str)


def work_directory(own: CommitOptions, session: Session) -> Path:
    """Return the folder of the journal, the repository and the logs: for a work tree one of its own."""
    if own.work_dir is not None:
        return Path(own.work_dir.absolute())
    framework, state = session.framework, platformdirs.user_state_path("opduel")
    if own.local is not None and own.repo_dir is not None:
        return state / "local" / framework.name / data_digest(str(own.repo_dir.resolve()))[:12]
    place = state / "driver" / framework.name
    if not framework.builds.has_repository and not (own.bisect_releases or own.packages):
        address = _address_of_repository(own)
        name = Path(bare_address(address).rstrip("/")).name.removesuffix(".git")
        place = place / f"{path_part(name)}-{data_digest(address)[:8]}"
    return place


def _address_of_repository(own: CommitOptions) -> str:
    """Return where commits come from, whatever folder the driver is started in; with ``--repo_dir``,
    ``--remote_repository`` is only the name of one of its remotes."""
    if own.repo_dir is not None:
        return str(own.repo_dir.resolve())
    remote = str(own.remote_repository or "")
    return remote if not remote or is_url(remote) else str(Path(remote).expanduser().resolve())


def build_settings(own: CommitOptions, session: Session, suite: SuiteSelection | None) -> BuildSettings:
    """Return how the driver builds commits. UsageError: several platforms, of which one has a build script."""
    framework, options = session.framework, session.options
    configuration = suite.suite.configuration if suite else SuiteConfiguration()
    return BuildSettings(
        Limits(own.build_timeout, int(own.min_free * GIB), jobs=len(os.sched_getaffinity(0))),
        strategy=own.build,
        platform=build_platform(own, framework),
        flags=tuple(shlex.split(own.cmake_args)),
        beside=requirements_of(own.with_packages) or () if own.with_packages else (),
        sdists=options.allow_sdist,
        program=options.build_program,
        subfolder=configuration.subfolder or package_folder(own, framework),
        variables=configuration.build_variables,
    )


def build_platform(own: CommitOptions, framework: Framework) -> str:
    """Whose build script builds commits: several platforms share their builds, which the usual script makes.

    UsageError: one of several has a script of its own, so that its builds would be others.
    """
    names = [name.strip() for name in own.platforms.split(",")]
    for name in names if len(names) > 1 else ():
        if name == USUAL_PLATFORM:
            continue
        try:
            script = platform_of(framework, name).script
        except UsageError:
            continue
        raise UsageError(
            f"--platforms {own.platforms}: {name} has a build script of its own ({script}), and one build is made for "
            f"all platforms: drive it by itself, with --platforms {name}"
        )
    return names[0] if len(names) == 1 else USUAL_PLATFORM
