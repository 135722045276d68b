"""What a process does that forks commands for tests of the toy: its operators are names before specs are loaded."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path += [str(HERE), str(HERE / "installed")]
os.environ["TOY_SPECIFICATIONS"] = str(HERE / "specifications")  # launch.py says which folder it is
