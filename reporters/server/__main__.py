"""`python -m opduel.reporters.server`: the results server."""

import sys


def _start() -> int:
    try:
        from opduel.reporters.server.command_line import main
    except ImportError as error:
        sys.stderr.write(f"the server's libraries are missing ({error}): make the environment with `make setup`\n")
        return 2
    return main()


if __name__ == "__main__":
    raise SystemExit(_start())
