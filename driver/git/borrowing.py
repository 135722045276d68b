"""Objects that a repository reads from other places (gitrepository-layout, objects/info/alternates)."""

import os
from pathlib import Path

from opduel.records import UsageError
from opduel.support.atomic import write_atomically


def borrowed_folders(repository: Path) -> list[str]:
    """Return the object folders that a repository borrows from."""
    objects = repository / "objects"
    try:
        lines = os.fsdecode((objects / "info" / "alternates").read_bytes()).splitlines()
    except FileNotFoundError:
        return []
    return [os.path.normpath(objects / line) for line in lines if line and not line.startswith("#")]


def check_borrowed(repository: Path) -> None:
    """Raise UsageError if a folder that the repository borrows from is gone."""
    for folder in borrowed_folders(repository):
        if not Path(folder).is_dir():
            raise UsageError(
                f"{folder}: is gone, but {repository} uses its objects: restore it, "
                f"or remove {repository}, which the next start creates again"
            )


def borrow(repository: Path, objects: Path) -> None:
    """Have the repository read objects from there too; folders that are gone are forgotten."""
    folders = borrowed_folders(repository)
    existing = [folder for folder in folders if Path(folder).is_dir() and folder != str(objects)]
    if [*existing, str(objects)] == folders:
        return
    info = repository / "objects" / "info"
    info.mkdir(exist_ok=True)
    write_atomically(info / "alternates", os.fsencode("".join(f"{folder}\n" for folder in (*existing, str(objects)))))
