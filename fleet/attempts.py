"""One attempt to have a shard measured by a host: the job that is sent, its state, and why it is given up."""

import time
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from distributed import Future, KilledWorker

from opduel.fleet.archives import Archives
from opduel.fleet.job import Job, shard_configuration
from opduel.fleet.merge import count_attempts
from opduel.fleet.run_log import LoggedRun
from opduel.fleet.shards import Shard
from opduel.frameworks import get_framework
from opduel.harness.run_request import RunRequest
from opduel.records import SAMPLED
from opduel.support.text import one_line

FINISH_S = 60.0  # for a host that was asked to finish


@dataclass
class Attempt:
    """A shard that was submitted. Times are of the monotonic clock, in seconds.

    ``number`` counts the attempts, from 1. ``workers`` are the addresses that may take it (None: all), and ``host`` is
    the name of the host that has begun with it. ``samples`` came from there since ``measuring_since``;
    ``heard_at`` is when the host last sent anything, and ``asked_to_finish`` when it was asked to.
    """

    shard: Shard
    key: str
    number: int
    workers: list[str] | None = None
    host: str | None = None
    measuring_since: float = field(default_factory=time.monotonic)
    heard_at: float = field(default_factory=time.monotonic)
    samples: int = 0
    asked_to_finish: float | None = None

    def reason_to_give_up(self, eligible: Collection[str], silence_s: float) -> str:
        """Return why the attempt is to be given up, though its host has not answered; empty if it is not.
        ``eligible``: the addresses of hosts that may measure."""
        now = time.monotonic()
        if self.host is None:
            hosts_have_gone = self.workers is not None and not set(self.workers) & set(eligible)
            return f"the hosts that shard {self.shard.number} was for have gone" if hosts_have_gone else ""
        if now - self.heard_at > silence_s:
            return f"{self.host} has said nothing for {now - self.heard_at:.0f} s"
        if self.asked_to_finish is not None and now - self.asked_to_finish > FINISH_S:
            return f"{self.host} does not finish: all of shard {self.shard.number} is measured elsewhere"
        return ""


def make_job(
    request: RunRequest, shard: Shard, key: str, logged: LoggedRun, folder: str, archives: Archives, hosts: int
) -> Job:
    """Return the job that measures a shard on one of so many hosts; ``folder`` names the run's folder there."""
    first = request.first_measurement
    failed = first.failed if first else frozenset()
    own = {case.id for case in shard.cases}
    other_cases = [case for case in request.cases if case.metric in SAMPLED and case.id not in own | failed]
    # The count of a shard of moved cases must not change later, or a resumed run could not use its rounds.
    moved = count_attempts(request, logged.moved.get(key, 0))
    own_request = replace(
        request,
        framework=get_framework(request.framework.name),  # a host equips it for itself
        cases=shard.cases,
        configuration=shard_configuration(request, shard, hosts),
        log=None,
        is_awaited=False,
        prior_runs=None,
        callgrind=None,
        other_comparisons=len(other_cases) + request.other_comparisons + moved,
    )
    rounds_by_host, suite = logged.rounds.get(key, {}), archives.suite_for(shard.cases)
    return Job(folder, key, own_request, rounds_by_host, archives.needed_by(shard.cases), suite)


def reason_of_loss(future: Future, shard: Shard) -> str:
    """Return in one line why a shard came back neither measured nor refused."""
    error = future.exception() if future.status == "error" else None
    if isinstance(error, KilledWorker):
        return f"shard {shard.number}: every worker that had it died"
    return one_line(str(error)) if error else f"shard {shard.number}: the scheduler lost it; submitted again"
