"""run_bench.py: asks on the first use, on a terminal only; keeps the answers; passes everything else through."""

import io
import os
import pty
import signal
import sys
import threading
import time
from pathlib import Path

import pytest
from command_line import (
    ANYWAY,
    LONG_S,
    PYTHON_SPEC,
    RUN_BENCH,
    OnTerminal,
    Outcome,
    only_report,
    run_bench_main,
    run_script,
    write_spec,
)

from opduel.commands import run_bench
from opduel.commands.config import config_path, read_config, write_config
from opduel.commands.options import read_options
from opduel.driver.builds import load_releases
from opduel.frameworks import get_framework

# Good usage that harness.py refuses at once, after the asking: nothing is built or measured.
REFUSED = ("-b", "smoke", "--threads", "100000")


@pytest.fixture
def environment(home: Path) -> dict[str, str]:
    return {name: os.environ[name] for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME")}


@pytest.fixture
def passed_on(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What harness.py would be given, a list for each time."""
    calls: list[list[str]] = []

    def note(program: str, words: list[str]) -> int:
        calls.append(list(words))
        return 0

    monkeypatch.setattr(run_bench, "run_harness", note)
    return calls


def answer(terminal: OnTerminal, *answers: str) -> Outcome:
    """Give the three answers, each when its question has been put."""
    for question, text in zip(("Control build", "Treatment build", "Folder"), answers, strict=True):
        terminal.wait_for(rf"{question}[^\n]*[])]: ")
        terminal.type(f"{text}\n")
    return terminal.end()


def test_the_first_use_asks_and_keeps_and_the_second_does_not_ask(environment: dict[str, str], home: Path) -> None:
    with OnTerminal(RUN_BENCH, REFUSED, environment) as terminal:
        outcome = answer(terminal, "mxnet==1.7.0.post2", "", "~/my reports")
    assert outcome.code == 2
    assert "--threads 100000" in outcome.err
    assert str(config_path()) in outcome.err
    default = load_releases(get_framework("mxnet")).default_treatment
    answers = {
        "control": "mxnet==1.7.0.post2",
        "treatment": default,
        "local_reporter": os.path.expanduser("~/my reports"),
    }
    assert read_config(config_path()) == answers
    with OnTerminal(RUN_BENCH, REFUSED, environment) as terminal:
        outcome = terminal.end()
    assert "Control build" not in outcome.err
    assert outcome.code == 2


def test_only_what_is_missing_is_asked(environment: dict[str, str]) -> None:
    write_config(config_path(), {"treatment": "mxnet==1.6.0"})
    with OnTerminal(RUN_BENCH, [*REFUSED, "--control=mxnet==1.5.1"], environment) as terminal:
        terminal.wait_for("Folder")
        terminal.type("\n")
        outcome = terminal.end()
    assert "build (" not in outcome.err
    assert sorted(read_config(config_path())) == ["local_reporter", "treatment"]


def test_a_build_of_a_program_is_asked_for_as_such(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "own.json").write_text('{"framework": "generic", "tests": [{"command": "{program}"}]}')
    with OnTerminal(RUN_BENCH, ["-b", str(tmp_path / "own.json")], environment) as terminal:
        terminal.wait_for(r"Control build \(the path of a program\): ")


def test_an_answer_that_cant_be_meant_is_asked_for_again(environment: dict[str, str], tmp_path: Path) -> None:
    with OnTerminal(RUN_BENCH, REFUSED, environment) as terminal:
        for wrong, words in (
            ("mxnet==0.0.1", "0.0.1 is not known"),
            ("1.9.1", "neither a release nor an existing path"),
        ):
            terminal.wait_for(r"Control build[^\n]*\]: ")
            terminal.type(f"{wrong}\n")
            terminal.wait_for(words)
        answer(terminal, str(tmp_path), "mxnet == 1.9.1", "reports")
    answers = {
        "control": str(tmp_path),
        "treatment": "mxnet == 1.9.1",
        "local_reporter": str(Path("reports").absolute()),
    }
    assert read_config(config_path()) == answers


def test_of_a_suite_it_asks_for_builds_of_any_package(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = io.StringIO("numpy==2.2.6\n/no/such\nnumpy==2.3.5 scipy==1.16.3\nreports\n")
    monkeypatch.setattr(sys, "stdin", answers)
    monkeypatch.chdir(home)
    options = read_options(["--suite", "anywhere", "--bench", "time"])
    run_bench._ask_for_missing(options, ["control", "treatment", "local_reporter"])
    assert read_config(config_path()) == {
        "control": "numpy==2.2.6",
        "treatment": "numpy==2.3.5 scipy==1.16.3",
        "local_reporter": str(Path("reports").absolute()),
    }


def test_a_signal_that_interrupts_no_read_ends_the_wait_for_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes just before the read, or to another thread: then the system does not wake the reader."""
    keyboard, terminal = pty.openpty()
    ended, was_answered = threading.Event(), threading.Event()

    def send_then_answer() -> None:
        time.sleep(0.1)  # until the reader waits
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        if not ended.wait(LONG_S):
            was_answered.set()
            os.write(keyboard, b"an answer\n")

    def interrupt(number: int, frame: object) -> None:
        raise InterruptedError

    monkeypatch.setattr(sys, "stdin", os.fdopen(terminal, encoding="utf-8"))
    before = signal.signal(signal.SIGUSR1, interrupt)
    sender = threading.Thread(target=send_then_answer)
    sender.start()
    try:
        with pytest.raises(InterruptedError):
            run_bench._read_line()
    finally:
        ended.set()
        sender.join()
        signal.signal(signal.SIGUSR1, before)
        sys.stdin.close()
        os.close(keyboard)
    assert not was_answered.is_set()


@pytest.mark.parametrize(("key", "words"), [("\x04", "nothing was kept"), ("\x03", "stopped by SIGINT")])
def test_ctrl_d_and_ctrl_c_at_the_prompt_keep_nothing(environment: dict[str, str], key: str, words: str) -> None:
    with OnTerminal(RUN_BENCH, REFUSED, environment) as terminal:
        terminal.wait_for(r"Control build[^\n]*\]: ")
        terminal.type("mxnet==1.6.0\n")
        terminal.wait_for(r"Treatment build[^\n]*\]: ")
        terminal.type(key)
        outcome = terminal.end()
    assert outcome.code == 3
    assert words in outcome.err
    assert "Traceback" not in outcome.err
    assert not config_path().exists()


@pytest.mark.parametrize("arguments", [["-b", "smoke", "--frobnicate"], ["-b", "no-such-spec"], []])
def test_wrong_usage_is_said_before_anything_is_asked(environment: dict[str, str], arguments: list[str]) -> None:
    with OnTerminal(RUN_BENCH, arguments, environment) as terminal:
        outcome = terminal.end()
    assert outcome.code == 2
    assert outcome.err.startswith("run_bench.py: error: ")
    assert outcome.err.count("\n") == 1
    assert not config_path().exists()


def test_without_a_terminal_it_never_asks(home: Path) -> None:
    line = run_script(RUN_BENCH, *REFUSED).error_line()
    assert line.startswith("run_bench.py: error: --threads 100000")
    assert not config_path().exists()


def test_reset_options_alone_forgets_and_ends(environment: dict[str, str]) -> None:
    write_config(config_path(), {"control": "x"})
    first, second = (run_script(RUN_BENCH, "--reset_options") for _ in range(2))
    assert (first.code, second.code) == (0, 0)
    assert "forgot the answers" in first.err
    assert "there were no answers" in second.err
    assert not config_path().exists()


def test_reset_options_repairs_a_broken_config_and_asks_again(environment: dict[str, str]) -> None:
    config_path().parent.mkdir(parents=True)
    config_path().write_text("{broken")
    with OnTerminal(RUN_BENCH, [*REFUSED, "--reset_options"], environment) as terminal:
        answer(terminal, "", "", "")
    assert set(read_config(config_path())) == {"control", "treatment", "local_reporter"}


@pytest.mark.parametrize(
    "arguments",
    [
        ["-b", "smoke", "--threshold=2%", "--control", "a b", "--user_identifier", ""],
        ["--benchmark_file=smoke", "--operators", "a*", "--operators", "b[1]", "--screen_reporter"],
        ["-b", "smoke", "--user_identifier=--reset_options=x"],
        ["-bsmoke", "--seed", "3"],
        ["--an_option_of_tomorrow", "x", "-y"],
    ],
)
def test_options_pass_through_unchanged(passed_on: list[list[str]], home: Path, arguments: list[str]) -> None:
    assert run_bench_main(arguments) == 0
    assert run_bench_main(["--reset_options", *arguments]) == 0
    assert passed_on == [arguments, arguments]


def test_help_is_its_own_and_points_to_that_of_harness(home: Path) -> None:
    outcome = run_script(RUN_BENCH, "-h")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("usage: run_bench.py -b SPEC [OPTIONS]")
    assert "harness.py --help" in outcome.out
    assert run_script(RUN_BENCH, "--help-all").out == outcome.out
    of_spec_from = run_script(RUN_BENCH, "--spec_from", "x", "--help")
    assert "--shape" in of_spec_from.out


def test_from_the_first_question_to_a_report(environment: dict[str, str], home: Path) -> None:
    spec = write_spec(home, PYTHON_SPEC)
    arguments = ["-b", spec, *ANYWAY, "--max_rounds", "2", "--threshold", "50%", "--operators", "exp_0"]
    with OnTerminal(RUN_BENCH, arguments, environment) as terminal:
        outcome = answer(terminal, sys.executable, sys.executable, str(home / "reports"))
    assert outcome.code in (0, 3), outcome.err  # 3: two rounds may be too few for a verdict
    document = only_report(home / "reports")
    assert [document[side]["requested"] for side in ("control", "treatment")] == [sys.executable] * 2
    assert document["run"]["command"] == ["harness.py", *arguments]
    table, path = outcome.err.index("exp_0"), outcome.err.index(f"report: {home / 'reports'}")
    assert path < table


def test_for_one_build_alone_it_does_not_ask(environment: dict[str, str]) -> None:
    with OnTerminal(RUN_BENCH, [*REFUSED, "--single"], environment) as terminal:
        outcome = terminal.end()
    assert outcome.code == 2
    assert "--threads 100000" in outcome.err
    assert not config_path().exists()
