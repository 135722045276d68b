"""The driver's log file: all that is logged goes there, too."""

import logging
import logging.handlers
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from opduel.commands.entry import log, redacts
from opduel.driver.lock import ANOTHER_FOLDER
from opduel.records import disk_error

LOG_BYTES, LOGS = 5 * 2**20, 5  # each log file's size, and how many older ones are kept


class _LogFile(logging.handlers.RotatingFileHandler):
    """A log file. One that can't be written is said so, once, and stops nothing."""

    _announced = False

    def handleError(self, record: logging.LogRecord) -> None:
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
        elif not self._announced:
            self._announced = True
            log.error(
                "%s: can't be written (%s): free some space, or fix its permissions", self.baseFilename, error.strerror
            )


@contextmanager
def logging_to(path: Path) -> Iterator[None]:
    """Within it all that is logged goes to a file, too, restarted when it is large; RunError if it can't be."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handler = _LogFile(path, maxBytes=LOG_BYTES, backupCount=LOGS, encoding="utf-8")
    except OSError as error:
        raise disk_error(path, error, ANOTHER_FOLDER) from None
    formatter = logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S%z")
    handler.setFormatter(formatter)
    handler.addFilter(redacts)
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        with suppress(OSError):  # what could not be written is tried again, in vain
            handler.close()
