"""What every command shares: errors become one line and an exit code, and a signal stops it without losing anything."""

import contextlib
import errno
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import PurePath
from types import FrameType

from opduel.records import OpduelError, disk_error, is_full
from opduel.reporters.stream import discard, open_closed_streams
from opduel.support.command_names import named_for
from opduel.support.redaction import redact
from opduel.support.text import one_line, printable, printable_lines, with_short_words

DONE, REGRESSED, USAGE, INCOMPLETE = 0, 1, 2, 3
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PRINTED = "opduel.printed"  # the logger of lines that are printed beside the log, which has them for files alone
_AGAIN_S = 0.05  # until a signal that could not be acted on is sent again

log = logging.getLogger(__name__)


def run_command(
    name: str,
    action: Callable[[], int],
    level: int = logging.INFO,
) -> int:
    """Run ``action`` and return the exit code: its own, or that of the OpduelError that it raised.

    Log lines of ``level`` and above are shown; commands are named in them as for a user of ``name``.

    The first of the signals ``STOPPING`` raises KeyboardInterrupt; one that is ignored already (nohup) stays so.
    """
    open_closed_streams()
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(redacts)
    handler.addFilter(lambda record: record.name != PRINTED)
    logging.getLogger("opduel").setLevel(level)
    # The level of other libraries: what they do is of no interest.
    logging.basicConfig(format=f"{name}: %(message)s", level=logging.WARNING, handlers=[handler])
    try:
        with _handled(_stop), _none_is_lost(), named_for(name):
            code = _outcome(action)
    except KeyboardInterrupt as error:  # it came just when handlers were set
        log.error("%s", error)
        code = INCOMPLETE
    return _flushed(code)


def _flushed(code: int) -> int:
    """``code``, unless what was printed can't be written: Python itself would say so at its end in several lines."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError) as error:
        discard(sys.stdout)
        log.error("error: standard output: cannot be written (%s)", getattr(error, "strerror", None) or error)
        code = code or INCOMPLETE
    try:
        sys.stderr.flush()
    except (OSError, ValueError):
        discard(sys.stderr)
    return code


def _outcome(action: Callable[[], int]) -> int:
    """The exit code of ``action``, or of what it raised, which is printed on one line."""
    try:
        return action()
    except SystemExit as end:  # argparse's way, after --help
        if _flushed(DONE):
            return INCOMPLETE
        raise end
    except OpduelError as error:
        if error.exit_code == USAGE and _lost:
            # Python dropped the signal's exception inside a validation, which then called good input wrong.
            log.error("%s", _lost[-1])
            return INCOMPLETE
        log.error("error: %s", error)
        return error.exit_code
    except KeyboardInterrupt as error:
        log.error("%s", str(error) or "interrupted")
        return INCOMPLETE
    except Exception as error:
        if isinstance(error, OSError) and is_full(error):
            log.error("error: %s", disk_error("a disk", error, "name another folder for temporary files in TMPDIR"))
            return INCOMPLETE
        if isinstance(error, OSError) and error.errno in (errno.ENAMETOOLONG, errno.ELOOP):  # pathlib passes it on
            log.error("error: %s", one_line(f"{error.filename}: {error.strerror}: give another path"))
            return USAGE
        # A fault of ours: still one line, and not the exit code of a regression.
        log.error("internal error: %s", one_line(f"{type(error).__name__}: {error}"))
        log.debug("", exc_info=True)
        return INCOMPLETE


def redacts(record: logging.LogRecord) -> bool:
    """A filter of log handlers, which lets every line through: none shows a secret, repeats a very long argument or
    moves the cursor."""
    if isinstance(record.args, tuple):
        record.args = tuple(printable(str(word)) if isinstance(word, PurePath) else word for word in record.args)
    record.msg, record.args = printable_lines(with_short_words(redact(record.getMessage()))), ()
    return True


@contextlib.contextmanager
def patience(stops_after: bool = False) -> Iterator[None]:
    """Within it a first signal is only answered, so that what was measured gets written; a second one stops.

    ``stops_after``: the first one takes effect right after the block, as much else would follow.
    """
    answered: list[int] = []

    def answer(number: int, frame: FrameType | None) -> None:
        answered.append(number)
        _wait(number, frame)

    with _handled(answer):
        yield
    if stops_after and answered:
        _send_later(answered[0])


class _Stopped(KeyboardInterrupt):
    """A signal; ``number`` says which."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number


def _stop(number: int, frame: FrameType | None) -> None:
    """Stop; but the impatient, who press Ctrl-C twice, are to have their report."""
    if _forking:
        _send_later(number)
        return
    for other in STOPPING:
        if signal.getsignal(other) is _stop:
            signal.signal(other, _wait)
    raise _Stopped(number)


def _wait(number: int, frame: FrameType | None) -> None:
    signal.signal(number, _stop)
    log.warning("stopping: the report is being written; press again to stop without it")


# Not empty while a process is being forked. Python drops what is raised then, and a lock of its own may stay held.
_forking: list[bool] = []
os.register_at_fork(before=lambda: _forking.append(True), after_in_parent=_forking.pop, after_in_child=_forking.pop)


def _send_later(number: int) -> None:
    """Send this process a signal again in a moment, by a timer (setitimer(2)), when it can be acted on."""
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), number))
    signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)


_lost: list[_Stopped] = []  # the signals whose exceptions Python dropped


@contextlib.contextmanager
def _none_is_lost() -> Iterator[None]:
    """Within it a signal that comes where Python drops exceptions is sent again.

    Those are finalizers, and some callbacks of compiled code: pydantic asks of a value whether it is a mapping, and
    goes on with "no" when that raises.
    """
    hook, alert = sys.unraisablehook, signal.getsignal(signal.SIGALRM)
    _lost.clear()

    def notice(lost: "sys.UnraisableHookArgs") -> None:
        if not isinstance(lost.exc_value, _Stopped):
            hook(lost)
            return
        for other in STOPPING:
            if signal.getsignal(other) is _wait:
                signal.signal(other, _stop)
        _lost.append(lost.exc_value)
        _send_later(lost.exc_value.number)

    sys.unraisablehook = notice
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, alert)
        sys.unraisablehook = hook


@contextlib.contextmanager
def _handled(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Within it ``handler`` gets the signals ``STOPPING``, but for those that are ignored."""
    before = {number: signal.getsignal(number) for number in STOPPING}
    handled = [number for number in STOPPING if before[number] is not signal.SIG_IGN]
    for number in handled:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, before[number])
