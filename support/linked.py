"""Find the shared libraries that a program is linked with."""

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

_LINKED = re.compile(r"\s*(\S+) => (/.+) \(0x[0-9a-f]+\)")
_LISTING_S = 10.0


def linked_libraries(program: Path, environment: Mapping[str, str]) -> dict[str, Path]:
    """Return name -> path of those that the dynamic linker finds in this environment; empty where it can't be asked."""
    command = ["ldd", str(program)]
    try:
        listing = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_LISTING_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return {match[1]: Path(match[2]) for line in listing.stdout.splitlines() if (match := _LINKED.match(line))}
