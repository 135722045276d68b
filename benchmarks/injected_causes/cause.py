"""What a cause is: one passage of the package that the treatment has in another form, and what is true of it.

The truth is what is written here: which part of the call is slower, and which share of the change it has, by
construction. Where a passage also makes slower what comes after it, the share is measured, by the clock alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Language = Literal["C", "Python"]
FILES: Mapping[Language, str] = {"C": "kernels.c", "Python": "package.py"}


@dataclass(frozen=True)
class Truth:
    """A part of the call that the cause is in.

    ``name``: a pattern for what a right sentence names. ``share``: of the change that ``source`` saw, what the parts
    have together that match ``parts`` (default: ``name``), 1 = all; None: it isn't known beforehand. ``reach``: how far
    it may be off, where it was measured.
    """

    name: str
    share: float | None = 1.0
    source: str = "native functions"
    parts: str = ""
    reach: float = 0.0


@dataclass(frozen=True)
class Cause:
    """One thing that the treatment does otherwise: ``edits`` are passages of the control, each there once, and what
    they become. ``operator`` is a function of the package, ``inputs`` its arguments as a spec has them.

    ``clocked``: of a single truth whose share isn't known by construction, what clocked.py runs on either side."""

    name: str
    kind: str
    language: Language
    operator: str
    inputs: Mapping[str, Any]
    edits: Sequence[tuple[str, str]]
    truths: Sequence[Truth] = field(default_factory=tuple)
    clocked: Mapping[str, str] = field(default_factory=dict)


def edited(text: str, edits: Sequence[tuple[str, str]]) -> str:
    """The text with these passages replaced.

    Raises:
        ValueError: a passage isn't there exactly once.
    """
    for before, after in edits:
        if text.count(before) != 1:
            raise ValueError(f"a passage is there {text.count(before)} times, not once: {before!r}")
        text = text.replace(before, after)
    return text


def vector(size: int) -> dict[str, Any]:
    """An argument: random numbers."""
    return {"values": {"call": "numpy.random.rand", "args": [{"value": size}]}}


def integers(count: int) -> dict[str, Any]:
    """An argument: a list of integers."""
    return {"values": {"call": "builtins.list", "args": [{"call": "builtins.range", "args": [{"value": count}]}]}}
