"""The server's log: printable lines without tokens."""

import logging
import sys

from opduel.reporters.text import printable
from opduel.server.tokens import TOKEN_PATTERN

logger = logging.getLogger("opduel.server")


class _Formatter(logging.Formatter):
    """Formats an entry with its traceback indented below it, control characters escaped, and tokens masked."""

    def format(self, record: logging.LogRecord) -> str:
        lines = super().format(record).split("\n")
        return "\n    ".join(TOKEN_PATTERN.sub("opduel_***", printable(line)) for line in lines)


def one_field(text: str) -> str:
    """Return untrusted ``text`` as one field of a log entry: blanks and newlines are replaced, tokens masked."""
    return "".join("_" if char == " " else char for char in printable(TOKEN_PATTERN.sub("opduel_***", text)))


def log_to_stderr() -> None:
    """Let the server and its libraries log to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter("%(asctime)s %(levelname)s %(message)s"))
    for name, level in (("opduel.server", logging.INFO), ("uvicorn.error", logging.WARNING), ("mcp", logging.WARNING)):
        logging.getLogger(name).setLevel(level)
        logging.getLogger(name).addHandler(handler)
        logging.getLogger(name).propagate = False
