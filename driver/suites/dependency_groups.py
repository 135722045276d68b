"""Find what a project's tests need in its pyproject.toml: a dependency group (PEP 735), or else an extra."""

import re
import sys
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from opduel.driver.builds.package_sources import read_project
from opduel.records import UsageError
from opduel.support.files import UnreadableError, read_text
from opduel.support.project_file import PROJECT_FILE, project_file_above, table_in

_TOOLS = "dev|develop|development"  # groups that have other tools, too
_NAMES = ("benchmarks?|bench|benchmarking", "tests?|testing", _TOOLS)  # the likeliest first

Lists = Mapping[tuple[str, str], Any]  # ("group" or "extra", its name) -> the entries


@dataclass(frozen=True)
class PackageGroup:
    """A group of requirements, which ``label`` names; ``python`` is the version that the project is built for."""

    label: str
    requirements: tuple[str, ...]
    python: str


def group_for_tests(folder: Path, tests: Sequence[str] = ()) -> PackageGroup | None:
    """Return the group for benchmarks, or else for tests, or else for development, in the nearest pyproject.toml above
    a suite's folder, up to its repository's top; of one for development, pytest's plugins and what the files ``tests``
    and their conftest.py import. Return None if there is none, or the file can't be read."""
    files = {folder / name for name in tests}
    files |= {place / "conftest.py" for file in files for place in file.parents if place.is_relative_to(folder)}
    text = "\n".join(file.read_text(encoding="utf-8", errors="replace") for file in files if file.is_file())
    imported = set(re.findall(r"^\s*(?:from|import)\s+(\w+)", text, re.MULTILINE))
    path = project_file_above(folder)
    with suppress(UnreadableError, UsageError, tomllib.TOMLDecodeError):
        return _group_in(read_text(path, pipes=False), path.parent.name, imported) if path else None
    return None


def _group_in(text: str, usual_name: str, imported: Collection[str]) -> PackageGroup | None:
    file = tomllib.loads(text)
    tables = {"group": file, "extra": table_in(file, "project")}
    keys = {"group": "dependency-groups", "extra": "optional-dependencies"}
    lists: Lists = {
        (kind, canonicalize_name(name)): entries
        for kind, table in tables.items()
        for name, entries in table_in(table, keys[kind]).items()
    }
    project = read_project(text.encode(), usual_name)
    elsewhere = map(canonicalize_name, table_in(table_in(table_in(file, "tool"), "uv"), "sources"))
    left_out = {name.replace("-", "_") for name in (project.name, *elsewhere)}
    usual = "{}.{}".format(*sys.version_info)
    oldest = re.search(r">=?\s*(3\.\d+)", project.requires_python or "")
    python = usual if project.allows(usual) or oldest is None else oldest[1]
    for kind, name in (key for names in _NAMES for key in lists if re.fullmatch(names, key[1])):
        requirements = dict.fromkeys(
            str(requirement)
            for requirement in _expanded([(kind, name)], lists, project.name)
            if requirement.url is None
            and (module := canonicalize_name(requirement.name).replace("-", "_")) not in left_out
            and (not re.fullmatch(_TOOLS, name) or module.startswith("pytest") or module in imported)
        )
        if requirements:
            return PackageGroup(f"the {kind} {name} of {PROJECT_FILE}", tuple(requirements), python)
    return None


def _expanded(keys: list[tuple[str, str]], lists: Lists, project: str) -> Iterator[Requirement]:
    """Yield the requirements of these lists, and of those that they include: groups, and the project's own extras."""
    for key in keys:  # which grows
        entries = lists.get(key)
        included: list[tuple[str, str]] = []
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict):
                included.append(("group", canonicalize_name(str(entry.get("include-group")))))
            with suppress(InvalidRequirement, TypeError):  # of what is no text
                requirement = Requirement(entry)
                if canonicalize_name(requirement.name) == project:
                    included += [("extra", canonicalize_name(extra)) for extra in requirement.extras]
                yield requirement
        keys += [new for new in included if new not in keys]
