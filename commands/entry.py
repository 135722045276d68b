"""What every command shares: errors become one line and an exit code, SIGTERM stops like Ctrl-C."""

import logging
import signal
import sys
from collections.abc import Callable

from records import OpduelError

DONE, REGRESSED, USAGE, INCOMPLETE = 0, 1, 2, 3


def run_command(name: str, action: Callable[[], int]) -> int:
    """Run ``action`` and return the exit code: its own, or that of the OpduelError that it raised."""
    logging.basicConfig(format=f"{name}: %(message)s", level=logging.INFO, stream=sys.stderr)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return action()
    except OpduelError as error:
        print(f"{name}: error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return INCOMPLETE


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt("stopped by SIGTERM")
