"""What the server logs: printable lines, with nothing in them that opens anything."""

import logging
import sys

from opduel.reporters.text import printable
from opduel.server.tokens import TOKEN_PATTERN

logger = logging.getLogger("opduel.server")


class _Formatter(logging.Formatter):
    """One entry, its trace indented below it; control characters as escapes, tokens left out."""

    def format(self, record: logging.LogRecord) -> str:
        lines = super().format(record).split("\n")
        return "\n    ".join(TOKEN_PATTERN.sub("opduel_***", printable(line)) for line in lines)


def one_field(text: str) -> str:
    """Untrusted ``text`` as one field of a log entry: blanks and newlines are replaced, tokens masked."""
    return "".join("_" if char == " " else char for char in printable(TOKEN_PATTERN.sub("opduel_***", text)))


def log_to_stderr() -> None:
    """Let the server, and what it is made of, log to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter("%(asctime)s %(levelname)s %(message)s"))
    for name, level in (("opduel.server", logging.INFO), ("uvicorn.error", logging.WARNING), ("mcp", logging.WARNING)):
        logging.getLogger(name).setLevel(level)
        logging.getLogger(name).addHandler(handler)
        logging.getLogger(name).propagate = False
