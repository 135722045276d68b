"""What a process does that forks commands for tests of the toy: its operators are names before specs are loaded."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE))

from toy_native import register  # noqa: E402 - found in that folder

register(HERE / "specifications")  # launch.py says which folder it is
