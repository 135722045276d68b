"""Files for trials of hostile input: odd ones, and precious ones that must not change."""

import hashlib
import json
import os
import socket
from pathlib import Path
from typing import Any

from made_report import made_report

from opduel.reporters.document import to_bytes

REPORT = to_bytes(made_report(6))
SPEC: dict[str, Any] = {
    "framework": "mxnet",
    "defaults": {"timeout": 10},
    "tests": [
        {"operator": "nd.exp", "identifier": "exp_{ID}", "inputs": [{"data": [8, 8]}, {"data": [8, 16]}]},
        {"operator": "nd.dot", "inputs": {"lhs": [8, 8], "rhs": [8, 8], "transpose_a": {"value": True}}},
    ],
}  # fmt: skip
PROGRAMS = {  # in place of an interpreter
    "yes": "exec yes",
    "yes-on-stderr": "exec yes >&2",
    "silent": "exit 0",
    "fails": "echo first >&2; echo second >&2; exit 7",
    "dies": "kill -SEGV $$",
    "garbage": "head -c 5000 /dev/urandom",
    "json": 'echo "{}"',
    "list": 'echo "[1]"',
    "deep": "head -c 200000 /dev/zero | tr '\\0' '['",
    "digits": "head -c 200000 /dev/zero | tr '\\0' '9'",
}


ODD = (
    *("pipe", "folder", "dangling", "loop", "sparse", "empty", "bytes", "deep.json", "deep.yaml", "digits.json"),
    *("socket", "not-\udcff-text"),
)


def make_precious(folder: Path) -> None:
    """Write files that no command may change."""
    folder.mkdir(parents=True)
    (folder / "notes.txt").write_text("my notes\n")
    (folder / "spec.json").write_text(json.dumps(SPEC))
    (folder / "network.json").write_text('{"nodes": [], "arg_nodes": [], "heads": []}')
    (folder / "report.json").write_bytes(REPORT)


def digests(folder: Path) -> dict[str, str]:
    """Return the digest of each file in a folder."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def make_odd(folder: Path) -> None:
    """Write files that a naive reader waits for, fills its memory with, or fails at."""
    folder.mkdir(parents=True)
    os.mkfifo(folder / "pipe")
    (folder / "folder").mkdir()
    (folder / "dangling").symlink_to("nothing")
    (folder / "loop").symlink_to("loop")
    with (folder / "sparse").open("wb") as file:
        file.truncate(2**40)
    (folder / "empty").touch()
    (folder / "bytes").write_bytes(bytes(range(256)) * 20)
    (folder / "deep.json").write_text("[" * 100_000)
    (folder / "deep.yaml").write_text("- " * 5000)
    (folder / "digits.json").write_text("9" * 20_000)
    (folder / ODD[-1]).write_text("{}")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(os.path.relpath(folder / "socket"))  # whose path may have 107 bytes
    for name, script in PROGRAMS.items():
        path = folder / f"python-{name}"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    (folder / "python-none").write_text("no program")
