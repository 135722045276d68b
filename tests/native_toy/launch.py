"""A command of opduel with the native toy among its frameworks: launch.py SPECIFICATIONS COMMAND [ARGUMENT...]."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE), str(HERE / "installed")]

if __name__ == "__main__":
    os.environ["TOY_SPECIFICATIONS"], command, *arguments = sys.argv[1:]

    from opduel.commands.opduel import main
    from opduel.driver.git import repository
    from opduel.harness.rounds import pair

    pair.MOST_FORKS = 1  # quicker, and enough for changes as large as the toy's
    repository.PAUSES = (0.1, 0.1)  # seconds, between the attempts to fetch
    raise SystemExit(main(arguments, f"{command}.py"))
