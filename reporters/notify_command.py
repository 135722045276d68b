"""The notifier that runs a command: the text on its standard input, the facts in its environment."""

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, Self

from opduel.records import RunError, UsageError
from opduel.reporters.alert_text import plain_text, variables
from opduel.reporters.alerts import Alert
from opduel.reporters.notifier import Notifier
from opduel.reporters.text import printable, shorten
from opduel.support.output import key_line
from opduel.support.redaction import SHORTEST_SECRET, redact

LONGEST_S = 30.0  # for the command
_MOST_SAID = 4096  # bytes at the end of the output in which the error is searched


class NotifyCommand(Notifier, option="notify_command"):
    """Runs a command, without a shell, in a session of its own; it is ended when it takes too long."""

    def __init__(self, words: list[str]) -> None:
        """``words``: the program and its arguments."""
        self._words = words

    @classmethod
    def from_option(cls, value: str | None) -> Self:
        try:
            return cls(shlex.split(value or ""))
        except ValueError as error:
            raise UsageError(f"--{cls.option}: {error}: quote it as for a shell") from None

    def check(self) -> None:
        if shutil.which(self._words[0]) is None:
            raise UsageError(f"--{self.option}: {self._words[0]} is not an executable program: correct the command")

    def send(self, alert: Alert) -> None:
        """Run the command; it fails when it can't be started, takes too long, or ends in another code than 0."""
        # Files and no pipes: whatever the command leaves running can't make anybody wait.
        with tempfile.TemporaryFile() as text, tempfile.TemporaryFile() as output:
            text.write(plain_text(alert).encode("utf-8", "backslashreplace"))
            text.seek(0)
            self._run(text, output, {**os.environ, **variables(alert)})

    def _run(self, text: IO[bytes], output: IO[bytes], environment: Mapping[str, str]) -> None:
        name = self._words[0]
        try:
            process = subprocess.Popen(
                self._words,
                stdin=text,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:  # not there, not to be run; a null character in it
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise RunError(f"{name} could not be started: {reason}: correct the command") from None
        try:
            code = process.wait(LONGEST_S)
        except subprocess.TimeoutExpired:
            raise RunError(f"{name} took longer than {LONGEST_S:g} s and was ended: make it quicker") from None
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # with all processes that it started
                process.wait()
        if code:
            output.seek(max(0, output.seek(0, os.SEEK_END) - _MOST_SAID))
            words = redact(key_line(output.read().decode("utf-8", "replace")), self._secrets())
            how = f"died of signal {-code}" if code < 0 else f"ended in {code}"
            raise RunError(f"{name} {how}: {shorten(printable(words), 200) or 'no output'}")

    def _secrets(self) -> set[str]:
        """Return the command's arguments and their words: any may be a password, and a program may print it."""
        return {part for word in self._words[1:] for part in (word, *word.split()) if len(part) >= SHORTEST_SECRET}
