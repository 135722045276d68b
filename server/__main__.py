"""`python -m opduel.server`: the results server."""

import sys
from collections.abc import Sequence


def start(arguments: Sequence[str] | None = None, program: str | None = None) -> int:
    """Run the server as ``program`` and return the exit code, or print which libraries are not installed."""
    try:
        from opduel.server.command_line import main
    except ImportError as error:
        checkout = program is None  # the command opduel names itself
        fix = "run `make setup`" if checkout else "install opduel[server], such as: pip install 'opduel[server]'"
        sys.stderr.write(f"{program or 'opduel.server'}: error: the extra 'server' is not installed ({error}): {fix}\n")
        return 2
    return main(arguments) if program is None else main(arguments, program)


if __name__ == "__main__":
    raise SystemExit(start())
