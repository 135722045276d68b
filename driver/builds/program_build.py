"""A build that is a program: an executable file, and the digests of the libraries that it is linked with."""

import hashlib
import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from opduel.frameworks import Framework, worker_environment
from opduel.records import Build, UsageError
from opduel.records.build import ARGUMENTS_VARIABLE, PROGRAM_VARIABLE
from opduel.support.digests import file_digest
from opduel.support.linked import linked_libraries

_SHOWN = 12  # hexadecimal digits of a digest
_ELF = b"\x7fELF"


def program_build(requested: str, framework: Framework, environment: Mapping[str, str]) -> Build:
    """Return the program at a path, or of that name among the user's commands, perhaps with arguments (``gzip -k``);
    ``environment`` holds variables that it needs. Raise UsageError if there is none, or it can't be executed."""
    program, arguments = _program_and_arguments(requested)
    path = _find(program)
    own = _digest_of(path)
    if arguments:
        environment = {**environment, ARGUMENTS_VARIABLE: json.dumps(arguments)}
    if _is_native(path):
        libraries = _libraries(path, environment)
        identities = [own, *map(":".join, sorted(libraries.items()))]
    else:  # a script may run whatever lies beside it: two at different places are different builds
        libraries, identities = {}, [own, str(path)]
    identities += arguments
    digest = hashlib.sha256("\n".join(identities).encode()).hexdigest()
    return Build(
        framework=framework.name,
        requested=requested,
        strategy="program",
        interpreter=sys.executable,
        version=f"{path.name} {own[:_SHOWN]}",
        python="",
        digest=digest,
        packages={name: identity[:_SHOWN] for name, identity in libraries.items()},
        environment={**environment, PROGRAM_VARIABLE: str(path)},
    )


def _program_and_arguments(requested: str) -> tuple[str, list[str]]:
    """Return the words of a command line as a shell splits them; a path with spaces in it is one."""
    if os.path.exists(os.path.expanduser(requested)):
        return requested, []
    try:
        program, *arguments = shlex.split(requested)
    except ValueError:  # a quote that isn't closed, or nothing
        return requested, []
    return program, arguments


def _find(requested: str) -> Path:
    name = os.path.expanduser(requested)
    if os.sep not in name and not os.path.exists(name):
        name = shutil.which(name) or name
    path = Path(os.path.abspath(name))  # not resolved: a program may go by the name that it is called by
    if not os.path.exists(path):
        raise UsageError(f"{requested}: no such program: give the path of an executable file, or a command's name")
    if not os.path.isfile(path):
        raise UsageError(f"{requested}: is not a file: give the path of an executable file")
    if not os.access(path, os.X_OK):
        raise UsageError(f"{requested}: is not executable: give a program, or make it executable (chmod +x)")
    if not os.access(path, os.R_OK):
        raise UsageError(f"{requested}: can't be read: a program is identified by its content: make it readable")
    return path


def _is_native(path: Path) -> bool:
    with open(path, "rb") as stream:
        return stream.read(len(_ELF)) == _ELF


def _digest_of(path: Path) -> str:
    try:
        return file_digest(path)
    except OSError as error:
        raise UsageError(f"{path}: can't be read: {error.strerror}") from None


def _libraries(path: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Name -> digest of the shared libraries that the dynamic linker finds for it; empty where it can't be asked."""
    linked = linked_libraries(path, {**worker_environment(), **environment})
    return {name: _digest_of(library) for name, library in linked.items()}
