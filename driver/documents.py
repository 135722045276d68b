"""Write the files that the driver leaves for others, each of them atomically."""

import json
from pathlib import Path

from opduel.records import disk_error
from opduel.support.atomic import write_atomically


def write_document(path: Path, document: object) -> None:
    """Write plain JSON data. Raise RunError if that fails."""
    write_text(path, json.dumps(document, indent=2) + "\n")


def write_text(path: Path, text: str, fix: str = "name another file or folder") -> None:
    """Write a text, and create its folder. Raise RunError if that fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text.encode())
    except OSError as error:
        raise disk_error(path, OSError(error.errno, error.strerror), fix) from None
