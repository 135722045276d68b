"""The framework of programs."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from opduel.frameworks.base import Framework
from opduel.frameworks.roles import CommandCases, ProgramBuilds

HERE = Path(__file__).resolve().parent


class Generic(Framework):
    """A build is an executable file, and a case a command line that runs it."""

    name = "generic"
    builds = ProgramBuilds()
    cases = CommandCases()
    calls_in_worker = False
    adaptor = HERE / "adaptor"
    folder = name  # of specifications/frameworks

    def of_folder(self, folder: str) -> Self:
        """Return the framework with build scripts in the folder of another name, such as caffe2."""
        framework = copy.copy(self)
        framework.folder = folder
        return framework

    @property
    def specifications(self) -> Path:
        return self.frameworks_dir / self.folder

    def environment(self, threads: int) -> Mapping[str, str]:
        """Set OpenMP's threads: nothing else is known of a program."""
        return {"OMP_NUM_THREADS": str(threads)}

    def can_fork(self, threads: int, context: str) -> bool:
        """Return True: the worker only starts programs, and has no threads."""
        return True
