"""A command of opduel with the native toy among its frameworks: launch.py SPECIFICATIONS COMMAND [ARGUMENT...]."""

import importlib
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE)]

if __name__ == "__main__":
    specifications, command, *arguments = sys.argv[1:]
    importlib.import_module("toy_native").register(Path(specifications))
    importlib.import_module(
        "opduel.harness.rounds.pair"
    ).MOST_FORKS = 1  # quicker, and enough for changes as large as the toy's
    importlib.import_module("opduel.driver.version_control").PAUSES = (
        0.1,
        0.1,
    )  # seconds, between the attempts to fetch
    raise SystemExit(importlib.import_module(f"opduel.commands.{command}").main(arguments))
