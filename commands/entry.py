"""What every command shares: errors become one line and an exit code, and a signal stops it without losing anything."""

import contextlib
import logging
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType

from records import OpduelError, disk_error, is_full
from records.redaction import redact
from records.text import one_line, with_short_words
from reporters.stream import discard, open_closed_streams

DONE, REGRESSED, USAGE, INCOMPLETE = 0, 1, 2, 3
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_AGAIN_S = 0.01  # until a signal that came where it can't stop anything comes again
# What logging does around a fork, in several Pythons. An exception raised there is lost, and a lock with it.
_AT_FORK = {
    found.__code__
    for name in ("_acquireLock", "_releaseLock", "_prepareFork", "_afterFork")
    if (found := vars(logging).get(name))
}

log = logging.getLogger(__name__)


def run_command(name: str, action: Callable[[], int]) -> int:
    """Run ``action`` and return the exit code: its own, or that of the OpduelError that it raised.

    The first of the signals ``STOPPING`` raises KeyboardInterrupt; one that is ignored already (nohup) stays so.
    """
    open_closed_streams()
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(redacts)
    logging.basicConfig(format=f"{name}: %(message)s", level=logging.INFO, handlers=[handler])
    try:
        with _none_lost(), _handled(_stop):
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
    return _handled(_wait)


def _stop(number: int, frame: FrameType | None) -> None:
    """Stop; but the impatient, who press Ctrl-C twice, are to have their report."""
    if any(one.f_code in _AT_FORK for one in _callers(frame)):
        _stop_later(number)
        return
    for other in STOPPING:
        if signal.getsignal(other) is _stop:
            signal.signal(other, _wait)
    raise KeyboardInterrupt(f"stopped by {signal.Signals(number).name}")


def _callers(frame: FrameType | None) -> Iterator[FrameType]:
    """The frame, and those that wait for it."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def _stop_later(number: int) -> None:
    """Stop in a moment: where an exception would be lost now."""
    signal.signal(signal.SIGALRM, lambda _, frame: _stop(number, frame))
    signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)


def _unraisable(lost: "sys.UnraisableHookArgs") -> None:
    """An interrupt that was raised in a finalizer, say, where Python drops every exception, is raised again."""
    words = str(lost.exc_value).split()
    if isinstance(lost.exc_value, KeyboardInterrupt) and words[:2] == ["stopped", "by"]:
        _stop_later(signal.Signals[words[2]])
    else:
        sys.__unraisablehook__(lost)


def _wait(number: int, frame: FrameType | None) -> None:
    signal.signal(number, _stop)
    log.warning("ending, the report is being written; once more to give it up")


@contextlib.contextmanager
def _none_lost() -> Iterator[None]:
    """Within it an interrupt that Python drops is raised again."""
    hook, sys.unraisablehook = sys.unraisablehook, _unraisable
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.unraisablehook = hook


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
