"""Files that the driver leaves for others: there whole, or not at all."""

import json
import os
from contextlib import suppress
from pathlib import Path

from opduel.records import disk_error


def write_document(path: Path, document: object) -> None:
    """Write plain JSON data.

    Raises:
        RunError: it can't be written.
    """
    write_text(path, json.dumps(document, indent=2) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text; its folder is made if it isn't there.

    Raises:
        RunError: it can't be written.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with aside.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        aside.replace(path)
    except OSError as error:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        raise disk_error(path, OSError(error.errno, error.strerror), "name another file or folder") from None
