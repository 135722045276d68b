"""Digests by which content is recognised: SHA-256, in hexadecimal digits."""

import hashlib
import json
from pathlib import Path


def file_digest(path: Path) -> str:
    """Return the digest of a file's content. OSError: it can't be read."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def data_digest(data: object) -> str:
    """Return the digest of plain data: equal for equal JSON, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
