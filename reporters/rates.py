"""Achieved rates in words: operations and bytes a second, and how near they come to the host's roofline."""

from collections.abc import Mapping
from typing import Any

from records import Comparison, achieved, roof


def rates_words(one: Comparison, roofline: Any) -> str:
    """``control 18.2 GFLOP/s, 1.1 GB/s, 66 % of the roof; treatment ...``; empty where work, time or roof isn't known.

    ``roofline`` is ``host["roofline"]`` of a report.
    """
    if one.work is None or not isinstance(roofline, Mapping):
        return ""
    peaks = roofline.get("gflops")
    peak = peaks.get(one.work.dtype) if isinstance(peaks, Mapping) else None
    least_ns = roof(one.work, peak, roofline.get("gbytes"))
    sides = []
    for side, value in (("control", one.control), ("treatment", one.treatment)):
        if not value or least_ns is None:
            continue
        rates = achieved(one.work, value)
        words = [f"{rates.gflops:.3g} GFLOP/s"] if rates.gflops else []
        words += [f"{rates.gbytes:.3g} GB/s"] if rates.gbytes else []
        sides.append(f"{side} {', '.join([*words, f'{least_ns / value:.0%} of the roof'])}")
    return "; ".join(sides)


def roofline_words(roofline: Any) -> str:
    """The host's roofline on one line; empty where it was not measured."""
    if not isinstance(roofline, Mapping):
        return ""
    peaks = roofline.get("gflops") or {}
    words = [f"{peak:.3g} GFLOP/s in {dtype}" for dtype, peak in peaks.items()]
    return ", ".join([*words, f"{roofline.get('gbytes', 0):.3g} GB/s"])
