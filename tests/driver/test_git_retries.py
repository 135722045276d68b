"""A remote that fails, or a command that was killed: what is tried again, and that the next start opens it."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from made_repository import RemoteRepository, Server, command_lines, forked, run, serve

from opduel.driver.git.repository import Repository, open_repository
from opduel.driver.version_control import RemoteGone
from opduel.records import RunError

OPEN = (
    "import sys; from pathlib import Path; from opduel.driver.git.repository import open_repository as o; "
    "r = o(Path(sys.argv[1]), "
)
ROOT = Path(__file__).resolve().parents[2]


def start(expression: str, work: Path, *arguments: str) -> "subprocess.Popen[bytes]":
    """A process of its own that opens a repository, to be killed."""
    command = [sys.executable, "-c", OPEN + expression, str(work), *arguments]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE)


def clones(url: str) -> list[str]:
    """The command lines of running git clones of something on that server."""
    return [line for line in command_lines() if " clone " in line and url in line and "-c" not in line.split()[:2]]


def ids(repository: Repository, *names: str) -> list[str]:
    return [repository.resolve(name).id for name in names]


def test_locks_of_killed_commands_do_not_block(origin: RemoteRepository, work: Path) -> None:
    repository = open_repository(work, str(origin.path))
    repository.checkout(repository.resolve("main"), work / "tree")
    place = repository.directory
    locks = [
        "packed-refs.lock",
        "packed-refs.new",
        "config.lock",
        "HEAD.lock",
        "shallow.lock",
        "objects/pack/tmp_pack_x",
    ]
    locks += ["refs/remotes/origin/main.lock", "refs/tags/v2.lock", "objects/info/commit-graph.lock", "index.lock"]
    locks += ["worktrees/tree/index.lock", "objects/tmp_objdir-incoming-x/y", "refs/remotes/origin/empty"]
    for name in locks:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text("")
    (work / "repository.git.making" / ".git").mkdir(parents=True)
    origin.commit()
    origin.branch("more", origin.tip("main"))
    pauses: list[float] = []
    repository = open_repository(work, str(origin.path), sleep=pauses.append)
    repository.fetch()
    assert not pauses
    assert ids(repository, "main", "more") == [origin.tip("main")] * 2
    assert not [name for name in locks if (place / name).exists()]
    assert not (work / "repository.git.making").exists()
    run("pack-refs", "--all", at=place)


@pytest.mark.parametrize(
    ("retries", "words"), [(True, "failed 3 times; git's last error: fatal: "), (False, "git said: fatal: ")]
)
def test_a_clone_that_fails_is_tried_three_times_unless_somebody_only_looks(
    work: Path, origin: RemoteRepository, retries: bool, words: str
) -> None:
    pauses: list[float] = []
    with pytest.raises(RemoteGone, match=f"^cloning http://127.0.0.1:9/x: {words}") as raised:
        open_repository(work, "http://127.0.0.1:9/x", sleep=pauses.append, retries=retries)
    assert len(pauses) == (2 if retries else 0)
    assert [0.0, *pauses] == sorted({0.0, *pauses})
    assert sum(pauses) <= 10, "somebody is watching"
    assert "\n" not in str(raised.value)
    assert isinstance(raised.value, RunError)
    assert not (work / "repository.git").exists()


@pytest.mark.parametrize(
    ("remote", "message"),
    [
        ("ext::sh -c true", "transport 'ext' not allowed"),
        ("fd::99", "transport 'fd' not allowed"),
        ("{server}/nothing.git", "not found"),
        ("{locked}/remote.git", "could not read Username"),
        ("gopher://127.0.0.1/x", "gopher"),
        ("nosuchhelper::x", "nosuchhelper"),
        ("http://[::1/x.git", "fatal: "),
    ],
)
def test_what_can_never_work_is_not_tried_again(
    remote: str, message: str, work: Path, origin: RemoteRepository, tmp_path: Path
) -> None:
    pauses: list[float] = []
    with serve(origin.path.parent) as server, serve(origin.path.parent, ("ada", "password")) as locked:
        url = remote.format(server=server.url, locked=locked.url)
        with pytest.raises(RemoteGone, match=r"^cloning .*correct the address, or git's access to it$") as raised:
            open_repository(work, url, sleep=pauses.append)
    assert message in str(raised.value)
    assert pauses == []


@pytest.mark.parametrize(
    ("silence_s", "time_limit", "words"), [("60", 0.5, r"not done after 0\.5 s"), ("1", 30.0, "too slow")]
)
def test_a_server_that_says_nothing_is_given_up(
    origin: RemoteRepository,
    work: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    silence_s: str,
    time_limit: float,
    words: str,
) -> None:
    monkeypatch.setenv("GIT_HTTP_LOW_SPEED_TIME", silence_s)
    released = threading.Event()
    with serve(tmp_path) as server:
        server.hold = lambda: released.wait(60) and None
        with pytest.raises(RemoteGone, match=words):
            open_repository(work, f"{server.url}/remote.git", retries=False, time_limit=time_limit)
        released.set()
    assert not [line for line in command_lines() if server.url in line]
    assert not (work / "repository.git.making").exists()


@contextmanager
def half_way(work: Path, root: Path) -> Iterator[tuple[Server, "subprocess.Popen[bytes]"]]:
    """A server that holds a clone back until the context's end, or until ``hold`` is None, and the clone's process."""
    reached, released = threading.Event(), threading.Event()

    def hold() -> None:
        reached.set()
        while server.hold and not released.wait(0.05):
            pass

    with serve(root) as server:
        server.hold = hold
        child = start("sys.argv[2])", work, f"{server.url}/remote.git")
        assert reached.wait(60)
        assert clones(server.url)
        try:
            yield server, child
        finally:
            released.set()


def test_a_clone_killed_half_way_is_repeated(origin: RemoteRepository, work: Path, tmp_path: Path) -> None:
    with half_way(work, tmp_path) as (server, child):
        child.kill()
        child.wait()
        assert (work / "repository.git.making").exists()
        assert not (work / "repository.git").exists()
        server.hold = None
        repository = open_repository(work, f"{server.url}/remote.git")  # waits for the end of the clone
        assert not clones(server.url)
    assert child.returncode == -signal.SIGKILL
    assert ids(repository, "main") == [origin.tip("main")]


def test_an_interrupt_ends_the_running_command(origin: RemoteRepository, work: Path, tmp_path: Path) -> None:
    with half_way(work, tmp_path) as (server, child):
        child.send_signal(signal.SIGINT)
        assert child.wait(30) != 0
        assert not clones(server.url)  # though the server still keeps it waiting


@pytest.mark.parametrize("borrow", [False, True])
def test_killed_at_any_moment_it_opens_again(origin: RemoteRepository, user: Path, work: Path, borrow: bool) -> None:
    origin.line(50)

    def fetched(folder: Path) -> Repository:
        repository = open_repository(folder, *(("origin", user) if borrow else (str(origin.path),)))
        repository.fetch()
        return repository

    started = time.monotonic()
    complete = forked(fetched, work / "complete")
    complete.join()
    assert complete.exitcode == 0
    duration = 0.8 * (time.monotonic() - started)
    kills = 0
    while kills < 3:  # each a little sooner after its start, as long as a machine that got faster asks for it
        child = forked(fetched, work / "killed")
        child.join(duration)
        child.kill()
        child.join()
        kills += child.exitcode == -signal.SIGKILL
        origin.commit()
        duration *= 0.75
    repository = fetched(work / "killed")
    assert ids(repository, "main") == [origin.tip("main")]
    assert os.listdir(work / "killed").count("repository.git") == 1
    run("fsck", "--connectivity-only", at=repository.directory)
