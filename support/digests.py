"""Digests by which content is recognised, and long or similar names: SHA-256, in hexadecimal digits."""

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


def cut(text: str, size: int) -> str:
    """Return ``text`` in at most ``size`` bytes of UTF-8 (20 or more); a cut text ends with a digest of all of it."""
    if len(text.encode()) <= size:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return f"{text.encode()[: size - 13].decode(errors='ignore')}-{digest}"


def with_digest(text: str, name: str) -> str:
    """Return ``text``, which stands for other names, too, with a digest of ``name``."""
    return f"{text}-{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()[:8]}"
