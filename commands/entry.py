"""What every command shares: errors become one line and an exit code, and a signal stops it without losing anything."""

import contextlib
import logging
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType

from records import OpduelError, disk_error, is_full
from records.redaction import redact
from records.text import one_line, with_short_words
from reporters.stream import discard, open_closed_streams

DONE, REGRESSED, USAGE, INCOMPLETE = 0, 1, 2, 3
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
INSISTENCE_S = 0.01  # between a signal's exception that was swallowed and the next one

log = logging.getLogger(__name__)


def run_command(name: str, action: Callable[[], int]) -> int:
    """Run ``action`` and return the exit code: its own, or that of the OpduelError that it raised.

    The first of the signals ``STOPPING`` raises KeyboardInterrupt, again and again if something swallows it; one that
    is ignored already (nohup) stays so.
    """
    open_closed_streams()
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(redacts)
    logging.basicConfig(format=f"{name}: %(message)s", level=logging.INFO, handlers=[handler])
    try:
        with _insisting(), _handled(_stop):
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
    """The exit code of ``action``, or of what it raised, which is told in one line."""
    try:
        return action()
    except SystemExit as end:  # argparse's way, after --help
        if _flushed(DONE):
            return INCOMPLETE
        raise end
    except OpduelError as error:
        if error.exit_code == USAGE and _stopped.by is not None:
            # The signal was swallowed inside a validation, which then called good input wrong.
            log.error("%s", _stopped.by)
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
        # A fault of ours: still one line, and not the exit code of a regression.
        log.error("internal error: %s", one_line(f"{type(error).__name__}: {error}"))
        log.debug("", exc_info=True)
        return INCOMPLETE


def redacts(record: logging.LogRecord) -> bool:
    """A filter of log handlers: no line shows a secret, or repeats a very long argument. It lets every line through."""
    record.msg, record.args = with_short_words(redact(record.getMessage())), ()
    return True


def patience() -> contextlib.AbstractContextManager[None]:
    """Within it a first signal is only answered, so that what was measured gets written; a second one stops."""
    signal.setitimer(signal.ITIMER_REAL, 0)  # one that was swallowed just before is too late to stop anything
    return _handled(_wait)


@dataclass
class _Stopped:
    """The exception that the latest signal raised; None when none came."""

    by: KeyboardInterrupt | None = None


_stopped = _Stopped()


def _stop(number: int, frame: FrameType | None) -> None:
    """Stop; but the impatient, who press Ctrl-C twice, are to have their report."""
    for other in STOPPING:
        if signal.getsignal(other) is _stop:
            signal.signal(other, _wait)
    _stopped.by = KeyboardInterrupt(f"stopped by {signal.Signals(number).name}")
    raise _stopped.by


@contextlib.contextmanager
def _insisting() -> Iterator[None]:
    """Within it a signal's exception that is swallowed is raised again, a moment later.

    An exception can't leave a finalizer, nor some callbacks of compiled code: pydantic asks of a value whether it is a
    mapping, and goes on with "no" when that raises. Python then calls ``sys.unraisablehook``.
    """

    def swallowed(unraisable: "sys.UnraisableHookArgs") -> None:
        if _stopped.by is not None and unraisable.exc_value is _stopped.by:
            signal.setitimer(signal.ITIMER_REAL, INSISTENCE_S)
        else:
            hook_before(unraisable)

    def insist(number: int, frame: FrameType | None) -> None:
        if _stopped.by is not None:
            _stopped.by = KeyboardInterrupt(*_stopped.by.args)
            raise _stopped.by

    _stopped.by = None
    hook_before, sys.unraisablehook = sys.unraisablehook, swallowed
    handler_before = signal.signal(signal.SIGALRM, insist)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler_before)
        sys.unraisablehook = hook_before


def _wait(number: int, frame: FrameType | None) -> None:
    signal.signal(number, _stop)
    log.warning("ending, the report is being written; once more to give it up")


@contextlib.contextmanager
def _handled(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Within it ``handler`` gets the signals ``STOPPING``, but for those that are ignored."""
    before = {number: signal.getsignal(number) for number in STOPPING}
    heeded = [number for number in STOPPING if before[number] is not signal.SIG_IGN]
    for number in heeded:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number in heeded:
            signal.signal(number, before[number])
