"""Where a spec is: a path, or a name under the checkout's specifications/."""

from difflib import get_close_matches
from pathlib import Path, PurePosixPath

from opduel.frameworks.base import SPECIFICATIONS
from opduel.records import UsageError

SUFFIXES = (".json", ".yaml", ".yml")
FOLDER_NAMES = ("specs", "specifications")
NOT_SPECS = "frameworks"  # specifications/frameworks/ says how frameworks are built
SCHEMA_SUFFIX = ".schema.json"
_LONGEST_NAME = 100  # characters that are compared with the names there are


def find_spec(name_or_path: str, *, root: Path = SPECIFICATIONS) -> Path:
    """The file of a spec: ``name_or_path`` as a path if such a file exists, else a name under ``root``.

    ``conv``, ``conv.json``, ``specs/conv.json`` and ``specifications/conv.json`` name the same spec.

    Raises:
        UsageError: there is none; the message says what is there, and names similar specs.
    """
    if _is_file(Path(name_or_path)):
        return Path(name_or_path).absolute()
    parts = [part for part in PurePosixPath(name_or_path).parts if part != "."]
    if parts and parts[0] in FOLDER_NAMES:
        parts = parts[1:]
    if parts and ".." not in parts and not name_or_path.startswith("/"):
        for suffix in ("", *SUFFIXES):
            candidate = root.joinpath(*parts[:-1], parts[-1] + suffix)
            if _is_spec(candidate, root):
                return candidate
    raise UsageError(f"spec {name_or_path!r} {_what_it_is(Path(name_or_path))}: {_advice(name_or_path, root)}")


def _what_it_is(path: Path) -> str:
    """What is there, if it is no file."""
    try:
        if path.is_dir():
            return "is a folder"
        if path.is_symlink() and not path.exists():
            return f"is a link to {str(path.readlink())!r}, which is not there"
        if path.exists():
            return "is not a regular file"
    except (OSError, ValueError):  # a name too long for the file system, a null character
        pass
    return "is neither a file nor a spec's name"


def _advice(name: str, root: Path) -> str:
    """Specs of a similar name, or else those that are not of one category of operators."""
    specs = [spec.rpartition(".")[0] for spec in list_specs(root=root)]
    wanted = PurePosixPath(name).stem[:_LONGEST_NAME]
    by_stem = {PurePosixPath(spec).name: spec for spec in specs}
    if similar := [by_stem[stem] for stem in get_close_matches(wanted, by_stem, 3)]:
        return f"use a path, or a spec's name; similar: {', '.join(similar)}"
    general = ", ".join(spec for spec in specs if "/" not in spec) or "none"
    return f"use a path, or a spec's name ({general}; run_bench.py --list shows all)"


def list_specs(*, root: Path = SPECIFICATIONS) -> list[str]:
    """The names of all specs under ``root``, with suffix, sorted."""
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if _is_spec(path, root))


def _is_spec(path: Path, root: Path) -> bool:
    return (
        path.suffix in SUFFIXES
        and not path.name.endswith(SCHEMA_SUFFIX)
        and path.relative_to(root).parts[0] != NOT_SPECS
        and _is_file(path)
        and path.resolve().is_relative_to(root.resolve())  # no way out by a symbolic link
    )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name too long for the file system, a folder that may not be entered
        return False
