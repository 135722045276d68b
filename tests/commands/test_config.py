"""Which builds are measured: command line over config over defaults, and it says which; the config file itself."""

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Outcome
from made_reports import Measuring, build

from opduel.commands.config import (
    QUESTIONS,
    UNASKED,
    config_path,
    default_reports,
    forget_config,
    read_config,
    write_config,
)
from opduel.commands.options import read_options
from opduel.driver.builds import BuildCache, load_releases
from opduel.frameworks import Framework, get_framework
from opduel.records import Build, RunError, UsageError

Run = Callable[..., Outcome]


@pytest.fixture
def resolved(measuring: Measuring) -> list[tuple[str, Path]]:
    """What builds were asked for, in order, and in which cache; nothing is built or measured."""
    requests: list[tuple[str, Path]] = []

    def resolve(request: str, framework: Framework, cache: BuildCache, *_: object) -> Build:
        requests.append((request, cache.directory))
        return build(request)

    measuring.resolve = resolve
    return requests


def configure(home: Path, **answers: str) -> Path:
    write_config(config_path(), answers)
    return home / "config" / "opduel" / "config.json"


def test_without_config_the_frameworks_defaults_are_taken_and_named(run: Run, resolved: list[tuple[str, Path]]) -> None:
    outcome = run("-b", "smoke")
    releases = load_releases(get_framework("mxnet"))
    assert [request for request, _ in resolved] == [releases.default_control, releases.default_treatment]
    assert f"control: {releases.default_control}, from {releases.path}\n" in outcome.err
    assert f"treatment: {releases.default_treatment}, from {releases.path}\n" in outcome.err


def test_the_config_comes_before_the_defaults_and_is_named(
    run: Run, home: Path, resolved: list[tuple[str, Path]]
) -> None:
    path = configure(home, control="mxnet==1.6.0")
    outcome = run("-b", "smoke")
    releases = load_releases(get_framework("mxnet"))
    assert [request for request, _ in resolved] == ["mxnet==1.6.0", releases.default_treatment]
    assert f"control: mxnet==1.6.0, from {path}\n" in outcome.err
    assert f"treatment: {releases.default_treatment}, from {releases.path}\n" in outcome.err


def test_the_command_line_comes_before_the_config(run: Run, home: Path, resolved: list[tuple[str, Path]]) -> None:
    configure(home, control="mxnet==1.6.0", treatment="mxnet==1.7.0.post2")
    outcome = run("-b", "smoke", "--control=/my/build")
    assert [request for request, _ in resolved] == ["/my/build", "mxnet==1.7.0.post2"]
    assert "harness.py: control: " not in outcome.err
    assert " cases of smoke.json, /my/build against mxnet==1.7.0.post2" in outcome.err


def test_the_build_cache_is_where_the_user_says(
    run: Run, home: Path, resolved: list[tuple[str, Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    run("-b", "smoke")
    run("-b", "smoke", "--exec_dir", str(home / "elsewhere"))
    directories = [directory for _, directory in resolved]
    assert directories == 2 * [home / "cache" / "opduel" / "builds"] + 2 * [home / "elsewhere"]


def test_the_users_folders_are_honoured(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert config_path() == home / "config" / "opduel" / "config.json"
    assert default_reports() == home / "state" / "opduel" / "reports"
    for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(variable)
    monkeypatch.setenv("HOME", str(home))
    assert config_path() == home / ".config" / "opduel" / "config.json"
    assert default_reports() == home / ".local" / "state" / "opduel" / "reports"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", ["not JSON", "correct it, or remove it"]),
        (b"\xff\xfe", ["not UTF-8", "correct it, or remove it"]),
        (b"", ["not JSON", "correct it, or remove it"]),
        (b"[" * 100_000, ["nested too deeply", "correct it, or remove it"]),
        (b"[]", ["one JSON object", "correct it, or remove it"]),
        (b'{"controll": "x"}', ["controll", "control, treatment"]),
        (b'{"control": ""}', ["control: must be a non-empty string"]),
        (b'{"treatment": 1.9}', ["treatment: must be a non-empty string"]),
    ],
)
def test_a_bad_config_names_file_field_and_fix(run: Run, home: Path, content: bytes, words: list[str]) -> None:
    config_path().parent.mkdir(parents=True)
    config_path().write_bytes(content)
    line = run("-b", "smoke").error_line()
    for word in [str(config_path()), *words]:
        assert word in line


def test_a_config_that_cant_be_read_is_the_users_to_fix(run: Run, home: Path) -> None:
    config_path().mkdir(parents=True)
    assert f"{config_path()}: cannot be read" in run("-b", "smoke").error_line()


def test_a_pipe_in_the_configs_place_is_neither_waited_for_nor_replaced(run: Run, home: Path) -> None:
    config_path().parent.mkdir(parents=True)
    os.mkfifo(home / "pipe")
    config_path().symlink_to(home / "pipe")
    assert f"{config_path()}: cannot be read: is not a regular file" in run("-b", "smoke").error_line()
    with pytest.raises(RunError, match="is not a regular file"):
        write_config(config_path(), {"control": "x"})
    assert (home / "pipe").is_fifo()


def test_a_broken_config_stops_nothing_that_needs_none_of_its_answers(
    run: Run, home: Path, resolved: list[tuple[str, Path]]
) -> None:
    config_path().parent.mkdir(parents=True)
    config_path().write_text("{broken")
    both = ("--control", "mxnet==1.6.0", "--treatment", "mxnet==1.7.0.post2")
    assert run("-b", "smoke", *both, "--local_reporter", str(home / "reports")).code == 0
    for options in ((), both[:2], both):
        build_count = len(resolved)
        assert f"{config_path()}: cannot be read: is not JSON" in run("-b", "smoke", *options).error_line()
        assert len(resolved) == build_count, "it is said before a build is made"


def test_what_is_kept_can_be_read_back_by_its_user_alone(home: Path) -> None:
    answers = {"control": "mxnet==1.6.0", "local_reporter": "/naïve ☃"}
    write_config(config_path(), answers)
    assert read_config(config_path()) == answers
    assert stat.S_IMODE(config_path().stat().st_mode) == 0o600
    assert os.listdir(config_path().parent) == ["config.json"]


def test_a_write_that_fails_leaves_the_old_config(home: Path, full_disk: Callable[[str], None]) -> None:
    write_config(config_path(), {"control": "old"})
    full_disk("replace")
    with pytest.raises(RunError, match=r"config\.json: cannot be written: No space left"):
        write_config(config_path(), {"control": "new"})
    assert read_config(config_path()) == {"control": "old"}
    assert os.listdir(config_path().parent) == ["config.json"]


def test_a_config_that_is_a_link_stays_one(home: Path) -> None:
    config_path().parent.mkdir(parents=True)
    config_path().symlink_to(home / "dotfiles.json")
    write_config(config_path(), {"control": "new"})
    assert config_path().is_symlink()
    assert json.loads((home / "dotfiles.json").read_text()) == {"control": "new"}


def test_forgetting(home: Path) -> None:
    assert not forget_config(config_path())
    write_config(config_path(), {"control": "x"})
    assert forget_config(config_path())
    assert read_config(config_path()) == {}
    config_path().mkdir()
    with pytest.raises(RunError, match="cannot be removed"):
        forget_config(config_path())


def test_every_answer_is_an_option_of_harness() -> None:
    parsed = read_options(["-b", "x"])
    assert {*QUESTIONS, *UNASKED} <= {*parsed.values(), *vars(parsed.reporting)}
    with pytest.raises(UsageError):
        read_options(["-b", "x", "--no_such_option"])
