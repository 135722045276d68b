"""GitHub Actions' workflow commands: lines on standard output, and the files of a step.

docs.github.com/actions/reference/workflow-commands-for-github-actions; escapes as in actions/toolkit's command.ts.
"""

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from opduel.records import RunError

Kind = Literal["error", "warning", "notice"]
MOST_SHOWN = 10  # annotations of a kind that GitHub shows of one step
SUMMARY_BYTES = 1024 * 1024  # of all that one step writes to its summary; with more, GitHub shows nothing of it


def annotation(kind: Kind, title: str, message: str) -> str:
    """One annotation, as a line without its end."""
    return f"::{kind} title={_property(title)}::{_data(message)}"


def annotations(kind: Kind, wanted: Sequence[tuple[str, str]]) -> list[str]:
    """Titles and messages, the most important first, as lines; one says how many would not be shown."""
    told = list(wanted)
    if len(told) > MOST_SHOWN:
        left = len(told) - (MOST_SHOWN - 1)
        told = [*told[: MOST_SHOWN - 1], (f"and {left} more", "the step's summary and the report have them")]
    return [annotation(kind, title, message) for title, message in told]


def stop_commands() -> tuple[str, str]:
    """Two lines: after the first no line is taken for a command, until the second."""
    token = f"opduel-{secrets.token_hex(16)}"
    return f"::stop-commands::{token}", f"::{token}::"


def set_outputs(path: Path, outputs: Mapping[str, str]) -> None:
    """Add the step's outputs to the file of GITHUB_OUTPUT, whatever the values hold.

    Raises:
        RunError: it can't be written.
    """
    lines = []
    for name, value in outputs.items():
        end = f"opduel_{secrets.token_hex(16)}"
        lines.append(f"{name}<<{end}\n{value}\n{end}\n")
    _append(path, "GITHUB_OUTPUT", "".join(lines))


def summary_room(path: Path) -> int:
    """Bytes that the step's summary still has room for."""
    try:
        return max(0, SUMMARY_BYTES - path.stat().st_size)
    except OSError:
        return SUMMARY_BYTES


def add_summary(path: Path, text: str) -> None:
    """Add to the file of GITHUB_STEP_SUMMARY.

    Raises:
        RunError: it can't be written.
    """
    _append(path, "GITHUB_STEP_SUMMARY", text)


def _append(path: Path, variable: str, text: str) -> None:
    try:
        with path.open("ab") as file:
            file.write(text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise RunError(f"{variable} {path}: cannot be written ({error.strerror})") from None


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
