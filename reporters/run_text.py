"""A run in words, for screens and pages: builds, host, what disturbed it, how it was decided."""

import math
from collections.abc import Mapping
from typing import Any, TypeGuard

from opduel.records import SAMPLED, Build, Failure, Report
from opduel.reporters.units import human_duration, human_share, human_size

_BUSY = 0.05  # share of the CPUs that others took, from which on it is said


def build_text(build: Build) -> str:
    """``PACKAGE==1.9.1 (PACKAGE 1.9.1, Python 3.11.7) digest 0343360f866f``."""
    words = f"{build.requested} ({build.framework} {build.version}, Python {build.python})"
    return f"{words} digest {build.digest[:12]}" if build.digest else words


def host_text(host: Mapping[str, Any]) -> str:
    """CPU, memory, kernel."""
    cpus, memory = host.get("logical_cpus"), host.get("memory_total")
    words = [
        str(host.get("cpu_model") or "unknown CPU"),
        f"{cpus} CPUs" if cpus else "",
        human_size(memory) if is_number(memory) else "",
        str(host.get("kernel") or ""),
        "virtual machine" if host.get("hypervisor") else "",
    ]
    return ", ".join(word for word in words if word)


def disturbance_text(host: Mapping[str, Any]) -> str:
    """A warning when, on average over the run, others took a noticeable share of the CPUs; else nothing."""
    words = []
    for key, who in (("other_cpu", "other processes"), ("steal", "the hypervisor")):
        during = host.get("during")
        measured = during.get(key) if isinstance(during, Mapping) else None
        share = measured.get("mean") if isinstance(measured, Mapping) else None
        if is_number(share) and share >= _BUSY:
            words.append(f"{who} took {human_share(share)} of the CPUs")
    return ", ".join(words)


def effort_text(report: Report) -> str:
    """Threshold, error rate, seed, rounds and time."""
    run = report.run
    thresholds = sorted({one.threshold for one in report.comparisons if one.metric in SAMPLED})
    rounds, seconds = run.get("rounds"), run.get("wall_s")
    words = [
        f"threshold {' to '.join(human_share(one) for one in thresholds[:1] + thresholds[1:][-1:])}"
        if thresholds
        else "",
        f"alpha {run['alpha']:g}" if is_number(run.get("alpha")) else "",
        f"seed {run['seed']}" if run.get("seed") is not None else "",
        f"{rounds} rounds" if is_number(rounds) else "",
        human_duration(seconds) if is_number(seconds) else "",
    ]
    return ", ".join(word for word in words if word)


def incidents(report: Report) -> list[tuple[str, Failure, str]]:
    """What went wrong in mid-run: where, how, and what became of it."""
    told = []
    found = report.run.get("incidents")
    for one in found if isinstance(found, list | tuple) else []:
        if not isinstance(one, Mapping):
            continue
        known = one.get("failure")
        known = known if isinstance(known, Mapping) else {}
        failure = Failure(
            side=known.get("side", "both"),
            kind=str(known.get("kind", "unknown")),
            reason=str(known.get("reason", "")),
            output_tail=str(known.get("output_tail") or ""),
        )
        where = f"round {one.get('round')}, {one.get('case_id') or 'starting up'}"
        told.append((where, failure, str(one.get("consequence") or "")))
    return told


def is_number(value: Any) -> TypeGuard[float]:
    """Whether ``value``, from a run's plain data, is a finite number; True and False are none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
