"""Passwords and tokens reach the server that they are for, and nothing else: no error, log, config or process list."""

import base64
import logging
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from made_repository import RemoteRepository, Server, Submodule, isolate, run, serve

from opduel.driver.git.access import split
from opduel.driver.git.repository import Repository, open_repository
from opduel.driver.version_control import CommandFailed, RemoteGone, error_words
from opduel.records import UsageError

USER, SECRET = "robot", "s3cret/To@ken"
TOKEN_USER = "ghp_1234567890abcdefghij"


@pytest.fixture
def origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RemoteRepository:
    isolate(monkeypatch, tmp_path)
    origin = RemoteRepository(tmp_path / "served" / "remote.git")
    origin.commit({"a": "1"})
    return origin


@pytest.fixture
def server(origin: RemoteRepository) -> Iterator[Server]:
    with serve(origin.path.parent, (USER, SECRET)) as server:
        yield server


def opened(tmp_path: Path, url: str, repo_dir: Path | None = None) -> Repository:
    return open_repository(tmp_path / "work", url, repo_dir, sleep=lambda _: None)


def nowhere(server: Server, tmp_path: Path, *texts: str) -> None:
    """The secret is in no process list that the server saw, in no file of ours, in none of the texts."""
    forms = [SECRET, quote(SECRET, safe=""), base64.b64encode(f"{USER}:{SECRET}".encode()).decode(), TOKEN_USER]
    assert any("git" in line for line in server.command_lines)
    for path in (tmp_path / "work").rglob("*"):
        if path.is_file():
            texts = (*texts, path.read_bytes().decode("latin-1"))
    for form in forms:
        assert not [line for line in server.command_lines if form in line]
        assert not [text for text in texts if form in text]


def with_login(server: Server, user: str = USER, secret: str = SECRET) -> str:
    return server.url.replace("://", f"://{quote(user, safe='')}:{quote(secret, safe='')}@") + "/remote.git"


@pytest.mark.parametrize(
    "url",
    [
        f"https://{USER}:{quote(SECRET, safe='')}@host.invalid/x.git",
        f"https://{TOKEN_USER}@host.invalid/x.git",
        f"ssh://{USER}:{quote(SECRET, safe='')}@host.invalid/x.git",
    ],
)
def test_a_url_with_a_secret_is_refused(tmp_path: Path, url: str, origin: RemoteRepository) -> None:
    with pytest.raises(
        UsageError, match=r"^--remote_repository \w+://\*\*\*@host.invalid/x.git: .*OPDUEL_GIT_TOKEN"
    ) as raised:
        opened(tmp_path, url)
    assert "credential helper" in str(raised.value)
    assert SECRET not in str(raised.value)
    assert quote(SECRET, safe="") not in str(raised.value)


@pytest.mark.parametrize("url", ["https://organisation@dev.invalid/x", "ssh://git@host/x", "git@host:x", "/a@b:c/d"])
def test_a_user_name_alone_is_no_secret(url: str) -> None:
    assert split(url) == (url, None)


def test_the_token_of_the_environment_is_handed_over(
    tmp_path: Path,
    server: Server,
    origin: RemoteRepository,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("OPDUEL_GIT_TOKEN", SECRET)
    monkeypatch.setenv("OPDUEL_GIT_USER", USER)
    caplog.set_level(logging.DEBUG)
    repository = opened(tmp_path, f"{server.url}/remote.git")
    id = origin.commit()
    repository.fetch()
    assert repository.resolve("main").id == id
    assert server.granted
    nowhere(server, tmp_path, caplog.text, repr(repository))


def test_the_default_user_of_a_token(tmp_path: Path, origin: RemoteRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPDUEL_GIT_TOKEN", SECRET)
    with serve(origin.path.parent, ("x-access-token", SECRET)) as server:
        assert opened(tmp_path, f"{server.url}/remote.git").resolve("main")


@pytest.mark.parametrize("where", ["remote", "checkout's insteadOf", "user's insteadOf"])
def test_credentials_of_the_users_configuration_are_taken_out_and_handed_over(
    tmp_path: Path,
    server: Server,
    origin: RemoteRepository,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    where: str,
) -> None:
    user = tmp_path / "user"
    run("clone", "--quiet", origin.path, user)
    url = with_login(server) if where == "remote" else f"{server.url}/remote.git"
    run("remote", "set-url", "origin", url, at=user)
    rule = (f"url.{with_login(server).removesuffix('remote.git')}.insteadOf", f"{server.url}/")
    if where == "checkout's insteadOf":
        run("config", *rule, at=user)
    elif where == "user's insteadOf":
        run("config", "--global", *rule)
    caplog.set_level(logging.DEBUG)
    repository = opened(tmp_path, "origin", user)
    id = origin.commit()
    repository.fetch()
    assert repository.resolve("main").id == id
    nowhere(server, tmp_path, caplog.text, repr(repository))


def test_a_token_as_the_user_name(tmp_path: Path, origin: RemoteRepository) -> None:
    with serve(origin.path.parent, (TOKEN_USER, "x-oauth-basic")) as server:
        user = tmp_path / "user"
        run("clone", "--quiet", origin.path, user)
        run("remote", "set-url", "origin", server.url.replace("://", f"://{TOKEN_USER}@") + "/remote.git", at=user)
        repository = opened(tmp_path, "origin", user)
        id = origin.commit()
        repository.fetch()
        assert repository.resolve("main").id == id
        nowhere(server, tmp_path, repr(repository))


def test_a_header_of_the_checkouts_own_configuration_is_in_force(
    tmp_path: Path, origin: RemoteRepository, server: Server
) -> None:
    user = tmp_path / "user"
    run("clone", "--quiet", origin.path, user)
    run("remote", "set-url", "origin", f"{server.url}/remote.git", at=user)
    pair = base64.b64encode(f"{USER}:{SECRET}".encode()).decode()
    run("config", f"http.{server.url}/.extraHeader", f"Authorization: Basic {pair}", at=user)
    server.command_lines.clear()
    repository = opened(tmp_path, "origin", user)
    id = origin.commit()
    repository.fetch()
    assert repository.resolve("main").id == id
    nowhere(server, tmp_path, repr(repository))


def test_a_refused_login_fails_without_asking_and_without_the_secret(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(RemoteGone, match="could not read Username"):
        opened(tmp_path, f"{server.url}/remote.git")
    monkeypatch.setenv("OPDUEL_GIT_TOKEN", wrong := "wr0ng-t0ken")
    with pytest.raises(RemoteGone, match="Authentication failed") as raised:
        opened(tmp_path, f"{server.url}/remote.git")
    assert wrong not in str(raised.value) + caplog.text
    assert not [line for line in server.command_lines if wrong in line]


@pytest.mark.parametrize("user", ["", f"{USER}@"])
def test_a_submodule_elsewhere_does_not_get_the_secret(
    tmp_path: Path, server: Server, origin: RemoteRepository, monkeypatch: pytest.MonkeyPatch, user: str
) -> None:
    module = RemoteRepository(tmp_path / "other" / "module.git")
    module.commit({"x": "1"})
    with serve(module.path.parent, (USER, SECRET)) as other:
        address = other.url.replace("://", f"://{user}")
        text = f'[submodule "m"]\n path = m\n url = {address}/module.git\n'
        id = origin.commit({".gitmodules": text, "m": Submodule(module.tip("main"))})
        monkeypatch.setenv("OPDUEL_GIT_TOKEN", SECRET)
        monkeypatch.setenv("OPDUEL_GIT_USER", USER)
        repository = opened(tmp_path, f"{server.url}/remote.git")
        with pytest.raises(RemoteGone):
            repository.checkout(repository.commit(id), tmp_path / "work" / "tree", [], ["m"])
        assert other.refused
        assert not other.granted
        # The user's own program is asked there.
        program = tmp_path / "askpass"
        program.write_text(f'#!/bin/sh\ncase "$1" in User*) echo {USER};; *) echo "{SECRET}";; esac\n')
        program.chmod(0o700)
        monkeypatch.setenv("GIT_ASKPASS", str(program))
        repository.checkout(repository.commit(id), tmp_path / "work" / "tree", [], ["m"])
        assert other.granted


def test_no_helper_stores_what_was_handed_over(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(monkeypatch, tmp_path, f"[credential]\n helper = store --file={tmp_path}/stored\n")
    monkeypatch.setenv("OPDUEL_GIT_TOKEN", SECRET)
    monkeypatch.setenv("OPDUEL_GIT_USER", USER)
    opened(tmp_path, f"{server.url}/remote.git").fetch()
    assert not (tmp_path / "stored").exists()


def test_the_users_helper_is_used_without_a_login_of_ours(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    isolate(monkeypatch, tmp_path, f"[credential]\n helper = store --file={tmp_path}/stored\n")
    (tmp_path / "stored").write_text(with_login(server).removesuffix("/remote.git") + "\n")
    opened(tmp_path, f"{server.url}/remote.git").fetch()
    assert server.granted


def test_local_commands_do_not_see_the_secret(
    tmp_path: Path, server: Server, origin: RemoteRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin.commit({".gitattributes": "a filter=look"})
    monkeypatch.setenv("OPDUEL_GIT_TOKEN", SECRET)
    monkeypatch.setenv("OPDUEL_GIT_USER", USER)
    run("config", "--global", "filter.look.smudge", f"env > {tmp_path}/environment; cat")
    repository = opened(tmp_path, f"{server.url}/remote.git")
    repository.checkout(repository.resolve("main"), tmp_path / "work" / "tree")
    assert SECRET not in (tmp_path / "environment").read_text()


def test_what_git_said_is_one_line() -> None:
    output = b"Cloning into 'x'...\rprogress 10%\r\nremote: no\nfatal: bad \x1b[31m\xff thing\nfatal: bad two\n"
    assert error_words(output) == "remote: no; fatal: bad \\x1b[31m\ufffd thing; fatal: bad two"
    assert error_words(b"just this\n") == "just this"
    assert error_words(b"") == "nothing"
    assert len(error_words(b"fatal: " + b"x" * 9999)) < 500
    assert "nothing" in str(CommandFailed("git x", error_words(b""), 1))
