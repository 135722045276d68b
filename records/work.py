"""The work that a call must do, and the rate at which it was done, for the roofline."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Work:
    """The work that one call can't do without; null where it is unknown."""

    flop: float | None
    """floating-point operations: an addition or a multiplication is one"""
    bytes: float | None
    """every input read once, every output written once"""
    dtype: str
    """the dtype of the computation"""


@dataclass(frozen=True)
class Achieved:
    """The rates of a call in 10^9 operations and 10^9 bytes a second; None where the work isn't known."""

    gflops: float | None
    gbytes: float | None


def achieved(work: Work, nanoseconds: float) -> Achieved:
    """Return the rates of a call that took ``nanoseconds`` (> 0)."""
    return Achieved(
        None if work.flop is None else work.flop / nanoseconds,
        None if work.bytes is None else work.bytes / nanoseconds,
    )


def roof(work: Work, peak_gflops: float | None, gbytes: float | None) -> float | None:
    """Return the fewest nanoseconds in which a machine with that peak (10^9 operations a second) and memory bandwidth
    (``gbytes``, 10^9 bytes a second) could do the work: the longer of the times for operations and bytes; None if
    neither is known.

    That is the roofline of Williams, Waterman and Patterson (2009), in terms of time.
    """
    bounds = [
        amount / rate
        for amount, rate in ((work.flop, peak_gflops), (work.bytes, gbytes))
        if amount is not None and rate
    ]
    return max(bounds) if bounds else None
