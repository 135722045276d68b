"""--fleet: a run on many hosts; and ``opduel fleet``, the parts that these hosts run."""

import os
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from opduel.commands.entry import DONE, log
from opduel.commands.fleet_options import FleetPart, default_certificates
from opduel.commands.harness_options import HarnessOptions
from opduel.commands.option_rules import refuse_options
from opduel.driver.suites.elsewhere import ChosenSuite
from opduel.fleet.address import FleetChoice, parse_address, require_bokeh
from opduel.fleet.frequency import frequency_set
from opduel.harness.measurement_plan import Progress
from opduel.harness.run import run_ab
from opduel.harness.run_request import RunRequest
from opduel.records import Report, RunError, UsageError
from opduel.records.case import KIND_NAME
from opduel.support.atomic import path_part

NEEDS_EXTRA = "needs the extra fleet: install it with pip install 'opduel[fleet]'"
AHEAD = -1_000_000  # the priority of what is measured ahead
EACH_RANK = 10_000  # more than a run has shards, each of which has a priority of its own

Measure = Callable[[RunRequest, Callable[[Progress], None]], Report]


def fleet_choice(options: HarnessOptions) -> FleetChoice | None:
    """Return the fleet that is asked for; None without ``--fleet``. UsageError: options that don't go together."""
    if options.fleet is None:
        refuse_options(options, "no fleet")
        _platforms(options)
        return None
    refuse_options(options, "a fleet")
    return FleetChoice(
        parse_address(options.fleet),
        options.fleet_certificates or default_certificates(),
        options.fleet_timeout,
        options.fleet_tag,
        options.devices,
        options.excluded_devices,
        across=options.across is not None,
        platforms=_platforms(options),
        silence_s=options.fleet_silence,
    )


def _platforms(options: HarnessOptions) -> tuple[str, ...]:
    """Return the platforms that are measured each by itself; none where there is only one. UsageError: they can't
    be."""
    text = str(options.platform)
    names = tuple(name.strip() for name in text.split(","))
    if len(names) < 2:
        return ()
    if options.fleet is None:
        raise UsageError(f"--platforms {text}: this host is one platform: give one name, or add --fleet ADDRESS")
    if options.across is not None:
        raise UsageError(f"--platforms {text}: are kinds of hosts by tag, and --across by what they are: leave one out")
    for name in names:
        if not KIND_NAME.fullmatch(name):
            raise UsageError(
                f"--platforms {text}: {name!r} is no tag of a host: give names of letters, digits and ._+-, each once"
            )
    if len(set(names)) < len(names):
        raise UsageError(f"--platforms {text}: give each name once")
    return names


def measurer(options: HarnessOptions, rank: int | None = None, suite: ChosenSuite | None = None) -> Measure:
    """Return the function that measures: on this host, or on the fleet that the options name.

    ``rank``: of what is measured ahead, the lowest first; all of it after what is needed now (None). ``suite``: the one
    that the cases are of. UsageError: as ``fleet_choice``, or the extra is not installed.
    """
    choice = fleet_choice(options)
    if choice is None:
        return run_ab
    if rank is not None:
        choice = replace(choice, priority=AHEAD - rank * EACH_RANK)
    try:
        from opduel.fleet.across import run_across  # Dask is an extra, and takes a second to load
        from opduel.fleet.client import run_fleet
    except ImportError:
        raise UsageError(f"--fleet: {NEEDS_EXTRA}") from None

    def measure(request: RunRequest, on_progress: Callable[[Progress], None]) -> Report:
        return (run_across if choice.each_kind else run_fleet)(request, choice, on_progress, suite)

    return measure


def count_hosts(options: HarnessOptions) -> int:
    """Return how many hosts would measure now: 1 without a fleet, or if its scheduler doesn't answer."""
    choice = fleet_choice(options)
    if choice is None:
        return 1
    if choice.address.workers is not None and not (choice.tags or choice.hosts or choice.excluded):
        return choice.address.workers  # which are started when something is measured
    from opduel.fleet.hosts import wait_for_hosts  # measurer() has said what is missing
    from opduel.fleet.service import connect

    try:
        with connect(choice) as client:
            return len(wait_for_hosts(client, choice))
    except RunError as error:  # whoever measures next says so
        log.debug("%s", error)
        return 1


def run_fleet_command(options: FleetPart) -> int:
    """Run ``opduel fleet``; return the exit code, or raise an OpduelError that has it."""
    try:
        from opduel.fleet import security, service  # Dask is an extra
        from opduel.fleet.job import HostSettings
    except ImportError:
        raise UsageError(f"opduel fleet {NEEDS_EXTRA}") from None
    if options.do == "certificates":
        assert options.folder is not None
        for written in security.make_certificates(options.folder, options.days):
            print(written)
        return DONE
    address = parse_address(options.address, "ADDRESS")
    if address.workers is not None:
        raise UsageError(f"ADDRESS {address.text}: give the scheduler's, such as tls://HOST:8786")
    folder = options.certificates or default_certificates()
    secured = security.security_of(folder, "--certificates") if address.is_encrypted else None
    if options.do == "scheduler":
        if options.dashboard is not None:
            require_bokeh()
        service.run_scheduler(address, secured, options.dashboard)
        return DONE
    name = options.name or service.own_name()
    place = _writable(options.folder or service.default_folder() / path_part(name))  # hosts may share a home folder
    settings = HostSettings(name, place, options.exec_dir, None, options.before_run, options.before_run_timeout)
    own_tags = [*([] if options.set_freq is None else [f"freq-{options.set_freq}"]), *(options.tag or ())]
    tags = tuple(dict.fromkeys([*service.host_tags(), *own_tags]))
    with nullcontext() if options.set_freq is None else frequency_set(options.set_freq):
        service.run_worker(address, settings, tags, secured)
    return DONE


def _writable(folder: Path) -> Path:
    """Make ``--folder`` if it is not there, and return it. UsageError: it can't be made."""
    place = folder.absolute()
    try:
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise UsageError(f"--folder {place}: cannot be made ({error.strerror}): give another") from None
    if not os.access(place, os.W_OK):
        raise UsageError(f"--folder {place}: cannot be written: give another")
    return place
