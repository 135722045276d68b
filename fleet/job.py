"""What goes to a host and what comes back: plain data, the same on both ends, and opduel's version with it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opduel import __version__
from opduel.harness.measurement_plan import FirstMeasurement
from opduel.records import Build, Case, RunConfiguration

JOB, REPORT, REFUSAL, ROUNDS, LOG = "job.pickle", "report.json", "refusal.txt", "rounds", "log.txt"  # in its folder
FINISH = b"f"  # said to the process that measures
DISK_FULL = 4  # its exit code when it cannot write what it measured
BUILDS = "builds"  # a host's folder of archives
SLOT = "opduel"  # the resource of which each measuring host has one, so that it measures one shard at a time


def tag_resource(tag: str) -> str:
    """The resource by which hosts with this tag are known."""
    return f"opduel tag {tag}"


@dataclass(frozen=True)
class Job:
    """One shard, to be measured on one host.

    ``run`` identifies what is measured and how (JSON data in a hash); ``key`` the shard in it.  ``control`` and
    ``treatment`` are the client's records of the builds: a host makes its own of what was asked for, and compares the
    digests.  ``elsewhere``: comparisons of the same family on other hosts.  ``kept``: by host, the rounds that it
    measured of this shard, as it sent them.  ``env``: variables of the workers, which may be secrets.  ``sent``: the
    digests of the builds that no host can make by itself, so that they are sent.
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
    env: Mapping[str, str] = field(default_factory=dict)
    kept: Mapping[str, Sequence[str]] = field(default_factory=dict)
    sent: Sequence[str] = ()
    version: str = __version__


@dataclass(frozen=True)
class Answer:
    """What became of a job on a host: ``report``, the document in JSON; ``refusal``, why this host can't measure it, in
    one line; or ``needs``, the digests of the builds that it has to be sent. The report of a host that was asked to
    finish has the cases that were settled; without any there is none of these."""

    host: str
    key: str
    report: bytes | None = None
    refusal: str | None = None
    needs: Sequence[str] = ()
