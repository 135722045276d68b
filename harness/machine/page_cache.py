"""Lay the files of programs afresh in the page cache, alike on both sides: a process maps the pages of a file as they
lie there, which depends on how they came there, and makes up to 7 % of the processor time of a run of some ms."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from opduel.records import Build
from opduel.records.build import PROGRAM_VARIABLE
from opduel.records.measurement import Side
from opduel.support.linked import linked_libraries

_CHUNK = 1 << 20


def lay_programs_afresh(builds: Mapping[Side, Build], environment: Mapping[str, str]) -> None:
    """Read the files of each side's program again that are not the other's, too; none of builds that aren't programs.
    ``environment`` is the workers'. What can't be read, or is in use, is left as it is."""
    control, treatment = (_files_of(build, environment) for build in builds.values())
    for path in sorted(control ^ treatment):
        with suppress(OSError), open(path, "rb", buffering=0) as file:
            os.fdatasync(file)  # a page that isn't written yet can't be dropped
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            while file.read(_CHUNK):
                pass


def _files_of(build: Build, environment: Mapping[str, str]) -> set[Path]:
    """Return the program, the libraries that it is linked with, and all that lies in its folder of the build cache."""
    if PROGRAM_VARIABLE not in build.environment:
        return set()
    program = Path(build.environment[PROGRAM_VARIABLE])
    libraries = linked_libraries(program, {**environment, **build.environment}).values()
    beside = Path(build.directory).rglob("*") if build.directory else ()
    return {path.resolve() for path in (program, *libraries, *beside) if path.is_file()}
