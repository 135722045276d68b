"""Where a remote reporter sends, with which token, and that no token is ever shown."""

import argparse
import logging
import os
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest
import report_samples as samples
from faulty_server import TOKEN, ResultsServer

from opduel.records import RunError, UsageError
from opduel.reporters import add_reporter_options, chosen_reporters
from opduel.reporters.options import TOKEN_VARIABLE, ReporterOptions
from opduel.reporters.remote import RemoteReporter
from opduel.reporters.remote.delivery import Sender
from opduel.reporters.remote.place import Place, is_open, origin, parse_place
from opduel.reporters.remote.spool import Spool
from opduel.reporters.remote.token import Token, find_token


def reporters_of(*words: str) -> list[RemoteReporter]:
    parser = argparse.ArgumentParser()
    add_reporter_options(parser)
    chosen = chosen_reporters(ReporterOptions.of(parser.parse_args(words)), terminal=False)
    return [reporter for reporter in chosen if isinstance(reporter, RemoteReporter)]


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("results.example.org/api/v1/reports|nightly", "https://results.example.org/api/v1/reports"),
        ("Results.Example.ORG:8443/Api/|nightly", "https://results.example.org:8443/Api/"),
        ("http://localhost:8000/x|nightly", "http://localhost:8000/x"),
        ("https://[::1]:1/x | nightly", "https://[::1]:1/x"),
        ("HTTPS://a/b|nightly", "https://a/b"),
    ],
)
def test_places(text: str, endpoint: str) -> None:
    assert parse_place(text) == Place(endpoint, "nightly")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("results.example.org/api", "write <domain>/<endpoint>|<category>, in quotes"),
        ("|nightly", "write <domain>"),
        ("results.example.org/api|", "write <domain>"),
        ("results.example.org|nightly", "with the endpoint"),
        ("results.example.org/|nightly", "with the endpoint"),
        ("ftp://results.example.org/api|nightly", "http or https"),
        ("https:///api|nightly", "http or https"),
        ("file:///etc/passwd|nightly", "http or https"),
        ("a:port/api|nightly", "correct the address"),
        ("[::1/api|nightly", "correct the address"),
        ("a/b c|nightly", "give the address"),
        ("a\\@b/c|nightly", "a user or password"),
        ("a/b\x1b[2J|nightly", "give the address"),
        ("a/b|nightly\n", ""),
        ("a/b|night\nly", "printable characters"),
        (f"a/b|{'x' * 101}", "at most 100"),
        ("a/b?key=1|nightly", "give the address"),
        ("a/b#c|nightly", "give the address"),
        ("a/b|c|nightly", "with one bar"),
    ],
)
def test_what_is_no_place_is_one_line_with_the_fix(text: str, words: str) -> None:
    if not words:
        assert parse_place(text)
        return
    with pytest.raises(UsageError) as error:
        parse_place(text)
    assert words in str(error.value)
    assert str(error.value).startswith("--remote_reporter ")
    assert str(error.value).isprintable()


@pytest.mark.parametrize("user", ["me:hunter2", "hunter2", "me:hun/ter2", "me:p@hunter2"])
@pytest.mark.parametrize("scheme", ["", "https://", "http://"])
@pytest.mark.parametrize("location", ["results.example.org/api|nightly", "results.example.org/api", "a b|c"])
def test_a_password_in_an_address_is_refused_and_not_shown(user: str, scheme: str, location: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_place(f"{scheme}{user}@{location}")
    assert "hunter2" not in str(error.value)
    assert "ter2" not in str(error.value)


def test_each_place_is_reported_once() -> None:
    def remote(*places: str) -> list[RemoteReporter]:
        return reporters_of(*(word for place in places for word in ("--remote_reporter", place)))

    reporters = remote("a.org/x|nightly", "https://A.org/x|nightly", "b.org/x|weekly")
    assert [comparison.place.category for comparison in reporters] == ["nightly", "weekly"]
    assert reporters_of() == []
    with pytest.raises(UsageError, match=r"//a\.org/x: a server keeps a run under one category: leave 'weekly' or"):
        remote("a.org/x|nightly", "a.org/x|weekly")


def test_a_token_is_for_one_server() -> None:
    token = ("--remote_access_token", TOKEN)
    one = ("--remote_reporter", "a.org/x|c", "--remote_reporter", "A.org/y|c")
    assert len(reporters_of(*one, *token)) == 2
    with pytest.raises(UsageError, match=r"a token .* is for one server, and these are several .*//b\.org/x") as error:
        reporters_of(*one, "--remote_reporter", "b.org/x|c", *token)
    assert TOKEN not in str(error.value)


@pytest.mark.parametrize("option", ["--remote_access_token", "--remote_access_token_file", "--spool"])
def test_its_options_without_it_are_a_mistake(option: str) -> None:
    with pytest.raises(UsageError, match=f"{option}: goes with --remote_reporter"):
        reporters_of(option, "x")


def token_file(folder: Path, text: str = f"{TOKEN}\n", mode: int = 0o600) -> Path:
    path = folder / "token"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_the_option_comes_before_the_file_and_the_file_before_the_environment(tmp_path: Path) -> None:
    file = str(token_file(tmp_path, "of-file"))
    environment = {TOKEN_VARIABLE: "of-environment"}

    def find(text: str | None, file: str | None, environment: dict[str, str]) -> str | None:
        token = find_token(text, file, environment)
        return token and token.text

    assert find("of-option", file, environment) == "of-option"
    assert find(None, file, environment) == "of-file"
    assert find(None, None, environment) == "of-environment"
    assert find(None, None, {TOKEN_VARIABLE: ""}) is None
    assert find(None, None, {}) is None


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o622, 0o644, 0o777])
def test_a_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = token_file(tmp_path, mode=mode)
    with pytest.raises(UsageError, match=f"others can read or change it: chmod 600 {path}$"):
        find_token(None, str(path), {})
    path.chmod(0o400)
    assert find_token(None, str(path), {})


@pytest.mark.parametrize("text", ["", "\n", "two words", "two\nlines", "caf\u00e9", "a\0b", "x" * 5000, "\ttab\tin"])
def test_what_is_no_token_is_said_and_not_shown(tmp_path: Path, text: str) -> None:
    path = token_file(tmp_path, text)
    for option, file, environment in (
        (text, None, {}),
        (None, str(path), {}),
        (None, None, {TOKEN_VARIABLE: text or " "}),
    ):
        with pytest.raises(UsageError, match="holds no token") as error:
            find_token(option, file, environment)
        assert len(text.strip()) < 2 or text.strip() not in str(error.value)


def test_files_that_can_t_be_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path, words in (
        (tmp_path / "pipe", "is not a regular file"),
        (tmp_path, "is a folder"),
        (tmp_path / "no", "No such"),
    ):
        with pytest.raises(UsageError, match=words) as error:
            find_token(None, str(path), {})
        assert "--remote_access_token_file" in str(error.value)


def test_what_is_too_short_to_be_a_secret_spoils_no_text() -> None:
    assert Token("x", "a test").hide("expired") == "expired"
    assert Token("8letters", "a test").hide("8letters expired") == "*** expired"


def test_a_token_hides_itself() -> None:
    token = Token(TOKEN, "--remote_access_token")
    assert TOKEN not in repr(token) + str(token) + repr(Sender(Spool(Path("x")), token))


@pytest.mark.parametrize(
    ("endpoint", "warned"),
    [
        ("http://results.example.org/x", True),
        ("http://192.168.1.2/x", True),
        ("http://localhost.example.org/x", True),
        ("http://localhost:80/x", False),
        ("http://127.3.2.1/x", False),
        ("http://[::1]/x", False),
        ("https://results.example.org/x", False),
    ],
)
def test_a_token_in_the_open_is_warned_of(
    endpoint: str, warned: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert is_open(endpoint) == warned
    for token in (None, Token(TOKEN, "")):
        RemoteReporter(Place(endpoint, "c"), Sender(Spool(tmp_path), token)).check()
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * warned
    assert TOKEN not in caplog.text


def test_servers_are_distinguished() -> None:
    assert origin("https://a/x") == origin("https://a:443/y") != origin("https://a:444/x")
    assert origin("http://a/x") == "http://a:80" != origin("https://a/x")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for localhost that nobody signed, and its key, in one file."""
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", str(path) + ".key"]
    subprocess.run(["openssl", "req", "-x509", *key, "-out", str(path), *names], check=True, capture_output=True)
    return path


def test_an_unknown_certificate_is_refused_and_one_that_is_trusted_accepted(
    certificate: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, str(certificate) + ".key")
    sender = Sender(Spool(tmp_path / "spool"), Token(TOKEN, ""))
    for variable in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(variable, raising=False)
    with ResultsServer(tls=context) as server:
        reporter: Any = RemoteReporter(parse_place(server.place), sender)
        with pytest.raises(RunError, match=r"certificate is not trusted \(self-signed.*REQUESTS_CA_BUNDLE"):
            reporter.report(samples.report(id="a"))
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "nothing"))
        with pytest.raises(RunError, match="or REQUESTS_CA_BUNDLE"):
            reporter.report(samples.report(id="a"))
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
        reporter.place = Place(reporter.place.endpoint.replace("localhost", "127.0.0.1"), "nightly")
        with pytest.raises(RunError, match=r"certificate is not trusted \(.*(IP address|127\.0\.0\.1)"):
            reporter.report(samples.report(id="b"))
        assert server.requests == []
        reporter.place = parse_place(server.place)
        assert reporter.report(samples.report(id="c")).endswith("; 1 that waited, too")
        assert list(server.stored) == ["a", "c"]
