"""Real git repositories made by a test, and an HTTP server that asks for a password before it shows one."""

import base64
import os
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.context import ForkProcess
from pathlib import Path

import pytest

NOON = 1_700_000_000  # a Tuesday in November 2023
DAY = 86400
AUTHOR = "Ada <ada@example.org>"


def isolate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, config: str = "") -> Path:
    """A git configuration of the test's own, as the user's; nothing of the machine's."""
    path = tmp_path / "gitconfig"
    head = '[user]\n name = Ada\n email = ada@example.org\n[protocol "file"]\n allow = always\n'
    path.write_text(head + "[init]\n defaultBranch = main\n" + config)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for name in [name for name in os.environ if name.startswith(("OPDUEL_GIT", "GIT_ASKPASS", "GIT_DIR"))]:
        monkeypatch.delenv(name)
    return path


def run(*arguments: str | Path, at: Path | None = None, stdin: bytes | None = None) -> str:
    """One git command; its output without the last newline."""
    where = ["-C", str(at)] if at else []
    process = subprocess.run(["git", *where, *map(str, arguments)], input=stdin, capture_output=True, check=False)
    assert process.returncode == 0, process.stderr.decode()
    return process.stdout.decode("utf-8", "surrogateescape").rstrip("\n")


def forked(function: Callable[[Path], object], folder: Path) -> ForkProcess:
    """A process of its own that calls a function, to be killed; it starts at once, as everything is imported."""
    process = ForkProcess(target=function, args=(folder,))
    process.start()
    return process


@dataclass(frozen=True)
class Link:
    """A symbolic link, as the content of a file."""

    target: str


@dataclass(frozen=True)
class Submodule:
    """A submodule at a commit, as the content of a path."""

    id: str


Content = str | bytes | Link | Submodule | None  # None: removed


class RemoteRepository:
    """A bare repository; commits go to its branches by git fast-import, without files on disk."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.time = NOON
        run("init", "--quiet", "--bare", path)

    def commit(
        self,
        files: Mapping[str, Content] | None = None,
        *,
        branch: str = "main",
        at: int | None = None,
        parents: Sequence[str] | None = None,
        subject: bytes | str = "a change",
        author: bytes | str = AUTHOR,
    ) -> str:
        """One commit on top of the branch, or with those parents instead; an hour after the one before unless told."""
        self.time = self.time + 3600 if at is None else at
        if parents is None:
            parents = [self.tip(branch)] if self.has(branch) else []
        stream = _commit(branch, self.time, _bytes(subject), _bytes(author), parents, files or {})
        run("fast-import", "--quiet", "--force", at=self.path, stdin=stream)
        return self.tip(branch)

    def line(self, count: int, branch: str = "main") -> list[str]:
        """So many commits in a row, quickly; their ids, oldest first."""
        stream = []
        for index in range(count):
            files: dict[str, Content] = {"number": f"{index}\n"}
            parents = [self.tip(branch)] if index == 0 and self.has(branch) else []
            stream.append(_commit(branch, self.time + 60 * index, b"number", _bytes(AUTHOR), parents, files))
        run("fast-import", "--quiet", at=self.path, stdin=b"".join(stream))
        return run("rev-list", "--reverse", "--first-parent", branch, at=self.path).split()[-count:]

    def tip(self, branch: str) -> str:
        loose = self.path / "refs" / "heads" / branch
        return loose.read_text().strip() if loose.is_file() else run("rev-parse", f"refs/heads/{branch}", at=self.path)

    def has(self, branch: str) -> bool:
        return (self.path / "refs" / "heads" / branch).is_file()

    def branch(self, name: str, id: str) -> None:
        run("update-ref", f"refs/heads/{name}", id, at=self.path)

    def drop(self, ref: str) -> None:
        run("update-ref", "-d", ref, at=self.path)

    def tag(self, name: str, id: str, *, annotated: bool = False) -> None:
        options = ["-a", "-m", name] if annotated else []
        run("tag", "--force", *options, name, id, at=self.path)

    def default(self, branch: str) -> None:
        run("symbolic-ref", "HEAD", f"refs/heads/{branch}", at=self.path)


def _commit(
    branch: str, at: int, subject: bytes, author: bytes, parents: Sequence[str], files: Mapping[str, Content]
) -> bytes:
    """In the language of git-fast-import."""
    stamp = f" {at} +0000\n".encode()
    parts = [f"commit refs/heads/{branch}\n".encode(), b"author ", author, stamp, b"committer ", author, stamp]
    parts += [f"data {len(subject)}\n".encode(), subject, b"\n"]
    parts += [f"{word} {id}\n".encode() for word, id in zip(["from", *["merge"] * 9], parents, strict=False)]
    for path, content in files.items():
        if content is None:
            parts.append(f"D {path}\n".encode())
        elif isinstance(content, Submodule):
            parts.append(f"M 160000 {content.id} {path}\n".encode())
        else:
            mode = "120000" if isinstance(content, Link) else "100644"
            data = _bytes(content.target if isinstance(content, Link) else content)
            parts += [f"M {mode} inline {path}\ndata {len(data)}\n".encode(), data, b"\n"]
    return b"".join(parts) + b"\n"


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


@dataclass
class Server:
    """What the server serves and has seen. ``hold``, if set, is called before a pack is sent."""

    root: Path
    login: tuple[str, str] | None
    command_lines: set[str] = field(default_factory=set)  # command lines of all processes, at any request
    granted: int = 0
    refused: int = 0
    hold: Callable[[], None] | None = None
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def serve(root: Path, login: tuple[str, str] | None = None) -> Iterator[Server]:
    """The repositories below a folder over smart HTTP (git-http-backend), to those who know the login."""
    server = Server(root, login)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, server)) as http:
        http.daemon_threads = True
        server.port = http.server_address[1]
        thread = threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            http.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, state: Server, *arguments: object) -> None:
        self.state = state
        super().__init__(*arguments)  # type: ignore[arg-type]

    def log_message(self, format: str, *arguments: object) -> None:
        pass

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers.get("Content-Length", 0))))

    def _answer(self, body: bytes) -> None:
        self.state.command_lines |= set(command_lines())
        if self.state.login and self.headers.get("Authorization") != _basic(self.state.login):
            self.state.refused += 1
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="test"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.state.granted += 1
        if self.command == "POST" and self.state.hold:
            self.state.hold()
        try:
            self._backend(body)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the client was killed, as the test meant it to be

    def _backend(self, body: bytes) -> None:
        path, _, query = self.path.partition("?")
        environment = {
            **os.environ,
            "GIT_PROJECT_ROOT": str(self.state.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "HTTP_GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }
        answer = subprocess.run(["git", "http-backend"], input=body, env=environment, capture_output=True, check=False)
        head, _, content = answer.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        self.send_response(int(headers.pop("Status", "200").split()[0]))
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def command_lines() -> Iterator[str]:
    """Those of all processes of the machine."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue


def _basic(login: tuple[str, str]) -> str:
    return "Basic " + base64.b64encode(":".join(login).encode()).decode()
