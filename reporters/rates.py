"""Achieved rates in words: operations and bytes a second, and how near they come to the host's roofline."""

from collections.abc import Mapping
from typing import Any

from opduel.records import Comparison, Work, achieved, roof


def rates_words(one: Comparison, roofline: Any) -> str:
    """``control 18.2 GFLOP/s, 1.1 GB/s; treatment ...``, or empty if work, time or roofline is unknown.

    ``roofline`` is ``host["roofline"]`` of a report.
    """
    sides = (("control", one.control), ("treatment", one.treatment))
    words = [(side, one_side_words(one.work, value, roofline)) for side, value in sides]
    return "; ".join(f"{side} {said}" for side, said in words if said)


def one_side_words(work: Work | None, nanoseconds: float | None, roofline: Any) -> str:
    """``18.2 GFLOP/s, 1.1 GB/s, 66 % of the roofline`` of a call of that time; empty if unknown."""
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
