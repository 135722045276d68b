"""A run in words, for screens and pages: builds, host, what disturbed it, how it was decided, achieved rates."""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, TypeGuard

from opduel.records import SAMPLED, Build, Commit, Comparison, Failure, HostRecord, Report, Work, achieved, roof
from opduel.records.build import differing_packages
from opduel.records.run_record import SuiteRecord
from opduel.reporters.units import human_duration, human_share, human_size

_BUSY = 0.05  # share of the CPUs that others took, from which on it is said
_MOST_PACKAGES = 3  # that differ: the page has all of them


def build_text(build: Build) -> str:
    """``PACKAGE==1.9.1 (PACKAGE 1.9.1, Python 3.11.7) digest 0343360f866f``."""
    words = f"{build.requested} ({build.description})"
    return f"{words} digest {build.digest[:12]}" if build.digest else words


def suite_text(suite: SuiteRecord | None) -> str:
    """``commit 2d4b0a6a1c3f, with changes, digest 0343360f866f``: which version of a suite was run; empty without."""
    if suite is None:
        return ""
    commit = f"commit {suite.commit[:12]}" if suite.commit else ""
    changed = "with changes" if suite.dirty else ""
    return ", ".join(word for word in (commit, changed, f"digest {suite.digest[:12]}") if word)


def differences_text(control: Build, treatment: Build) -> str:
    """``numpy 1.26.4 and 2.2.6``: what else differs between the sides than what was asked for; empty if nothing, and
    where the sides have different frameworks."""
    if control.framework != treatment.framework:
        return ""
    found = differing_packages(control, treatment)
    words = [f"{name} {first} and {second}" for name, (first, second) in found.items()]
    more = [f"{len(words) - _MOST_PACKAGES} more"] if len(words) > _MOST_PACKAGES else []
    return ", ".join([*words[:_MOST_PACKAGES], *more])


def frameworks_text(control: Build, treatment: Build) -> str:
    """What verdicts say where the sides have different frameworks: nothing there has regressed from one commit to
    another; empty where both have the same."""
    if control.framework == treatment.framework:
        return ""
    return f"regressed: {treatment.framework} is slower than {control.framework}, or differs"


def failure_text(failure: Failure) -> str:
    """``treatment: crash: the worker died of SIGSEGV``."""
    return f"{failure.side}: {failure.kind}: {failure.reason}"


def confidence_text(alpha: float | None, what: str) -> str:
    """``95 % CI``; without the confidence where that is not known. ``what`` is the interval's name."""
    return f"{100 * (1 - alpha):g} % {what}" if alpha and 0 < alpha < 1 else what


def commit_moment(commit: Commit) -> str | None:
    """When it was made; None where that is no year of ours, as a foreign report may have it."""
    try:
        return commit.moment
    except (OverflowError, OSError, ValueError):
        return None


def host_text(host: HostRecord) -> str:
    """CPU, GPUs, memory, kernel."""
    words = [
        host.cpu_model or "unknown CPU",
        f"{host.logical_cpus} CPUs" if host.logical_cpus else "",
        *(f"{count} × {model}" if count > 1 else model for model, count in Counter(host.gpus).items()),
        "" if host.memory_total is None else human_size(host.memory_total),
        host.kernel or "",
        "virtual machine" if host.hypervisor else "",
    ]
    return ", ".join(word for word in words if word)


def hosts_text(report: Report) -> str:
    """``bench-1 24 cases, bench-2 20 cases (disturbed)``: the hosts of a fleet; empty for a run on one host."""
    hosts = report.run.fleet.hosts if report.run.fleet else ()
    return ", ".join(
        f"{one.name} {one.cases} cases{' (disturbed)' if one.valid is False else ''}" for one in hosts if one.name
    )


def disturbance_text(host: HostRecord) -> str:
    """A warning when, on average over the run, others took a noticeable share of the CPUs; else nothing."""
    noise = host.during
    shares = ((noise.other_cpu.mean, "other processes"), (noise.steal.mean, "the hypervisor"))
    words = [f"{who} took {human_share(share)} of the CPUs" for share, who in shares if share and share >= _BUSY]
    return ", ".join(words)


def effort_text(report: Report) -> str:
    """Threshold, error rate, seed, threads, rounds and time."""
    run = report.run
    thresholds = sorted({one.threshold for one in report.comparisons if one.metric in SAMPLED})
    words = [
        f"threshold {' to '.join(human_share(one) for one in thresholds[:1] + thresholds[1:][-1:])}"
        if thresholds
        else "",
        f"alpha {report.configuration.alpha:g}",
        f"seed {run.seed}" if run.seed is not None else "",
        threads_text(report),
        "" if run.rounds is None else f"{run.rounds} rounds",
        "" if run.wall_s is None else human_duration(run.wall_s),
    ]
    return ", ".join(word for word in words if word)


def threads_text(report: Report) -> str:
    """How many threads compute, and whether cases were measured in forks then; empty for one thread."""
    threads, forks = report.configuration.threads, report.run.forks
    if threads == 1:
        return ""
    ways = []
    if forks and forks.forked:
        ways.append(f"{forks.forked} cases in forks")
    if forks and forks.alone:
        why = f": {forks.reason}" if forks.reason else ""
        ways.append(f"{forks.alone} cases each in a process pair of its own{why}")
    return f"{threads} threads" + (f" ({'; '.join(ways)})" if ways else "")


def incidents(report: Report) -> list[tuple[str, Failure, str]]:
    """What went wrong in mid-run: where, how, and what became of it."""
    return [
        (
            f"round {one.round}, {one.case_id or 'starting up'}",
            Failure(one.failure.side, one.failure.kind, one.failure.reason, one.failure.output_tail),
            one.consequence,
        )
        for one in report.run.incidents
    ]


def is_number(value: Any) -> TypeGuard[float]:
    """Whether ``value``, from a run's plain data, is a finite number; True and False are none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def rates_words(one: Comparison, roofline: Any) -> str:
    """``control 18.2 GFLOP/s, 1.1 GB/s, 66 % of the roofline; treatment ...``; empty if something is unknown.

    ``roofline`` is ``host["roofline"]`` of a report: operations and bytes a second are compared with it.
    """
    sides = (("control", one.control), ("treatment", one.treatment))
    words = [(side, one_side_words(one.work, value, roofline)) for side, value in sides]
    return "; ".join(f"{side} {said}" for side, said in words if said)


def one_side_words(work: Work | None, nanoseconds: float | None, roofline: Any) -> str:
    """``18.2 GFLOP/s, 1.1 GB/s, 66 % of the roofline`` of a call of that time; empty if something is unknown."""
    if work is None or not nanoseconds or not isinstance(roofline, Mapping):
        return ""
    peaks = roofline.get("gflops")
    peak = peaks.get(work.dtype) if isinstance(peaks, Mapping) else None
    least_ns = roof(work, peak, roofline.get("gbytes"))
    if least_ns is None:
        return ""
    rates = achieved(work, nanoseconds)
    words = [f"{rates.gflops:.3g} GFLOP/s"] if rates.gflops else []
    words += [f"{rates.gbytes:.3g} GB/s"] if rates.gbytes else []
    return ", ".join([*words, f"{least_ns / nanoseconds:.0%} of the roofline"])


def roofline_words(roofline: Any) -> str:
    """The host's roofline on one line; empty where it was not measured."""
    if not isinstance(roofline, Mapping):
        return ""
    peaks = roofline.get("gflops") or {}
    words = [f"{peak:.3g} GFLOP/s in {dtype}" for dtype, peak in peaks.items()]
    return ", ".join([*words, f"{roofline.get('gbytes', 0):.3g} GB/s"])
