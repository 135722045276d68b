"""`python -m opduel.server`, as people start it: in a process of its own, until SIGTERM."""

import argparse
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from results_server import REPORTS, body, numbered

from opduel.reporters.text import printable
from opduel.server import command_line
from opduel.server.app import listen
from opduel.server.command_line import main
from opduel.server.database import Database
from opduel.server.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "opduel.server"]


def environment(folder: Path) -> dict[str, str]:
    """Return the state folder in ``folder``, and no database named."""
    variables = {name: value for name, value in os.environ.items() if name != "OPDUEL_DATABASE"}
    return {**variables, "XDG_STATE_HOME": str(folder / "state"), "PYTHONDONTWRITEBYTECODE": "1"}


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it said."""

    code: object
    out: str
    err: str


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """Run the command in this process, for a user of the test's own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("OPDUEL_DATABASE", raising=False)

    def call(*arguments: str) -> Done:
        try:
            code: object = main(arguments)
        except SystemExit as end:  # argparse's way
            code = end.code
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return call


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Yield a server on any free port, and its address as it says it."""
    command = [*COMMAND, "--port", "0", *arguments]
    process = subprocess.Popen(command, cwd=ROOT, env=environment(folder), stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        while "http://" not in line:
            assert line, "it ended"
            line = process.stderr.readline()
        yield process, line.split()[3].rstrip(",")
    finally:
        process.kill()
        process.wait(30)
        process.stderr.close()


def test_a_database_that_is_in_use_or_an_interrupt_is_one_line(
    tmp_path: Path, run: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("token", "add", "ci", "--scope", "read").code == 0
    (path,) = tmp_path.rglob("*.sqlite")
    monkeypatch.setattr("opduel.server.database._BUSY_TIMEOUT_S", 0.05)
    opened = command_line._open_existing
    with closing(sqlite3.connect(path)) as other:

        def taken_when_opened(options: argparse.Namespace) -> Database:
            database = opened(options)
            other.execute("BEGIN IMMEDIATE")
            return database

        with monkeypatch.context() as patch:
            patch.setattr(command_line, "_open_existing", taken_when_opened)
            result = run("token", "revoke", "ci")
    assert (result.code, result.err) == (3, "the database can't be used (database is locked): try again\n")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command_line, "revoke_token", interrupted)
    result = run("token", "revoke", "ci")
    assert (result.code, result.err) == (3, "interrupted\n")


def test_a_day_in_its_life(tmp_path: Path, run: Callable[..., Done]) -> None:
    """Tokens, a server in the default place, a post, a stop; and neither log nor list nor files tell a token."""
    added = run("token", "add", "ci", "--scope", "read", "--scope", "write", "--expires", "30")
    token = added.out.strip()
    assert re.fullmatch(r"opduel_[0-9a-f]{16}_[A-Za-z0-9_-]{43}", token)
    assert token not in added.err
    with serving(tmp_path) as (process, url):
        headers = {"Authorization": f"Bearer {token}"}
        assert httpx.post(url + REPORTS, json=body(numbered(1)), headers=headers).status_code == 201
        assert httpx.get(f"{url}/api/v1/runs", params={"token": token, "text": "x"}, headers=headers).status_code == 200
        assert httpx.get(f"{url}/api/v1/{token}/%1b%5b2J%0a", headers=headers).status_code == 404
        assert httpx.get(f"{url}/assets/a%0aFAKE%20ENTRY").status_code == 404
        assert httpx.post(f"{url}/login", data={"token": token}, headers={"Origin": url}).status_code == 303
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        log = process.stderr.read() if process.stderr else ""
    assert token[-43:] not in log
    assert "token=" not in log
    assert re.search(r"POST /api/v1/reports 201 \d+ ms$", log, re.MULTILINE)
    assert r"/api/v1/opduel_***/\x1b[2J" in log
    assert not re.search("[\x00-\x09\x0b-\x1f]", log)
    assert not re.search("^FAKE", log, re.MULTILINE)
    assert log.endswith("opduel results server: ended\n")
    assert "Traceback" not in log
    listed = run("token", "list").out
    assert re.search(r"^ci\tread,write\t\S+\t\S+\tvalid$", listed, re.MULTILINE)
    assert token[-43:] not in listed
    assert run("run", "remove", "run-1", "run-1").err.endswith(": removed 1 run\n")
    assert run("run", "remove", "run-1").code == 2
    assert run("token", "revoke", "ci").code == 0
    assert re.search(r"^ci\t.*\trevoked$", run("token", "list").out, re.MULTILINE)
    folder = tmp_path / "state" / "opduel" / "server"
    assert folder.stat().st_mode & 0o077 == 0
    assert not any(token[-43:].encode() in path.read_bytes() for path in folder.iterdir())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--commit_url", "javascript:alert({commit})"], "not http or https"),
        (["--commit_url", "https://{commit}.example.org/"], "must have {commit} once"),
        (["--port", "70000"], "must be 0 to 65535"),
        (["--database", "mysql://me:secret@host/x"], "not the URL of a file of SQLite or of a PostgreSQL"),
        (["token", "add", "a"], "give --scope"),
        (["token", "add", " ", "--scope", "read"], "NAME must be 1 to 100 printable characters"),
        (["token", "revoke", "nobody"], "results.sqlite does not exist: give --database, or start the server first"),
        (["token", "list"], "does not exist"),
        (["run", "remove", "nothing"], "does not exist"),
        (
            ["--port", "many"],
            "argument --port: 'many' is not a whole number; see python -m opduel.server serve --help",
        ),
        (["--max_report_bytes", "9" * 5000], "is not a whole number"),
        (["--database", ""], "--database: is empty"),
        (["tokens"], "invalid choice: 'tokens'"),
        (["token", "add", "a", "--scope", "all"], "invalid choice: 'all'"),
        (["token", "add", "a\x1b", "--scope", "read"], "printable"),
        (["token", "add", "a", "--scope", "read", "--expires", "-1"], "more than 0 days"),
        (["token", "add", "a", "--scope", "read", "--expires", "1e9"], "expires"),
        (["serve", "--what"], "unrecognized"),
    ],
)
def test_wrong_usage_is_a_line_and_two(run: Callable[..., Done], arguments: list[str], words: str) -> None:
    result = run(*arguments)
    assert result.code == 2
    assert words in result.err
    assert result.err.count("\n") == 1
    assert "secret" not in result.err
    assert "\x1b" not in result.err


@pytest.mark.parametrize(
    "arguments", [["token", "add", "\t", "--scope", "read"], ["token", "list"], ["token", "add", "a"]]
)
def test_what_is_wrong_makes_no_database(run: Callable[..., Done], arguments: list[str], tmp_path: Path) -> None:
    assert run(*arguments).code == 2
    assert not list(tmp_path.rglob("*.sqlite"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["token", "revoke", "nobody"], "token revoke nobody: there is no token of this name"),
        (["run", "remove", "nothing"], "run remove nothing: there is no run of this id"),
    ],
)
def test_what_is_not_in_the_database_is_said(run: Callable[..., Done], arguments: list[str], words: str) -> None:
    assert run("migrate").code == 0
    result = run(*arguments)
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert words in result.err


def test_a_token_that_cannot_be_shown_is_not_kept(run: Callable[..., Done], monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("w") as full, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", full)
        assert main(["token", "add", "ci", "--scope", "read"]) == 3
    assert run("token", "list").out == "# name\tscopes\tcreated\texpires\tstate\n"


def test_a_commit_is_only_ever_a_part_of_its_address() -> None:
    settings = Settings("sqlite:///x", commit_url="https://git.example.org/c/{commit}?x=1")
    assert settings.commit_link("ab12") == "https://git.example.org/c/ab12?x=1"
    assert settings.commit_link('"/../<#') == "https://git.example.org/c/%22%2F..%2F%3C%23?x=1"
    assert settings.commit_link(None) is None
    assert Settings("sqlite:///x").commit_link("ab12") is None


def test_a_name_is_given_once(run: Callable[..., Done]) -> None:
    assert run("token", "add", "a", "--scope", "read").code == 0
    again = run("token", "add", "a", "--scope", "read")
    assert (again.code, again.out) == (2, "")
    assert "a token of this name exists" in again.err


def test_a_port_that_is_taken_is_said(run: Callable[..., Done]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy_socket:
        result = run("--port", str(busy_socket.getsockname()[1]))
    assert result.code == 3
    assert "can't be listened on" in result.err


@pytest.mark.parametrize("host", ["a..b", "a" * 64 + ".example", "\ud800.example"])
def test_a_host_that_can_be_none_is_said(run: Callable[..., Done], host: str) -> None:
    result = run("--host", host)
    assert result.code == 2
    assert (
        result.err.splitlines()[-1]
        == f"--host {printable(host)}: there is no host of this name: give another, or an address"
    )


def test_a_short_answer_does_not_wait_for_an_acknowledgement() -> None:
    with listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        connection, _ = listening.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_without_its_libraries_it_says_how_to_get_them() -> None:
    run = "runpy.run_module('opduel.server', run_name='__main__')"
    code = f"import sys, runpy; sys.modules['fastapi'] = None; {run}"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "make setup" in result.stderr
    assert "Traceback" not in result.stderr


def test_ctrl_c_ends_it_too(tmp_path: Path) -> None:
    with serving(tmp_path, "--database", f"sqlite:///{tmp_path}/x.sqlite", "--host", "localhost") as (process, url):
        assert httpx.get(f"{url}/healthz").status_code == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
