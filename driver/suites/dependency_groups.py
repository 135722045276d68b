"""Find what a project's tests need in its pyproject.toml: a dependency group (PEP 735, or Poetry's), or an extra."""

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

_OWN = ("own", "")  # the key of what the project itself needs
Lists = Mapping[tuple[str, str], Any]  # ("group" or "extra", its name), or _OWN -> the entries


@dataclass(frozen=True)
class PackageGroup:
    """A group of requirements, which ``label`` names; ``python`` is the version that the project is built for."""

    label: str
    requirements: tuple[str, ...]
    python: str


def group_for_tests(folder: Path, tests: Sequence[str] = ()) -> PackageGroup | None:
    """Return the group for benchmarks, or else for tests, or else for development, in the nearest pyproject.toml above
    a suite's folder, up to its repository's top, and of other groups what the files ``tests`` and their conftest.py
    import; of one for development that and pytest's plugins alone. Return None if there is none, or the file can't be
    read."""
    files = {folder / name for name in tests}
    files |= {place / "conftest.py" for file in files for place in file.parents if place.is_relative_to(folder)}
    text = "\n".join(file.read_text(encoding="utf-8", errors="replace") for file in files if file.is_file())
    names = re.findall(r"^\s*(?:from|import)\s+([\w.]+)", text, re.MULTILINE)
    imported = {part for name in names for part in name.split(".")}  # cattrs.preconf.msgspec needs msgspec
    path = project_file_above(folder)
    with suppress(UnreadableError, UsageError, tomllib.TOMLDecodeError):
        return _group_in(read_text(path, pipes=False), path.parent.name, imported) if path else None
    return None


def _group_in(text: str, usual_name: str, imported: Collection[str]) -> PackageGroup | None:
    file = tomllib.loads(text)
    lists, project = _lists_of(file), read_project(text.encode(), usual_name)
    elsewhere = map(canonicalize_name, table_in(table_in(table_in(file, "tool"), "uv"), "sources"))
    left_out = {_module_of(name) for name in (project.name, *elsewhere)}

    def modules_of(*keys: tuple[str, str]) -> list[tuple[str, str]]:
        """Return what these lists require of an index: what each is imported as, and the requirement."""
        requirements = [entry for entry in _expanded([*keys], lists, project.name) if entry.url is None]
        modules = [(_module_of(requirement.name), str(requirement)) for requirement in requirements]
        return [(module, requirement) for module, requirement in modules if module not in left_out]

    usual = "{}.{}".format(*sys.version_info)
    oldest = re.search(r">=?\s*(3\.\d+)", project.requires_python or "")
    python = usual if project.allows(usual) or oldest is None else oldest[1]
    for kind, name in (key for names in _NAMES for key in lists if re.fullmatch(names, key[1])):
        chosen = modules_of((kind, name))
        if re.fullmatch(_TOOLS, name):
            chosen = [entry for entry in chosen if entry[0].startswith("pytest") or entry[0] in imported]
        if chosen:
            further = set(imported) - {module for module, _ in (*chosen, *modules_of(_OWN))}
            chosen += [entry for entry in modules_of(*lists) if entry[0] in further]
            return PackageGroup(
                f"the {kind} {name} of {PROJECT_FILE}", tuple(dict.fromkeys(text for _, text in chosen)), python
            )
    return None


def _module_of(name: str) -> str:
    """Return what the package of that name is usually imported as."""
    return canonicalize_name(name).replace("-", "_")


def _lists_of(file: Mapping[str, Any]) -> Lists:
    """Return the lists of requirements in a project file; of one name Poetry's come after others."""
    project, poetry = table_in(file, "project"), table_in(table_in(file, "tool"), "poetry")
    groups = {name: table_in(group, "dependencies") for name, group in table_in(poetry, "group").items()}
    groups.setdefault("dev", table_in(poetry, "dev-dependencies"))
    return {
        _OWN: project.get("dependencies", list(map(_from_poetry, table_in(poetry, "dependencies").items()))),
        **{
            ("group", canonicalize_name(name)): list(map(_from_poetry, table.items())) for name, table in groups.items()
        },
        **{
            ("group", canonicalize_name(name)): entries for name, entries in table_in(file, "dependency-groups").items()
        },
        **{
            ("extra", canonicalize_name(name)): entries
            for name, entries in table_in(project, "optional-dependencies").items()
        },
    }


def _from_poetry(dependency: tuple[str, Any]) -> str:
    """Return a name with its version in Poetry's form, ``^1.2``, as a requirement, ``>=1.2,<2``; an empty text of what
    no index has (python-poetry.org/docs/dependency-specification)."""
    name, value = dependency
    table = value if isinstance(value, dict) else {"version": value}
    version, extras, markers = table.get("version"), table.get("extras", ()), table.get("markers")
    if name == "python" or version is None:
        return ""
    parts = [part.strip() for part in version.split(",")] if isinstance(version, str) else []
    specifiers = ",".join(_specifier(part) for part in parts if part != "*")
    return f"{name}[{','.join(map(str, extras))}]{specifiers}" + (f"; {markers}" if markers else "")


def _specifier(version: str) -> str:
    if version[:1] not in ("^", "~") or version.startswith("~="):
        return version if version[:1] in ("<", ">", "=", "!", "~") else f"=={version}"
    numbers = [int(number) for number in re.findall(r"\d+", version)[:3]] or [0]
    first = next((place for place, number in enumerate(numbers) if number), len(numbers) - 1)
    place = first if version[0] == "^" else min(1, len(numbers) - 1)
    return f">={version[1:]},<{'.'.join(map(str, (*numbers[:place], numbers[place] + 1)))}"


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
