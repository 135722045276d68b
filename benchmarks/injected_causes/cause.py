"""A cause: a passage of the package that differs in the treatment, and the truth about it.

The truth says which part of the call is slower, and its share of the change, by construction. Where a passage slows
what comes after it, too, the share is measured by the clock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Language = Literal["C", "Python"]
FILES: Mapping[Language, str] = {"C": "kernels.c", "Python": "package.py"}


@dataclass(frozen=True)
class Truth:
    """A part of the call that the cause makes slower.

    ``name``: a pattern for what a right sentence names. ``share``: of the change that ``source`` measures, the part of
    all functions that match ``parts`` (default: ``name``); None: it isn't known. ``reach``: half the interval of a
    share that was measured.
    """

    name: str
    share: float | None = 1.0
    source: str = "native functions"
    parts: str = ""
    reach: float = 0.0


@dataclass(frozen=True)
class Cause:
    """One difference of the treatment: ``edits`` are passages of the control, each of which occurs once, and their
    replacements. ``operator`` is a function of the package, ``inputs`` are its arguments as in a spec.

    ``clocked``: if the share of a single truth isn't known by construction, what clocked.py runs on either side.
    """

    language: Language
    name: str
    operator: str
    inputs: Mapping[str, Any]
    edits: Sequence[tuple[str, str]]
    truths: Sequence[Truth] = field(default_factory=tuple)
    clocked: Mapping[str, str] = field(default_factory=dict)


def apply_edits(text: str, edits: Sequence[tuple[str, str]]) -> str:
    """Return the text with these passages replaced.

    Raises:
        ValueError: a passage doesn't occur exactly once.
    """
    for before, after in edits:
        if text.count(before) != 1:
            raise ValueError(f"a passage occurs {text.count(before)} times, not once: {before!r}")
        text = text.replace(before, after)
    return text


def vector(size: int) -> dict[str, Any]:
    """Return an argument of random numbers."""
    return {"values": {"call": "numpy.random.rand", "args": [{"value": size}]}}


def integers(count: int) -> dict[str, Any]:
    """Return an argument that is a list of integers."""
    return {"values": {"call": "builtins.list", "args": [{"call": "builtins.range", "args": [{"value": count}]}]}}
