"""What a driver's run depends on besides its commits, and where a driver keeps what it needs."""

import json
from pathlib import Path

import platformdirs

from opduel.commands.driver_options import DriverOptions
from opduel.commands.fleet_options import HOST_OPTIONS
from opduel.commands.harness_options import CommitOptions
from opduel.commands.session import Session
from opduel.driver.git.access import is_url
from opduel.reporters import reporter_options
from opduel.support.atomic import path_part
from opduel.support.digests import data_digest
from opduel.support.redaction import bare_address


def run_identity(options: DriverOptions, session: Session, suite: str | None = None) -> str:
    """Return what a run depends on besides its commits: with other options, another spec, or another ``suite`` (its
    identity), it is another run. With another time budget it is the same run, which goes on from its rounds."""
    without_effect = {*reporter_options(), "single", "explain", "prior_runs", "time_budget", *HOST_OPTIONS}
    settings = {name: value for name, value in options.harness.values().items() if name not in without_effect}
    cases = json.dumps([case.measured_by() for case in session.cases], sort_keys=True, default=str)
    own = options.own
    scripts = own.frameworks_dir and own.frameworks_dir.absolute()  # other scripts may make other builds
    identity = [
        settings,
        data_digest(cases),
        own.build,
        own.cmake_args,
        scripts,
        own.with_packages,
        suite,
        own.all_cases,
    ]
    return json.dumps(identity, sort_keys=True, default=str)


def work_directory(own: CommitOptions, session: Session) -> Path:
    """Return the folder of the journal, the repository and the logs: for a work tree one of its own."""
    if own.work_dir is not None:
        return Path(own.work_dir.absolute())
    framework = session.framework
    if own.local is not None and own.repo_dir is not None:
        return (
            platformdirs.user_state_path("opduel")
            / "local"
            / framework.name
            / data_digest(str(own.repo_dir.resolve()))[:12]
        )
    place = platformdirs.user_state_path("opduel") / "driver" / framework.name
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
