"""What a format makes of a report: its text, and what it has no place for."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Rendered:
    """A report in some format. ``left_out`` says in words which cases the format can't hold; empty if it holds all."""

    text: str
    left_out: str = ""


def counted(reasons: Iterable[str]) -> str:
    """``3 failed, 1 without samples``: how many cases were left out for which reason, the most frequent first."""
    return ", ".join(f"{count} {reason}" for reason, count in Counter(reasons).most_common())
