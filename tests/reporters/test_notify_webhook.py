"""The webhook notifier, against real servers that take, refuse, fail, keep silent and send elsewhere."""

import argparse
import socket
from pathlib import Path

import pytest
import report_samples as samples
from faulty_server import Fault, ResultsServer
from hook_server import Answer, HookServer
from test_alerts import SLOWER

from opduel.records import RunError, UsageError
from opduel.reporters import add_reporter_options, chosen_reporters, http_request, report_all
from opduel.reporters.alerts import alert_of
from opduel.reporters.local import SimpleLocalReporter
from opduel.reporters.notify_webhook import NotifyWebhook
from opduel.reporters.options import WEBHOOK_VARIABLE, ReporterOptions
from opduel.reporters.screen import ScreenReporter

REPORT = samples.report([SLOWER])
SECRET = "secret"


def notifiers_of(*words: str) -> list[NotifyWebhook]:
    parser = argparse.ArgumentParser()
    add_reporter_options(parser)
    return NotifyWebhook.from_options(ReporterOptions.of(parser.parse_args(words)))


def why_not(url: str) -> str:
    """What is said of a post that isn't taken."""
    with pytest.raises(RunError) as error:
        NotifyWebhook(url).report(REPORT)
    assert SECRET not in str(error.value)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_confirmed_regression_is_posted_with_the_place_of_its_report(tmp_path: Path) -> None:
    local = SimpleLocalReporter(tmp_path)
    with HookServer() as server:
        notifier = NotifyWebhook(server.url())
        notifier.meet([local, notifier])
        outcome = report_all([local, notifier], REPORT)
    assert outcome.failures == ()
    assert outcome.lines[-1] == "notified (--notify_webhook): 1 case regressed"
    ((path, message),) = server.posts
    assert path == "/services/T0/B0/secret"
    assert "nd.dot/forward  +8.3 % [+7.1, +9.4]" in message["text"]
    assert f"report     {tmp_path / 'report.json'}" in message["text"]
    assert [block["type"] for block in message["blocks"]] == ["section"] * 3


def test_nothing_is_posted_of_a_run_without_anything_confirmed() -> None:
    with HookServer() as server:
        assert NotifyWebhook(server.url()).report(samples.report([samples.comparison("a")])) is None
        line = NotifyWebhook(server.url()).report(samples.report([samples.comparison("a", "regressed", 1.5)]))
        assert server.posts == []
    assert line == "not notified (--notify_webhook): 1 regressed, not verified: add --verify, or --notify_unverified"


def test_the_switch_makes_it_tell_of_what_was_measured_once() -> None:
    with HookServer() as server:
        (notifier,) = notifiers_of("--notify_webhook", server.url(), "--notify_unverified")
        notifier.report(samples.report([samples.comparison("a", "regressed", 1.5)]))
        assert "NOT VERIFIED" in server.posts[0][1]["text"]


@pytest.mark.parametrize("status", [429, 500, 507, 529])
def test_a_server_that_fails_is_asked_again(status: int) -> None:
    with HookServer(Answer(500), Answer(status), Answer(200)) as server:
        NotifyWebhook(server.url()).report(REPORT)
        assert len(server.posts) == 3


def test_a_server_that_goes_on_failing_is_given_up() -> None:
    with HookServer(Answer(503)) as server:
        assert why_not(server.url()) == "127.0.0.1: the server says 503 Service Unavailable"
        assert len(server.posts) == 3


@pytest.mark.parametrize("status", [400, 403, 404, 410, 799])
def test_one_that_refuses_is_not_asked_again(status: int) -> None:
    with HookServer(Answer(status, body=b"secret words")) as server:
        assert f"the server says {status}" in why_not(server.url())
        assert len(server.posts) == 1


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_no_redirection_is_followed(status: int) -> None:
    with HookServer() as other, HookServer(Answer(status, headers={"Location": other.url()})) as server:
        assert "no redirection is followed" in why_not(server.url())
        assert (len(server.posts), other.posts) == (1, [])


def test_one_that_keeps_silent_is_asked_once_and_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_request.send, "__defaults__", (http_request.Limits(silence_s=0.5),))
    with HookServer(Answer(silent_s=60)) as server:
        assert "no answer for 0.5 s: the message may have been delivered" in why_not(server.url())
        assert len(server.posts) == 1


def test_nobody_there_is_asked_again() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # and nobody listens
        why = why_not(f"http://127.0.0.1:{unused.getsockname()[1]}/{SECRET}")
    assert why == "127.0.0.1: no connection (Connection refused)"


def test_one_that_reads_it_and_says_nothing_is_asked_once() -> None:
    with ResultsServer(Fault(), Fault(), Fault()) as server:
        message = why_not(server.endpoint.replace("/api", f"/{SECRET}"))
        assert len(server.requests) == 1
    assert message == "localhost: the connection ended (RemoteDisconnected): the message may have been delivered"


def test_a_file_of_certificates_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nonexistent.pem")
    assert "REQUESTS_CA_BUNDLE" in why_not(f"https://localhost:9/{SECRET}")
    assert capsys.readouterr().err == ""  # no thread's traceback


@pytest.mark.parametrize(
    "url",
    ["hooks.slack.com/secret", "ftp://host/secret", "https:///secret", "http://[secret", "https://h:secret/", "https://h/\nsecret"],
)  # fmt: skip
def test_what_is_no_address_is_refused_before_anything_is_measured_and_not_shown(url: str) -> None:
    with pytest.raises(UsageError, match="not an http") as error:
        notifiers_of("--notify_webhook", url)
    assert SECRET not in str(error.value)


def test_the_address_may_be_in_a_file_or_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hook").write_text("https://one.example/secret\n")
    monkeypatch.setenv(WEBHOOK_VARIABLE, "https://two.example/secret\n")
    assert [notifier._host for notifier in notifiers_of("--notify_webhook", f"@{tmp_path}/hook")] == ["one.example"]
    assert [notifier._host for notifier in notifiers_of()] == ["two.example"]
    monkeypatch.setenv(WEBHOOK_VARIABLE, "")
    assert notifiers_of() == []
    (tmp_path / "hook").write_text("")
    for name, message in (("hook", "holds 0 words"), ("gone", "cannot be read")):
        with pytest.raises(UsageError, match=message):
            notifiers_of("--notify_webhook", f"@{tmp_path}/{name}")


def test_who_gave_a_wrong_address_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hook").write_text("secret")
    with pytest.raises(UsageError, match=rf"^--notify_webhook @{tmp_path}/hook: not an http"):
        notifiers_of("--notify_webhook", f"@{tmp_path}/hook")
    monkeypatch.setenv(WEBHOOK_VARIABLE, "secret")
    with pytest.raises(UsageError, match=rf"^{WEBHOOK_VARIABLE}: not an http"):
        notifiers_of()
    monkeypatch.setenv(WEBHOOK_VARIABLE, f"@{tmp_path}/hook")
    with pytest.raises(UsageError, match=rf"^{WEBHOOK_VARIABLE} @{tmp_path}/hook: not an http"):
        notifiers_of()


def test_the_switch_goes_with_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WEBHOOK_VARIABLE, "https://two.example/secret")
    assert [notifier.unverified for notifier in notifiers_of("--notify_unverified") + notifiers_of()] == [True, False]


def test_a_variable_that_is_set_silences_no_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WEBHOOK_VARIABLE, "https://two.example/secret")
    parser = argparse.ArgumentParser()
    add_reporter_options(parser)
    chosen = chosen_reporters(ReporterOptions.of(parser.parse_args([])), terminal=False)
    assert [type(reporter) for reporter in chosen] == [ScreenReporter, NotifyWebhook]


def test_it_fails_no_other_reporter(tmp_path: Path) -> None:
    with HookServer(Answer(404)) as server:
        outcome = report_all([NotifyWebhook(server.url()), SimpleLocalReporter(tmp_path)], REPORT)
    assert outcome.lines == (f"report: {tmp_path / 'report.json'}",)
    assert outcome.failures == (
        "--notify_webhook failed: 127.0.0.1: the server says 404 Not Found: correct the address",
    )


def test_there_is_something_to_tell() -> None:
    assert alert_of(REPORT) is not None
