"""python -m opduel: the command ``opduel``."""

import sys

from opduel.commands.opduel import main

if __name__ == "__main__":
    sys.exit(main())
