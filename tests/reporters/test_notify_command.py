"""The command notifier, with real commands: that work, fail, hang, leave something running or are not there."""

import os
import shlex
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import report_samples as samples
from test_alerts import SLOWER

from opduel.records import RunError, UsageError
from opduel.reporters import notify_command
from opduel.reporters.notify_command import NotifyCommand

REPORT = samples.report([SLOWER])
WRITE = "import os, sys; open(sys.argv[1], 'w').write(sys.stdin.read() + os.environ['OPDUEL_TITLE'])"


def python(code: str, *arguments: str) -> NotifyCommand:
    """The notifier that runs some Python."""
    return NotifyCommand.from_option(shlex.join([sys.executable, "-c", code, *arguments]))


def why_not(notifier: NotifyCommand) -> str:
    with pytest.raises(RunError) as error:
        notifier.report(REPORT)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_it_gets_the_text_and_the_facts(tmp_path: Path) -> None:
    output = tmp_path / "a file; $(touch no)"
    assert python(WRITE, str(output)).report(REPORT) == "notified (--notify_command): 1 case regressed"
    text = output.read_text()
    assert text.startswith("opduel: 1 case regressed\n\nbetween mxnet==1.8.0.post0 and mxnet==1.9.1\n")
    assert text.endswith("\n1 case regressed")


def test_one_that_reads_nothing_is_fine() -> None:
    python("pass").report(REPORT)


def test_one_that_fails_is_reported_with_its_output_tail() -> None:
    message = why_not(python("import sys; print('no mail\\x07 today', file=sys.stderr); sys.exit(7)"))
    assert message == f"{sys.executable} ended in 7: no mail today"
    assert "died of signal 9: no output" in why_not(python("import os; os.kill(os.getpid(), 9)"))


def test_one_that_takes_too_long_is_ended_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = tmp_path / "pid"
    monkeypatch.setattr(notify_command, "LONGEST_S", 1.0)
    notifier = NotifyCommand(["sh", "-c", f"sleep 60 & echo $! > {started}; wait"])
    assert "took longer than 1 s and was ended" in why_not(notifier)
    assert is_over(int(started.read_text()))


def is_over(process: int) -> bool:
    """Within a while that is long enough for the kernel, on however slow a machine."""
    status = Path(f"/proc/{process}/stat")
    for _ in range(1000):
        try:
            if status.read_text().rpartition(") ")[2][0] == "Z":  # nobody has asked for its exit code yet
                return True
        except OSError:
            return True
        time.sleep(0.01)
    return False


def test_one_that_leaves_something_running_makes_nobody_wait(tmp_path: Path) -> None:
    started = tmp_path / "pid"
    code = "import subprocess, sys; open(sys.argv[1], 'w').write(str(subprocess.Popen(['sleep', '600']).pid))"
    python(code, str(started)).report(REPORT)
    os.kill(int(started.read_text()), signal.SIGKILL)  # it is still there


@pytest.mark.parametrize("char", ["x", "\u0301", "\x1b"])
def test_a_subject_of_any_length_is_reported(tmp_path: Path, char: str) -> None:
    """The system takes no variable of more than 128 KiB."""
    report = replace(REPORT, treatment=replace(REPORT.treatment, requested=char * 200_000))
    output = tmp_path / "told"
    python(WRITE, str(output)).report(report)
    assert "1 case regressed" in output.read_text()


def test_one_that_is_not_there_is_said_before_anything_is_measured(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not an executable program"):
        NotifyCommand.from_option(f"{tmp_path}/gone now").check()
    assert "could not be started" in why_not(NotifyCommand.from_option(f"{tmp_path}/gone now"))
    with pytest.raises(UsageError, match="quote it as for a shell"):
        NotifyCommand.from_option("mail 'me")
