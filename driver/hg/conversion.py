"""Changesets as git commits: the same files, author, date, description, and parents."""

import logging
import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from opduel.driver.git.command import Git
from opduel.driver.git.ids import ConvertedIds
from opduel.driver.git.refs import write_refs
from opduel.driver.hg.command import CommandServer, Hg

log = logging.getLogger(__name__)

_BATCH = 500  # changesets, or files, in one go
_BATCH_BYTES = 64 << 20  # of files, after which a batch ends early
_REF = "refs/hg/converting"
_NONE = "0" * 40
_FIELDS = ("node", "p1.node", "p2.node", "date|hgdate", "user", "desc")
_TEMPLATE = "".join(f"{{{name}}}\\0" for name in _FIELDS).encode()
_AUTHOR = re.compile(rb"\s*([^<]*?)\s*<([^<>]*)>\s*$")
_UNSAFE = re.compile(rb"[<>\0\n]+")
_MODES = {b"": b"100644", b"x": b"100755", b"l": b"120000"}


@dataclass(frozen=True)
class _Changeset:
    id: str
    parents: tuple[str, ...]
    time: int  # seconds since 1970
    user: bytes
    description: bytes


def convert(hg: Hg, git: Git, ids: ConvertedIds) -> int:
    """Make commits of all changesets that have none yet, in the clone's order; returns how many there were.

    Those that are there stay. A kill loses at most the batch at hand, which the next conversion makes again.
    CommandFailed: hg can't read its clone; CommandFailed: git can't write the commits.
    """
    listing = hg.run("log", "--hidden", "-r", "all()", "--template", "{rev} {node}\n").decode("ascii")
    missing = [rev for rev, node in (line.split() for line in listing.splitlines()) if node not in ids]
    if not missing:
        return 0
    log.info("converting %d changesets", len(missing))
    with hg.serving() as server:
        for start in range(0, len(missing), _BATCH):
            chosen = missing[start : start + _BATCH]
            _import(server, git, ids, [new for new in _read(server, chosen[0], chosen[-1]) if new.id not in ids])
            count = start + len(chosen)
            if count % (20 * _BATCH) == 0:
                log.info("converted %d of %d changesets", count, len(missing))
    write_refs(git, {}, {_REF})
    return len(missing)


def _read(server: CommandServer, first: str, last: str) -> list[_Changeset]:
    output = server.run(b"log", b"--hidden", b"-r", f"{first}:{last}".encode(), b"--template", _TEMPLATE)
    fields = output.split(b"\0")[:-1]
    changesets = []
    for start in range(0, len(fields), len(_FIELDS)):
        node, parent, other, date, user, description = fields[start : start + len(_FIELDS)]
        parents = tuple(name for name in (parent.decode(), other.decode()) if name != _NONE)
        changesets.append(_Changeset(node.decode(), parents, int(float(date.split()[0])), user, description))
    return changesets


def _import(server: CommandServer, git: Git, ids: ConvertedIds, changesets: Sequence[_Changeset]) -> None:
    """Make commits of them by git-fast-import, in as many goes as their size asks for, and write their ids down."""
    batch: list[_Changeset] = []
    stream: list[bytes] = []
    size = 0
    for changeset in changesets:
        marks = {earlier.id: f":{number}" for number, earlier in enumerate(batch, 1)}
        parents = [marks.get(parent) or ids.ours(parent) for parent in changeset.parents]
        batch.append(changeset)
        written = [_commit(changeset, f":{len(batch)}", parents), *_changes(server, changeset), b"\n"]
        stream += written
        size += sum(map(len, written))
        if size > _BATCH_BYTES:
            _store(git, ids, batch, stream)
            batch, stream, size = [], [], 0
    if batch:
        _store(git, ids, batch, stream)


def _store(git: Git, ids: ConvertedIds, batch: Sequence[_Changeset], stream: Sequence[bytes]) -> None:
    with tempfile.TemporaryDirectory(dir=git.directory.parent, prefix="marks-") as folder:
        path = Path(folder) / "marks"
        git.run("fast-import", "--quiet", "--force", f"--export-marks={path}", stdin=b"".join(stream))
        commits = dict(line.split() for line in path.read_text(encoding="ascii").splitlines())
    ids.add((changeset.id, commits[f":{number}"]) for number, changeset in enumerate(batch, 1))


def _commit(changeset: _Changeset, mark: str, parents: Sequence[str]) -> bytes:
    """Write the beginning of a commit, in the language of git-fast-import."""
    match = _AUTHOR.match(changeset.user)
    name, mail = match.groups() if match else (changeset.user, b"")
    author = b"%s <%s> %d +0000\n" % (_plain(name), _plain(mail), max(0, changeset.time))
    summary, _, details = changeset.description.strip().partition(b"\n")
    message = summary + b"\n\n" + details  # Mercurial's summary is the first line, git's subject the first paragraph
    links = [f"{word} {parent}\n" for word, parent in zip(("from", "merge"), parents, strict=False)]
    lines = [f"commit {_REF}\nmark {mark}\n".encode(), b"author ", author, b"committer ", author]
    lines += [b"data %d\n" % len(message), message, b"\n", "".join(links).encode()]
    # Without a parent, fast-import would go on from the commit before.
    return b"".join(lines) if parents else b"reset %s\n" % _REF.encode() + b"".join(lines)


def _plain(text: bytes) -> bytes:
    return _UNSAFE.sub(b" ", text).strip()


def _changes(server: CommandServer, changeset: _Changeset) -> Iterator[bytes]:
    """Yield what differs from the first parent: removed files first, since a file may be in a folder's place."""
    id = changeset.id.encode()
    before = changeset.parents[0].encode() if changeset.parents else b"null"
    compared = (b"--rev", before, b"--rev", id)
    output = server.run(b"status", b"--hidden", b"--print0", b"--modified", b"--added", b"--removed", *compared)
    entries = [entry for entry in output.split(b"\0") if entry]
    changed = [entry[2:] for entry in entries if entry[:2] != b"R " and _is_possible(entry[2:])]
    yield from (b"D %s\n" % _quoted(entry[2:]) for entry in entries if entry[:2] == b"R " and _is_possible(entry[2:]))
    for start in range(0, len(changed), _BATCH):
        named = [b"path:" + path for path in changed[start : start + _BATCH]]
        listing = server.run(b"files", b"--hidden", b"-r", id, b"--template", rb"{path}\0{flags}\0", *named)
        parts = listing.split(b"\0")
        flags = dict(zip(parts[::2], parts[1::2], strict=False))
        content = server.run(b"cat", b"--hidden", b"-r", id, b"--template", rb"{path}\0{count(data)}\0{data}", *named)
        for path, data in _contents(content):
            mode = _MODES[flags[path]]
            yield b"M %s inline %s\ndata %d\n%s\n" % (mode, _quoted(path), len(data), data)


def _contents(output: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield (path, content) of "path NUL length NUL content" without anything between."""
    place = 0
    while place < len(output):
        end = output.index(b"\0", place)
        start = output.index(b"\0", end + 1) + 1
        length = int(output[end + 1 : start - 1])
        yield output[place:end], output[start : start + length]
        place = start + length


def _is_possible(path: bytes) -> bool:
    """Tell whether git can hold a file of that path."""
    if b".git" in path.lower().split(b"/"):
        log.warning("%s: no path that git can hold: left out", os.fsdecode(path))
        return False
    return True


def _quoted(path: bytes) -> bytes:
    """Quote a path for git-fast-import, which takes any but one that begins as a quoted one does as it is."""
    escaped = path.replace(b"\\", rb"\\").replace(b'"', rb"\"")
    return b'"%s"' % escaped if path.startswith(b'"') else path
