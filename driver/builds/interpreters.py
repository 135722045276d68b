"""Find a working interpreter of a given Python version on this machine; never download one."""

import itertools
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from packaging.version import Version

from opduel.driver.builds import uv
from opduel.driver.builds.process import run
from opduel.records import RunError

_ASK = (
    "import os, sys; print('%s %d.%d %s' % (sys.implementation.name, sys.version_info[0], sys.version_info[1],"
    " os.path.realpath(getattr(sys, '_base_executable', None) or sys.executable)))"
)


def find_interpreter(python: str, root: Path = Path("/")) -> Path:
    """Return an interpreter whose version is ``python`` ("3.11"), as an absolute path.

    Looked for in this order: the one that runs opduel, PATH, pyenv's versions, uv's own, the system's folders below
    ``root``. RunError: there is none; says where it was looked for and how to give one.
    """
    own = [Path(sys.executable)] if "{}.{}".format(*sys.version_info) == python else []
    for candidate in itertools.chain(own, (folder / f"python{python}" for folder in _folders(python, root))):
        if interpreter := _ask(candidate, python):
            return interpreter
    raise RunError(
        f"no Python {python} found: looked on PATH, in {_pyenv_versions()}, among uv's own, in /usr/bin, "
        f"/usr/local/bin and /opt/python*: install Python {python} so that `python{python}` runs, "
        f"or give the path of another environment"
    )


def _folders(python: str, root: Path) -> Iterator[Path]:
    """Yield the folders in which interpreters of that version may be; of pyenv's, the newest patch release first."""
    yield from (Path(folder).absolute() for folder in os.environ.get("PATH", "").split(os.pathsep) if folder)
    versions = [path.name for path in _pyenv_versions().glob(f"{python}*") if re.fullmatch(r"[0-9.]+", path.name)]
    patches = [version for version in versions if f"{version}.".startswith(f"{python}.")]
    yield from (_pyenv_versions() / version / "bin" for version in sorted(patches, key=Version, reverse=True))
    yield from (interpreter.parent for interpreter in uv.managed_interpreters(python))
    yield from (root / "usr/bin", root / "usr/local/bin")
    yield from sorted(root.glob("opt/python*/bin"))
    yield from sorted(root.glob("opt/python/*/bin"))


def _pyenv_versions() -> Path:
    root = os.environ.get("PYENV_ROOT")
    return (Path(root) if root else Path.home() / ".pyenv") / "versions"


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
