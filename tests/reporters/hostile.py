"""Reports in which every text was written by somebody who means harm."""

import json
from typing import Any

from opduel.records import Report
from opduel.reporters.document import from_text, to_bytes

# Ends what it stands in, whichever that is, and then runs; hides behind marks that turn the reading direction.
PAYLOAD = (
    "</script></style>--><img src=x onerror=\"window.hacked='img'\"><script>window.hacked='script'</script>"
    "'\"`&{{7*7}}\u202e\u2028\x1b[31m "
)
# These are checked when a report is read: no other text can stand in them.
_CLOSED = {"verdict", "side", "first", "held_back", "stage", "mode", "direction", "profiler"}


def hostile(report: Report) -> Report:
    """``report`` with ``PAYLOAD`` before every text that may be any, keys of mappings included where they are free."""
    return from_text(json.dumps(_poisoned(json.loads(to_bytes(report)))))


def _poisoned(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        free = key in ("packages", "environment", "inputs", "spent_s", "files")
        return {(PAYLOAD + name if free else name): _poisoned(entry, name) for name, entry in value.items()}
    if isinstance(value, list):
        return [_poisoned(entry, key) for entry in value]
    return PAYLOAD + value if isinstance(value, str) and key not in _CLOSED else value
