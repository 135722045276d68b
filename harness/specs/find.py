"""Where a spec is: a path, or a name under the checkout's specifications/."""

import os.path
from difflib import get_close_matches
from pathlib import Path, PurePosixPath

from opduel.frameworks.base import SPECIFICATIONS
from opduel.records import UsageError
from opduel.support.command_names import command_name

SUFFIXES = (".json", ".yaml", ".yml")
FOLDER_NAMES = ("specs", "specifications")
NOT_SPECS = "frameworks"  # specifications/frameworks/ says how frameworks are built
SCHEMA_SUFFIX = ".schema.json"
_LONGEST_NAME = 100  # characters that are compared with the names there are


def find_spec(name_or_path: str, *, root: Path = SPECIFICATIONS) -> Path:
    """Return the file of a spec: ``name_or_path`` as a path, or a name under ``root``, which comes first where a file
    has it without being written as a path.

    ``conv``, ``conv.json``, ``specs/conv.json`` and ``specifications/conv.json`` name the same spec. Raises UsageError:
    there is none; the message says what is there, and names similar specs.
    """
    path = os.path.expanduser(name_or_path)
    is_file = os.path.isfile(path)  # Path.is_file raises where a name is too long, or a folder can't be entered
    if is_file and (os.sep in path or path.endswith(SUFFIXES)):
        return Path(path).absolute()
    parts = [part for part in PurePosixPath(name_or_path).parts if part != "."]
    if parts and parts[0] in FOLDER_NAMES:
        parts = parts[1:]
    if parts and ".." not in parts and not name_or_path.startswith("/"):
        for suffix in ("", *SUFFIXES):
            candidate = root.joinpath(*parts[:-1], parts[-1] + suffix)
            if _is_spec(candidate, root):
                return candidate
    if is_file:
        return Path(path).absolute()
    what = "is not a file" if os.path.lexists(name_or_path) else "is neither a file nor a spec's name"
    raise UsageError(f"spec {name_or_path!r} {what}: {_advice(name_or_path, root)}")


def _advice(name: str, root: Path) -> str:
    """Name specs of a similar name, or else those that are not of one category of operators."""
    specs = [spec.rpartition(".")[0] for spec in list_specs(root=root)]
    stem_of_name = PurePosixPath(name).stem[:_LONGEST_NAME]
    by_stem = {PurePosixPath(spec).name: spec for spec in specs}
    if similar := [by_stem[stem] for stem in get_close_matches(stem_of_name, by_stem, 3)]:
        return f"use a path, or a spec's name; similar: {', '.join(similar)}"
    general = ", ".join(spec for spec in specs if "/" not in spec) or "none"
    return f"use a path, or a spec's name ({general}; {command_name('list')} shows all)"


def list_specs(*, root: Path = SPECIFICATIONS) -> list[str]:
    """Return the names of all specs under ``root``, with suffix, sorted."""
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if _is_spec(path, root))


def _is_spec(path: Path, root: Path) -> bool:
    return (
        path.suffix in SUFFIXES
        and not path.name.endswith(SCHEMA_SUFFIX)
        and path.relative_to(root).parts[0] != NOT_SPECS
        and os.path.isfile(path)
        and path.resolve().is_relative_to(root.resolve())  # no way out by a symbolic link
    )
