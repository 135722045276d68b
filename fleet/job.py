"""What goes to a host and what comes back: plain data, the same on both ends, and opduel's version with it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opduel import __version__
from opduel.driver.suites.work import CacheOrder
from opduel.fleet.shards import Shard
from opduel.harness.measurement_plan import FirstMeasurement
from opduel.harness.run_request import FindCauses, RunRequest
from opduel.records import Build, Case, RunConfiguration

JOB, REPORT, REFUSAL, ROUNDS, LOG = "job.pickle", "report.json", "refusal.txt", "rounds", "log.txt"  # in its folder
FINISH = b"f"  # said to the process that measures
DISK_FULL = 4  # its exit code when it cannot write what it measured
BUILDS, MODELS = "builds", "models"  # a host's folders of archives, and of files of cases
SLOT = "opduel"  # the resource of which each measuring host has one, so that it measures one shard at a time

KIND_RESOURCE = "opduel kind "  # and then a host's kind (``opduel.fleet.kinds``)


def tag_resource(tag: str) -> str:
    """The resource by which hosts with this tag are known."""
    return f"opduel tag {tag}"


def shard_configuration(request: RunRequest, shard: Shard, hosts: int) -> RunConfiguration:
    """The run's configuration for one of its shards, on one of so many hosts.

    Of the time budget (s) it has what its host may spend on it.  The most rounds are those of the whole run even where
    they follow from thresholds that only cases of other shards have: the looks at all cases have to be the same.
    """
    budget = request.configuration.time_budget
    if budget is not None:
        budget *= min(1.0, shard.share * hosts)
    return request.configured(time_budget=budget, max_rounds=request.max_rounds).configuration


@dataclass(frozen=True)
class SuiteJob:
    """A suite, as the job needs it: an archive of its files is sent, whose digest is ``digest``; they are imported as
    ``package``. ``requirements``: what builds of requirements have for it. ``variables``: those of the workers
    of both sides. ``caches``: every ``setup_cache`` that the job's cases need, to be run on its host."""

    digest: str
    package: str
    requirements: Sequence[str]
    variables: Mapping[str, str]
    caches: Sequence[CacheOrder]


@dataclass(frozen=True)
class Job:
    """One shard, to be measured on one host.

    ``run`` identifies what is measured and how, and which start of it this is or goes on with; ``key`` the shard in it.
    ``control`` and
    ``treatment`` are the client's records of the builds: a host makes its own of what was asked for, and compares the
    digests.  ``elsewhere``: comparisons of the same family on other hosts.  ``kept``: by host, the rounds that it
    measured of this shard, as it sent them.  ``env``: variables of the workers, which may be secrets.  ``sent``: the
    digests of what no host can have by itself, so that it is sent: builds of commits, the suite, files of cases.
    """

    run: str
    key: str
    framework: str
    control: Build
    treatment: Build
    cases: Sequence[Case]
    seed: int
    configuration: RunConfiguration
    labels: Mapping[str, Any]
    elsewhere: int
    suspects_only: bool = False
    first_measurement: FirstMeasurement | None = None
    find_causes: FindCauses | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    kept: Mapping[str, Sequence[str]] = field(default_factory=dict)
    sent: Sequence[str] = ()
    suite: SuiteJob | None = None
    version: str = __version__


@dataclass(frozen=True)
class Answer:
    """What became of a job on a host: ``report``, the document in JSON; ``refusal``, why this host can't measure it, in
    one line; or ``needs``, the digests of what it has to be sent. The report of a host that was asked to
    finish has the cases that were settled; without any there is none of these."""

    host: str
    key: str
    report: bytes | None = None
    refusal: str | None = None
    needs: Sequence[str] = ()
