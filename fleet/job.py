"""The job that is sent to a host, the host's settings, and its answer: plain data, with opduel's version."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from opduel import __version__
from opduel.driver.suites.work import CacheOrder
from opduel.fleet.shards import Shard
from opduel.harness.run_request import RunRequest
from opduel.records import RunConfiguration

JOB, REPORT, REFUSAL, ROUNDS, LOG = "job.pickle", "report.json", "refusal.txt", "rounds", "log.txt"  # in its folder
FINISH = b"f"  # sent to the measuring process
DISK_FULL = 4  # its exit code when it cannot write what it measured
BUILDS, MODELS = "builds", "models"  # a host's folders of archives, and of files of cases
SLOT = "opduel"  # a Dask resource, one on each measuring host, so that it measures one shard at a time

KIND_RESOURCE = "opduel kind "  # and then a host's kind (``opduel.fleet.kinds``)


def tag_resource(tag: str) -> str:
    """Return the Dask resource of hosts with this tag."""
    return f"opduel tag {tag}"


def shard_configuration(request: RunRequest, shard: Shard, hosts: int) -> RunConfiguration:
    """Return the run's configuration for one of its shards, on one of so many hosts.

    Its time budget (s) is the shard's part. Its most rounds are those of the whole run, because the looks at all cases
    must be the same, even if they follow from thresholds of other shards' cases.
    """
    budget = request.configuration.time_budget
    if budget is not None:
        budget *= min(1.0, shard.share * hosts)
    return request.configured(time_budget=budget, max_rounds=request.max_rounds).configuration


@dataclass(frozen=True)
class HostSettings:
    """A measuring host: its name, its folders of shards and of builds (None: the user's cache), the processors that it
    may use (None: all), and the command before each shard with its time limit in seconds."""

    name: str
    folder: Path
    exec_dir: Path | None = None
    cpus: frozenset[int] | None = None
    before_run: str | None = None
    before_run_timeout: float = 600.0


@dataclass(frozen=True)
class SuiteJob:
    """A suite's part of a job: the ``digest`` of the archive of its files, which are imported as ``package``;
    ``requirements`` that builds need for it; ``variables`` of the workers on both sides; ``caches``, each
    ``setup_cache`` that the job's cases need, which its host runs; and ``parts``, as of a suite."""

    digest: str
    package: str
    requirements: Sequence[str]
    variables: Mapping[str, str]
    caches: Sequence[CacheOrder]
    parts: Sequence[str] = ()


@dataclass(frozen=True)
class Job:
    """One shard, to be measured on one host.

    ``run`` identifies the run and its first start, ``key`` the shard. ``request`` has the shard's cases, and the
    client's records of the builds: a host makes its own builds, and compares the digests. ``rounds_by_host`` are the
    rounds that hosts have sent of this shard. ``sent`` are the digests of archives that the client sends: builds of
    commits, the suite, files of cases.
    """

    run: str
    key: str
    request: RunRequest
    rounds_by_host: Mapping[str, Sequence[str]] = field(default_factory=dict)
    sent: Sequence[str] = ()
    suite: SuiteJob | None = None
    version: str = __version__


@dataclass(frozen=True)
class Answer:
    """A host's answer to a job: ``report``, the document in JSON; ``refusal``, one line why this host can't measure it;
    or ``needs``, the digests of the archives that it lacks. If the host was asked to finish, the report has the settled
    cases; without any, the answer has none of the three."""

    host: str
    report: bytes | None = None
    refusal: str | None = None
    needs: Sequence[str] = ()
