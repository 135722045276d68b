"""Alerts from several processes at once: every change point is sent once, and none is lost by one that is killed."""

import os
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from results_server import RunningServer, running_server
from sqlalchemy import update
from test_server_branches import keep, nights

from opduel.records import RunError
from opduel.reporters.alerts import Alert
from opduel.reporters.notifier import Notifier
from opduel.server.alerts import send_alerts
from opduel.server.command_line import main
from opduel.server.models import Notice


class Recorder(Notifier):
    """Keeps what it is sent; fails, or is killed, as often as configured."""

    option = "made_notifier"

    def __init__(self, *fails: BaseException) -> None:
        self.sent: list[Alert] = []
        self.fails = list(fails)

    def send(self, alert: Alert) -> None:
        if self.fails:
            raise self.fails.pop(0)
        time.sleep(0.1)  # the other one comes meanwhile
        self.sent.append(alert)


@pytest.fixture
def server(tmp_path: Path, database_url: str) -> Iterator[RunningServer]:
    """Yield a server with a step that has not been analysed yet, on either database."""
    with running_server(tmp_path, database_url) as running:
        keep(running, *nights("main", 1.08), analyse=False)
        yield running


def test_many_at_once_send_it_once(server: RunningServer) -> None:
    """Each of them weighs it, and finds that nothing was delivered."""
    recorder, begin, failures = Recorder(), threading.Barrier(6), []

    def alert() -> None:
        begin.wait()
        try:
            failures.extend(send_alerts(server.database, [recorder], None))
        except Exception as error:
            failures.append(repr(error))

    threads = [threading.Thread(target=alert) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert [alert.regressed for alert in recorder.sent] == [1]
    send_alerts(server.database, [recorder], None)
    assert len(recorder.sent) == 1


def test_two_processes_at_once_send_it_once(server: RunningServer, tmp_path: Path) -> None:
    """The second one begins and ends while the first one, forked from this process, is sending."""
    out, go = tmp_path / "sent", tmp_path / "go"
    url = server.database.url.render_as_string(hide_password=False).replace("+pysqlite", "").replace("+psycopg", "")
    note = f"echo sent >> {out}"
    wait = f"{note}; while [ ! -e {go} ]; do sleep 0.05; done"
    alert = ["alert", "--database", url, "--notify_command"]
    first = os.fork()
    if first == 0:
        code = 1
        try:
            code = main([*alert, f"sh -c '{wait}'"])
        finally:
            os._exit(code)
    while not out.exists():
        assert os.waitpid(first, os.WNOHANG) == (0, 0)
        time.sleep(0.02)
    assert main([*alert, f"sh -c '{note}'"]) == 0
    assert os.waitpid(first, os.WNOHANG) == (0, 0)
    go.touch()
    assert os.waitpid(first, 0)[1] == 0
    assert out.read_text(encoding="utf-8") == "sent\n"


def test_what_fails_is_free_at_once_and_what_was_killed_after_a_while(server: RunningServer) -> None:
    recorder = Recorder(RunError("not reached"), KeyboardInterrupt())
    (failure,) = send_alerts(server.database, [recorder], None)
    assert "not reached" in failure
    with pytest.raises(KeyboardInterrupt):
        send_alerts(server.database, [recorder], None)
    for minutes, times in ((9, 0), (11, 1)):
        with server.database.writing() as session:  # as kill -9 leaves it
            session.execute(update(Notice).values(claimed=datetime.now(UTC) - timedelta(minutes=minutes)))
        assert send_alerts(server.database, [recorder], None) == []
        assert len(recorder.sent) == times
