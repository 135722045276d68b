"""python -m opduel: the command ``opduel``; with a BUILD in place of a subcommand, ``opduel python BUILD``."""

import sys
from collections.abc import Sequence

from opduel.commands.opduel import main as opduel
from opduel.commands.subcommand_names import SUBCOMMANDS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; where that is Python in a build, it returns only when it could not start the interpreter."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in (*SUBCOMMANDS, "-h", "--help", "-V", "--version"):
        return opduel(words)
    from opduel.commands.entry import run_command
    from opduel.commands.in_build import run

    return run_command("python -m opduel", lambda: run(words, "python -m opduel"))


if __name__ == "__main__":
    sys.exit(main())
