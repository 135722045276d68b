"""A cause: a passage of the package that differs in the treatment, and the truth about it; causes.yaml has them all.

The truth says which part of the call is slower, and its share of the change, by construction.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

HERE = Path(__file__).resolve().parent
Language = Literal["C", "Python"]
FILES: Mapping[Language, str] = {"C": "kernels.c", "Python": "package.py"}
SOURCES: Mapping[Language, str] = {"C": "native functions", "Python": "Python functions"}


@dataclass(frozen=True)
class Truth:
    """A part of the call that the cause makes slower.

    ``name``: a pattern for what a right sentence names. ``share``: of the change that ``source`` measures, the part of
    all functions that match ``parts`` (default: ``name``); None: it isn't known.
    """

    name: str
    source: str
    share: float | None = 1.0
    parts: str = ""


@dataclass(frozen=True)
class Cause:
    """One difference of the treatment: ``edits`` are passages of the control, each of which occurs once (``before``),
    and their replacements (``after``). ``operator`` is a function of the package, ``inputs`` are its arguments as in a
    spec."""

    language: Language
    name: str
    operator: str
    inputs: Mapping[str, Any]
    edits: Sequence[Mapping[str, str]]
    truths: Sequence[Truth]

    def apply(self, text: str) -> str:
        """Return the text with its passages replaced.

        Raises:
            ValueError: a passage doesn't occur exactly once.
        """
        for edit in self.edits:
            if text.count(edit["before"]) != 1:
                raise ValueError(f"a passage occurs {text.count(edit['before'])} times, not once: {edit['before']!r}")
            text = text.replace(edit["before"], edit["after"])
        return text


def read_causes() -> list[Cause]:
    """Return all causes, in the order of their numbers."""
    document = yaml.safe_load((HERE / "causes.yaml").read_text(encoding="utf-8"))
    return [
        Cause(language, **{**entry, "truths": [Truth(**{"source": source, **truth}) for truth in entry["truths"]]})
        for language, source in SOURCES.items()
        for entry in document[language]
    ]
