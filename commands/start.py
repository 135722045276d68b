"""What every command does before it has loaded anything else. Old syntax, standard library only."""

# The core of the module signal, which is there at once: signal itself imports others first, and Ctrl-C meanwhile would
# be a traceback.
import _signal as signal  # type: ignore[import-not-found]
import os
import sys

STOPPING = {signal.SIGINT: "SIGINT", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP"}
USAGE, INCOMPLETE = 2, 3  # the exit codes of an environment that does not work, and of what was stopped


def call_main(fix: str, script: "str | None" = None) -> None:
    """Import the command, and end with its exit code; ``fix`` rebuilds the environment, ``script`` is what was called.

    A command that can't be loaded must not end in 1, which means that a regression was found. Loading takes seconds; a
    signal that comes meanwhile ends the command with one line and the exit code of what was stopped.
    """
    try:
        from opduel.commands.opduel import main
    except ImportError as error:
        say(f"opduel: its environment does not work ({one_line(error)}); rebuild it with: {fix}\n")
        raise SystemExit(USAGE) from None
    except Exception as error:  # no memory, no more open files, a module that is damaged
        say(f"opduel: cannot be loaded: {type(error).__name__}: {one_line(error)}\n")
        raise SystemExit(INCOMPLETE) from None
    code = main(script=script)
    ignore_signals()  # all is said: what comes now must not change the exit code
    raise SystemExit(code)


def stop_on_signals() -> None:
    """End at once when a signal comes that stops a command, unless it is ignored (nohup)."""
    for number in STOPPING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stop)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)  # they were held back while the environment was entered


def stop(number: int, frame: object) -> None:
    """Nothing has begun yet: one line, and the end."""
    try:
        name = os.path.basename(sys.argv[0])
        os.write(2, f"{name}: stopped by {STOPPING[number]}\n".encode("utf-8", "backslashreplace"))
    except OSError:  # standard error is closed
        pass
    os._exit(INCOMPLETE)


def ignore_signals() -> None:
    """From now on a signal stops nothing."""
    for number in STOPPING:
        signal.signal(number, signal.SIG_IGN)


def one_line(error: BaseException) -> str:
    """What an error says; a library's text may have several lines."""
    return " ".join(str(error).split())


def show(text: str) -> int:
    """Print help on standard output; returns the exit code."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:  # | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, AttributeError) as error:
        say(f"opduel: error: standard output: cannot be written ({one_line(error)})\n")
        return INCOMPLETE
    return 0


def say(text: str) -> None:
    """To standard error, unless that is closed."""
    if sys.stderr is not None:
        sys.stderr.write(text)
