"""A run in words, for screens and pages: builds, host, what disturbed it, how it was decided, achieved rates."""

import math
from collections import Counter
from typing import Any, TypeGuard

from opduel.records import (
    SAMPLED,
    Build,
    Comparison,
    Failure,
    HostRecord,
    Report,
    RunConfiguration,
    Work,
    achieved,
    roof,
)
from opduel.records.build import differing_packages
from opduel.records.host_record import RooflineRecord
from opduel.records.run_record import SuiteRecord
from opduel.reporters.text import printable
from opduel.reporters.units import human_share, human_size
from opduel.support.text import counted, duration

_BUSY = 0.05  # share of the CPUs that others took, from which on it is said
_MOST_PACKAGES = 3  # that differ: the page has all of them


def build_text(build: Build) -> str:
    """Return ``PACKAGE==1.9.1 (PACKAGE 1.9.1, Python 3.11.7)``."""
    described = f"Python {build.python}" if build.name != build.requested else build.description
    return f"{printable(build.name)} ({described})"


def suite_text(suite: SuiteRecord | None) -> str:
    """Return the version of a suite: ``commit 2d4b0a6a1c3f, with changes, digest 0343360f866f``; empty without a
    suite."""
    if suite is None:
        return ""
    commit = f"commit {suite.commit[:12]}" if suite.commit else ""
    changed = "with changes" if suite.dirty else ""
    return ", ".join(word for word in (commit, changed, f"digest {suite.digest[:12]}") if word)


def differences_text(control: Build, treatment: Build) -> str:
    """Return what differs between the sides beside the requested builds: ``numpy 1.26.4 and 2.2.6``; empty if
    nothing does, or if the sides have different frameworks."""
    if control.framework != treatment.framework:
        return ""
    differences = differing_packages(control, treatment)
    words = [f"{name} {first} and {second}" for name, (first, second) in differences.items()]
    more = [f"{len(words) - _MOST_PACKAGES} more"] if len(words) > _MOST_PACKAGES else []
    return ", ".join([*words[:_MOST_PACKAGES], *more])


def frameworks_text(control: Build, treatment: Build) -> str:
    """Return what verdicts mean if the sides have different frameworks, where nothing regresses from one commit to
    another; empty if both have the same."""
    if control.framework == treatment.framework:
        return ""
    return f"regressed: {treatment.framework} is slower than {control.framework}, or differs"


def platform_text(report: Report) -> str:
    """Return what the builds were made for; empty for the usual, which is this host."""
    platform = report.configuration.platform
    return "" if platform == RunConfiguration.platform else platform


def failure_text(failure: Failure) -> str:
    """Return ``treatment: crash: the worker died of SIGSEGV``."""
    return f"{failure.side}: {failure.kind}: {failure.reason}"


def certainty(alpha: float | None) -> str:
    """Return how sure an interval is, which holds whenever the run looks at it: ``, at least 95 % sure``."""
    return f", at least {100 * (1 - alpha):g} % sure" if alpha and 0 < alpha < 1 else ""


def interval_words(alpha: float | None) -> str:
    """Return what the columns of intervals and minimum detectable effects say."""
    sure = certainty(alpha)
    return f"interval: where the true change lies, in %{sure}; mde: the smallest change that this many rounds can show"


def host_text(host: HostRecord) -> str:
    """Return CPU, GPUs, memory and kernel of a host."""
    words = [
        host.cpu_model or "unknown CPU",
        counted(host.logical_cpus, "CPU") if host.logical_cpus else "",
        *(f"{count} × {model}" if count > 1 else model for model, count in Counter(host.gpus).items()),
        "" if host.memory_total is None else human_size(host.memory_total),
        host.kernel or "",
        "virtual machine" if host.hypervisor else "",
    ]
    return ", ".join(filter(None, words))


def hosts_text(report: Report) -> str:
    """Return the hosts of a fleet: ``bench-1 24 cases, bench-2 20 cases (disturbed)``; empty for a run on one host."""
    hosts = report.run.fleet.hosts if report.run.fleet else ()
    return ", ".join(
        f"{host.name} {counted(host.cases, 'case')}{' (disturbed)' if host.valid is False else ''}"
        for host in hosts
        if host.name
    )


def disturbance_text(report: Report) -> str:
    """Return a warning if others took a noticeable share of the CPUs, on average over the run; empty where they didn't,
    or the run's validity says what disturbed it."""
    noise = None if report.run.validity.reasons else report.host.during
    shares = ((noise.other_cpu, "other processes"), (noise.steal, "the hypervisor")) if noise else ()
    words = [
        f"{who} took {human_share(share.mean)} of the CPUs" for share, who in shares if share and share.mean >= _BUSY
    ]
    return ", ".join(words)


def effort_text(report: Report) -> str:
    """Return threshold, error rate, seed, threads, rounds and time."""
    run = report.run
    thresholds = sorted({comparison.threshold for comparison in report.comparisons if comparison.metric in SAMPLED})
    words = [
        f"threshold {' to '.join(human_share(threshold) for threshold in thresholds[:1] + thresholds[1:][-1:])}"
        if thresholds
        else "",
        f"false discovery rate {100 * report.configuration.alpha:g} %",
        f"seed {run.seed}" if run.seed is not None else "",
        threads_text(report),
        "" if run.rounds is None else counted(run.rounds, "round"),
        "" if run.wall_s is None else duration(run.wall_s),
    ]
    return ", ".join(filter(None, words))


def threads_text(report: Report) -> str:
    """Return the number of threads, and whether cases were measured in forks; empty for one thread."""
    threads, forks = report.configuration.threads, report.run.forks
    if threads == 1:
        return ""
    ways = []
    if forks and forks.forked:
        ways.append(f"{counted(forks.forked, 'case')} in forks")
    if forks and forks.alone:
        why = f": {forks.reason}" if forks.reason else ""
        ways.append(f"{counted(forks.alone, 'case')}, each in a process pair of its own{why}")
    return f"{threads} threads" + (f" ({'; '.join(ways)})" if ways else "")


def incidents(report: Report) -> list[tuple[str, Failure, str]]:
    """Return the incidents of the run: where, the failure, and the consequence."""
    return [
        (f"round {incident.round}, {incident.case_id or 'starting up'}", incident.failure, incident.consequence)
        for incident in report.run.incidents
    ]


def is_number(value: Any) -> TypeGuard[float]:
    """Return whether ``value``, from a run's plain data, is a finite number, and not a bool."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def rates_words(comparison: Comparison, roofline: RooflineRecord | None) -> str:
    """Return ``control 18.2 GFLOP/s, 1.1 GB/s, 66 % of the roofline; treatment ...``; empty if something is unknown.

    ``roofline`` is that of the report's host: operations and bytes a second are compared with it.
    """
    sides = (("control", comparison.control), ("treatment", comparison.treatment))
    words = [(side, one_side_words(comparison.work, value, roofline)) for side, value in sides]
    return "; ".join(f"{side} {words_of_side}" for side, words_of_side in words if words_of_side)


def one_side_words(work: Work | None, nanoseconds: float | None, roofline: RooflineRecord | None) -> str:
    """Return ``18.2 GFLOP/s, 1.1 GB/s, 66 % of the roofline`` of a call of that time; empty if something is unknown."""
    if work is None or not nanoseconds or roofline is None:
        return ""
    least_ns = roof(work, roofline.gflops.get(work.dtype), roofline.gbytes)
    if least_ns is None:
        return ""
    rates = achieved(work, nanoseconds)
    words = [f"{rates.gflops:.3g} GFLOP/s"] if rates.gflops else []
    words += [f"{rates.gbytes:.3g} GB/s"] if rates.gbytes else []
    return ", ".join([*words, f"{100 * least_ns / nanoseconds:.0f} % of the roofline"])


def roofline_words(roofline: RooflineRecord | None) -> str:
    """Return the host's roofline on one line; empty if it was not measured."""
    if roofline is None:
        return ""
    words = [f"{peak:.3g} GFLOP/s in {dtype}" for dtype, peak in roofline.gflops.items()]
    return ", ".join([*words, f"{roofline.gbytes or 0:.3g} GB/s"])
