"""AI-PEP's --info: one JSON document that describes control and treatment, for the harness to read.

https://github.com/facebookarchive/FAI-PEP: {"treatment": {"commit", "commit_time", "program", "programs":
{"program": {"location"}}}, "control": {the same}, "regression_commits": [{"commit", "commit_time"}]}.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from opduel.records import Build, Commit, UsageError
from opduel.support.files import UnreadableError, parse_json, read_text
from opduel.support.validation import explain


class _Program(BaseModel):
    location: str


class _Side(BaseModel):
    commit: str | None = None
    commit_time: int = 0
    program: str | None = None
    programs: dict[str, _Program] = Field(default_factory=dict)
    author: str = ""
    subject: str = ""


class _Document(BaseModel):
    treatment: _Side
    control: _Side | None = None


@dataclass(frozen=True)
class DescribedBuild:
    """One side: where its interpreter or environment is, and the commit that it was made from."""

    location: str
    commit: Commit | None


def info_document(control: Build, treatment: Build, regression_commits: Sequence[Commit] = ()) -> dict[str, Any]:
    """Return both builds, and the commits that caused regressions, as plain JSON data."""
    return {
        "treatment": _side(treatment),
        "control": _side(control),
        "regression_commits": [{"commit": commit.id, "commit_time": commit.time} for commit in regression_commits],
    }


def _side(build: Build) -> dict[str, Any]:
    commit = build.commit
    return {
        "commit": commit.id if commit else build.requested,
        "commit_time": commit.time if commit else 0,
        "author": commit.author if commit else "",
        "subject": commit.subject if commit else "",
        "program": build.executable,
        "programs": {"program": {"location": build.executable}},
    }


def read_info(text: str) -> dict[str, DescribedBuild]:
    """Read ``control``, which may be missing, and ``treatment`` of a document: ``text`` is its JSON, or the path of a
    file that holds it. UsageError: it is neither, or a side has no program."""
    where = "--info"
    if not text.lstrip().startswith("{"):
        where = f"--info {text}"
        try:
            text = read_text(Path(os.path.expanduser(text)))
        except UnreadableError as error:
            raise UsageError(f"{where}: {error}: give JSON, or the path of a file that holds it") from None
    try:
        document = _Document.model_validate(parse_json(text))
    except ValidationError as error:
        raise UsageError(f"{where}: {explain(error)}") from None
    except UnreadableError as error:
        raise UsageError(f"{where}: {error}: correct it") from None
    sides = {"control": document.control, "treatment": document.treatment}
    return {name: _described(where, name, side) for name, side in sides.items() if side is not None}


def _described(where: str, name: str, side: _Side) -> DescribedBuild:
    program = side.programs.get("program")
    location = program.location if program else side.program
    if not location:
        raise UsageError(f"{where}: {name}.programs.program.location: is missing: name an interpreter or environment")
    commit = Commit(side.commit, side.commit_time, side.author, side.subject) if side.commit else None
    return DescribedBuild(location, commit)
