"""Runs that post their reports: exit codes are the run's own, tokens stay secret, and --flush sends what waited."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from command_line import SAME_BUILD, Outcome, only_report
from faulty_server import TOKEN, Fault, ResultsServer, refusal
from made_reports import Measuring, comparison

from opduel.commands.config import config_path
from opduel.driver.journal import Journal
from opduel.reporters.options import TOKEN_VARIABLE
from opduel.reporters.remote.place import Place
from opduel.reporters.remote.spool import Spool

Run = Callable[..., Outcome]
MINIMAL = ("-b", "smoke", *SAME_BUILD)


@pytest.fixture(autouse=True)
def no_proxy(measuring: Measuring, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def spool(home: Path) -> Spool:
    return Spool(home / "state" / "opduel" / "spool")


def wait_in(home: Path, endpoint: str, *runs: str) -> None:
    """Reports of earlier runs."""
    for run in runs:
        body = json.dumps({"category": "nightly", "report": {"run": {"id": run}}}).encode()
        spool(home).keep(Place(endpoint, "nightly"), run, body)


def fields(outcome: Outcome) -> list[list[str]]:
    """The lines of --flush, each as its state, run and explanation."""
    header, *lines = (line.split("\t") for line in outcome.out.splitlines())
    assert header == ["#state", "run", "category", "endpoint", "what", "entry"]
    return [[line[0], line[1], line[4]] for line in lines]


@pytest.mark.parametrize("joined", [False, True])
def test_what_is_posted_is_what_is_on_disk_and_no_token_is_in_either(run: Run, home: Path, joined: bool) -> None:
    token = [f"--remote_access_token={TOKEN}"] if joined else ["--remote_access_token", TOKEN]
    with ResultsServer() as server:
        outcome = run(*MINIMAL, "--remote_reporter", server.place, *token)
        assert outcome.code == 0
        (body,) = server.stored.values()
    posted = json.loads(body)
    assert posted == {"category": "nightly", "report": only_report(home)}
    assert "***" in " ".join(posted["report"]["run"]["command"])
    assert f"sent: {server.endpoint} (nightly)\n" in outcome.err
    everything = [path.read_bytes() for path in home.rglob("*") if path.is_file()]
    assert not any(TOKEN.encode() in content for content in (*everything, body, outcome.out.encode()))
    assert TOKEN not in outcome.err


@pytest.mark.parametrize(("verdict", "code"), [("unchanged", 0), ("regressed", 1)])
def test_a_server_that_won_t_have_it_costs_no_run_and_flush_sends_it(
    run: Run,
    bench: Run,
    home: Path,
    measuring: Measuring,
    monkeypatch: pytest.MonkeyPatch,
    verdict: Any,
    code: int,
) -> None:
    measuring.give(comparison(verdict))
    monkeypatch.setenv(TOKEN_VARIABLE, "tok-old")
    with ResultsServer() as server:
        outcome = run(*MINIMAL, "--remote_reporter", server.place)
        assert outcome.code == code
        (path,) = (home / "state").rglob("report.json")
        last = outcome.err.splitlines()[-1]
        assert last.startswith(f"harness.py: --remote_reporter failed: {server.endpoint}: it says 401 Unauthorized")
        assert last.endswith(f"; the data is in {path}")
        assert "tok-old" not in outcome.err
        reason = last[last.index("it says") :].partition("; 1 report waits")[0]
        outcome = bench("--flush")
        assert (outcome.code, fields(outcome)) == (3, [["waiting", "made", reason]])
        monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
        outcome = bench("--flush")
        assert (outcome.code, fields(outcome)) == (0, [["sent", "made", "stored"]])
        assert "1 sent, in" in outcome.err
        outcome = bench("--flush")
        assert (outcome.code, fields(outcome)) == (0, [])
        assert len(server.stored) == 1


def test_nothing_waits_where_there_is_no_spool(bench: Run, home: Path) -> None:
    outcome = bench("--flush")
    assert (outcome.code, outcome.out) == (0, "")
    assert "nothing waits" in outcome.err
    assert list(home.iterdir()) == []


def test_flush_says_what_became_of_each_and_refused_ones_are_sent_when_asked_for(bench: Run, home: Path) -> None:
    token = ("--remote_access_token", TOKEN)
    with ResultsServer(refusal(413, "too\tlarge\x1b[2J")) as server:
        wait_in(home, server.endpoint, "a", "b", "c")
        with closing(sqlite3.connect(spool(home).directory / "outbox.db")) as beside:
            beside.execute("UPDATE outbox SET payload = substr(payload, 2) WHERE key = 'b'")
            beside.commit()
        outcome = bench("--flush", *token)
        assert outcome.code == 3
        a, b, c = fields(outcome)
        assert (a[:2], b[:2], c) == (["refused", "a"], ["damaged", "b"], ["sent", "c", "stored"])
        assert "413" in a[2]
        assert "too large\\\\x1b[2J" in a[2]
        assert "1 damaged, 1 refused, 1 sent" in outcome.err
        outcome = bench("--flush", *token)
        assert outcome.code == 3
        assert [line[:2] for line in fields(outcome)] == [["refused", "a"]]
        assert len(server.requests) == 2
        outcome = bench("--flush", "--retry_refused", *token)
        assert (outcome.code, fields(outcome)) == (0, [["sent", "a", "stored"]])
        assert TOKEN not in outcome.err + outcome.out


def test_one_server_s_token_is_not_sent_to_another(bench: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    with ResultsServer() as server, ResultsServer() as other:
        wait_in(home, server.endpoint, "a")
        wait_in(home, other.endpoint, "b")
        line = bench("--flush").error_line()
        assert "reports wait for several servers" in line
        assert "--remote_reporter" in line
        assert not server.requests + other.requests
        outcome = bench("--flush", "--remote_reporter", server.place)
        assert (outcome.code, [line[:2] for line in fields(outcome)]) == (0, [["sent", "a"]])
        assert other.requests == []
        monkeypatch.delenv(TOKEN_VARIABLE)
        assert [line[:2] for line in fields(bench("--flush"))] == [["waiting", "b"]]


def test_what_was_refused_keeps_no_token_from_the_others(bench: Run, home: Path) -> None:
    token = ("--remote_access_token", TOKEN)
    with ResultsServer(refusal(413)) as server, ResultsServer() as other:
        wait_in(home, server.endpoint, "a")
        bench("--flush", *token)
        wait_in(home, other.endpoint, "b")
        outcome = bench("--flush", *token)
        assert [line[:2] for line in fields(outcome)] == [["refused", "a"], ["sent", "b"]]
        (entry,) = spool(home).entries()
        assert outcome.out.splitlines()[1].endswith(f"\t{entry.number}")
        wait_in(home, other.endpoint, "c")
        line = bench("--flush", "--retry_refused", *token).error_line()
        assert f"{server.endpoint} in entry {entry.number}" in line
        assert "--give_up 99: no such entry" in bench("--flush", "--give_up", "99").error_line()
        outcome = bench("--flush", "--give_up", str(entry.number), *token)
        assert (outcome.code, fields(outcome)) == (0, [["sent", "c", "stored"]])
        assert f"gave up entry {entry.number}, the run a" in outcome.err


def test_what_waits_in_a_drivers_journal_is_shown_and_not_sent(
    bench: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "work").mkdir()
    with closing(Journal(home / "work" / "journal.db")) as journal:
        journal.finish_run("line/benchmark", "a report")
        journal.queue_notice("alert", ["notify_command 0"], "slower", [])
    monkeypatch.setenv("HOME", str(home))
    for place in (str(home / "work"), "~/work"):
        outcome = bench("--flush", f"--work_dir={place}")
        words = "the driver's next pass delivers it"
        assert (outcome.code, fields(outcome)) == (3, [["waiting", run, words] for run in ("line/benchmark", "alert")])
        assert "notice\tnotify_command 0\t" in outcome.out
    assert "has no journal" in bench("--flush", "--work_dir", str(home / "none")).error_line()
    outcome = bench("--flush", "--work_dir", str(home / "work"), "--give_up", "1")
    assert "--give_up: can't be combined with --work_dir" in outcome.error_line()
    assert not (home / "none").exists()


def test_reports_on_disk_are_sent_later(run: Run, bench: Run, home: Path) -> None:
    assert run(*MINIMAL, "--simple_local_reporter", str(home / "kept")).code == 0
    path = home / "kept" / "report.json"
    token = ("--remote_access_token", TOKEN)
    with ResultsServer() as server:
        words = ("--send", str(path), str(path), "--remote_reporter", server.place, *token)
        wait_in(home, server.endpoint, "earlier")
        outcome = bench(*words)
        assert (outcome.code, fields(outcome)) == (0, [["sent", "earlier", "stored"], ["sent", "made", "stored"]])
        assert json.loads(server.stored["made"])["report"] == json.loads(path.read_text())
        assert fields(bench(*words)) == [["sent", "made", "already stored"]]
        server.faults = [Fault(413)]
        outcome = bench(*words)
        assert (outcome.code, fields(outcome)[0][:2]) == (3, ["refused", "made"])
        count = len(server.requests)
        path.write_text("{}")
        assert "schema_version: is missing" in bench(*words).error_line()
        assert len(server.requests) == count


def test_of_several_that_are_sent_one_is_wrong_and_none_is_kept(run: Run, bench: Run, home: Path) -> None:
    assert run(*MINIMAL, "--simple_local_reporter", str(home / "kept")).code == 0
    path = home / "kept" / "report.json"
    document = json.loads(path.read_text())
    del document["run"]["id"]
    (home / "nameless.json").write_text(json.dumps(document))
    (home / "bad.json").write_text("{}")
    for other, words in (("bad.json", "schema_version: is missing"), ("nameless.json", "nameless.json: has no run id")):
        outcome = bench("--send", str(path), str(home / other), "--remote_reporter", "localhost:9/x|c")
        assert words in outcome.error_line()
        assert spool(home).entries() == []


def test_a_spool_that_is_a_file(bench: Run, home: Path) -> None:
    (home / "file").write_text("precious")
    assert f"--spool {home / 'file'}: is not a folder" in bench("--flush", "--spool", str(home / "file")).error_line()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--send", "x.json"), "add --remote_reporter, the server to send to"),
        (("--send", "x.json", "--flush"), "--flush: does nothing else: leave --send out"),
        (("--send", "x.json", "--remote_reporter", "h/x|c", "--calibrate"), "--send: does nothing else: leave"),
        (("--send", "/no/x.json", "--remote_reporter", "h/x|c"), "/no/x.json: cannot be read"),
        (("--flush", "-b", "smoke"), "unrecognized arguments"),
        (("--flush", "--keep_options"), "--flush: does nothing else: leave --keep_options out"),
        (("--retry_refused", "-b", "smoke"), "unrecognized arguments: --retry_refused"),
        (("--flush", "--remote_reporter", "me:pw@host/x|c"), "use a token"),
        (("--calibrate", "--remote_reporter", "host/x|c"), "--remote_reporter: can't be combined with --calibrate"),
        (("-b", "smoke", "--remote_access_token_file", "x"), "goes with --remote_reporter"),
        (
            ("-b", "smoke", "--single", "--treatment", "mxnet==1.9.1", "--remote_reporter", "host/x|c"),
            "belongs to an A/B",
        ),
    ],
)
def test_wrong_usage_is_one_line(bench: Run, arguments: tuple[str, ...], words: str) -> None:
    assert words in bench(*arguments).error_line()


def test_the_token_s_file_may_be_kept_in_the_config(
    run: Run, bench: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = home / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    config_path().parent.mkdir(parents=True)
    config_path().write_text(json.dumps({"remote_access_token_file": str(token)}))
    with ResultsServer() as server:
        assert "sent: " in run(*MINIMAL, "--remote_reporter", server.place).err
        wait_in(home, server.endpoint, "a")
        assert bench("--flush").code == 0
        monkeypatch.setenv(TOKEN_VARIABLE, "tok-environment")  # comes before it
        run(*MINIMAL, "--remote_reporter", server.place)
        assert server.requests[-1].headers["Authorization"] == "Bearer tok-environment"
        config_path().write_text("{broken")  # and then nothing is asked of the config
        assert str(config_path()) not in bench("--flush").err
        config_path().unlink()
    assert run(*MINIMAL).code == 0  # who sends nothing needs no token


def test_a_token_s_file_that_others_can_read_is_said_before_anything_is_measured(
    run: Run, home: Path, measuring: Measuring
) -> None:
    (home / "token").write_text(TOKEN)
    (home / "token").chmod(0o644)
    words = ("--remote_reporter", "host/x|c", "--remote_access_token_file", str(home / "token"))
    line = run(*MINIMAL, *words).error_line()
    assert f"chmod 600 {home / 'token'}" in line
    assert TOKEN not in line
    assert measuring.requests == []


def test_another_spool(run: Run, bench: Run, home: Path) -> None:
    place = ("--spool", str(home / "mine"), "--remote_access_token", "tok-old")
    with ResultsServer(Fault(400)) as server:
        assert run(*MINIMAL, "--remote_reporter", server.place, *place).code == 0
        assert [entry.key for entry in Spool(home / "mine").entries()] == ["made"]
        assert not spool(home).directory.exists()
        assert [line[:2] for line in fields(bench("--flush", *place))] == [["refused", "made"]]


def test_a_run_that_will_go_on_is_posted_when_it_is_complete(run: Run, home: Path, measuring: Measuring) -> None:
    """A server takes one report of a run: the first part would stand in the way of the whole."""
    words = (*MINIMAL, "--round_log", str(home / "rounds"), "--remote_access_token", TOKEN)
    with ResultsServer() as server:
        measuring.give(comparison("unchanged"), complete=False, resumable=True, stop_reason="the time budget")
        outcome = run(*words, "--remote_reporter", server.place)
        assert (outcome.code, server.requests) == (0, [])
        assert "--remote_reporter: not sent yet, as the run is not complete" in outcome.err
        measuring.give(comparison("unchanged"))
        assert run(*words, "--remote_reporter", server.place).code == 0
        assert len(server.stored) == 1


def test_a_run_that_can_not_go_on_is_posted_though_it_is_not_complete(
    run: Run, home: Path, measuring: Measuring
) -> None:
    """Its verification has ended, and the first measurement is over for good: no later report would come."""
    measuring.give(comparison("unchanged"), complete=False, resumable=False, stop_reason="70% of the time budget")
    with ResultsServer() as server:
        words = ("--round_log", str(home / "rounds"), "--remote_access_token", TOKEN, "--remote_reporter", server.place)
        assert run(*MINIMAL, *words).code == 0
        assert len(server.stored) == 1
    assert not (home / "rounds").exists()
