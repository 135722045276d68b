"""python -m opduel: the command ``opduel``; with a BUILD in place of a subcommand, ``opduel python BUILD``."""

import sys

from opduel.commands.opduel import main
from opduel.commands.subcommands import SUBCOMMANDS

if __name__ == "__main__":
    words = sys.argv[1:]
    is_command = not words or words[0] in (*SUBCOMMANDS, "-h", "--help", "-V", "--version")
    sys.exit(main(words if is_command else ["python", *words]))
