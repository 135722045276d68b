"""Find a working interpreter of a given Python version on this machine; never download one."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from opduel.driver.builds import uv
from opduel.driver.builds.process import run
from opduel.records import RunError

_ASK = (
    "import os, sys; print('%s %d.%d %s' % (sys.implementation.name, sys.version_info[0], sys.version_info[1],"
    " os.path.realpath(getattr(sys, '_base_executable', None) or sys.executable)))"
)
_SYSTEM_FOLDERS = (Path("/usr/bin"), Path("/usr/local/bin"))
_OPT = Path("/opt")


def find_interpreter(python: str) -> Path:
    """Return an interpreter whose version is ``python`` ("3.11"), as an absolute path.

    Looked for in this order: the one that runs opduel, PATH, pyenv's versions, uv's own, the usual system folders.

    Raises:
        RunError: there is none; says where it was looked for and how to give one.
    """
    tried: set[Path] = set()
    for candidate in _candidates(python):
        if candidate in tried:
            continue
        tried.add(candidate)
        interpreter = _ask(candidate, python)
        if interpreter:
            return interpreter
    raise RunError(
        f"no Python {python} found: looked on PATH, in {_pyenv_versions()}, among uv's own, in /usr/bin, "
        f"/usr/local/bin and /opt/python*: install Python {python} so that `python{python}` runs, "
        f"or give the path of another environment"
    )


def _candidates(python: str) -> Iterator[Path]:
    name = f"python{python}"
    if "{}.{}".format(*sys.version_info) == python:
        yield Path(sys.executable)
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        if folder:
            yield Path(folder).absolute() / name
    yield from _pyenv(python)
    yield from uv.managed_interpreters(python)
    yield from (folder / name for folder in _SYSTEM_FOLDERS)
    yield from sorted(_OPT.glob(f"python*/bin/{name}"))
    yield from sorted(_OPT.glob(f"python/*/bin/{name}"))


def _pyenv_versions() -> Path:
    root = os.environ.get("PYENV_ROOT")
    return (Path(root) if root else Path.home() / ".pyenv") / "versions"


def _pyenv(python: str) -> list[Path]:
    """Return pyenv's interpreters of that version, the newest patch release first."""
    folders = _pyenv_versions().glob(f"{python}*")
    matching = [folder for folder in folders if re.fullmatch(rf"{re.escape(python)}(\.\d+)?", folder.name)]
    newest_first = sorted(matching, key=lambda folder: [int(n) for n in folder.name.split(".")], reverse=True)
    return [folder / "bin" / "python" for folder in newest_first]


def _ask(candidate: Path, python: str) -> Path | None:
    """Return the interpreter behind ``candidate``, or None if it doesn't run or is another."""
    if not os.access(candidate, os.X_OK) or candidate.is_dir():
        return None
    try:
        outcome = run([candidate, "-c", _ASK], timeout=30)
    except OSError:
        return None
    name, path = outcome.stdout.strip().partition(f" {python} ")[::2]
    return Path(path) if outcome.ok and name == "cpython" and path else None
