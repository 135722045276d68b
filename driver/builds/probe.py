"""Ask an interpreter what it imports: version, Python, packages and files, in one subprocess."""

import functools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.construct import ConstructError
from elftools.elf.elffile import ELFFile
from packaging.version import Version

from opduel.driver.builds.process import run
from opduel.frameworks import Framework, worker_environment
from opduel.records import OpduelError
from opduel.support.digests import data_digest

_INSIDE = Path(__file__).with_name("inside.py")
TIMEOUT_S = 180.0  # an import takes 1 to 4 s; a cold disk or an emulated CPU much longer


class ProbeError(OpduelError):
    """The interpreter did not import the framework; the text is the tail of its output."""


@dataclass(frozen=True)
class Facts:
    """The facts about a build that its own interpreter reports."""

    version: str
    python: str
    location: Path  # the framework's own folder
    packages: Mapping[str, str]
    files: Mapping[str, tuple[int, int]]  # path, relative within ``location`` -> size in bytes, mtime in ns
    details: Mapping[str, str] = field(default_factory=dict)  # "BLAS of numpy" -> "OpenBLAS 0.3.27"

    @property
    def libraries(self) -> dict[str, int]:
        """The native libraries among the files, path -> size in bytes."""
        return {path: size for path, (size, _) in self.files.items() if ".so" in Path(path).name}

    def digest(self, **content: Mapping[str, object]) -> str:
        """Return a digest that is equal for an equal version, Python, packages and ``content``."""
        identity = {"version": self.version, "python": self.python, "packages": dict(self.packages), **content}
        return data_digest(identity)


def probe(
    interpreter: Path,
    framework: Framework,
    inherit: Sequence[int] = (),
    environment: Mapping[str, str] | None = None,
) -> Facts:
    """Import the framework in ``interpreter`` and collect the facts; ``inherit`` as for ``process.run``.

    Where the framework is no package of its own, these are of the whole environment.

    ``environment``: further variables that the build needs. ProbeError: it does not run, does not import the framework,
    or answers something else.
    """
    variables = {**worker_environment(), **framework.environment(1), **(environment or {})}  # as by a worker
    command = [str(interpreter), str(_INSIDE), framework.builds.import_name or ""]
    try:
        outcome = run(command, timeout=TIMEOUT_S, whole_environment=variables, inherit=inherit)
    except OSError as error:
        raise ProbeError(f"can't be started ({error.strerror})") from None
    if not outcome.ok:
        raise ProbeError(outcome.output_tail)
    try:
        answer = json.loads(outcome.stdout)
        files = {path: (int(size), int(mtime)) for path, (size, mtime) in answer["files"].items()}
        details = {str(name): str(value) for name, value in answer["details"].items()}
        packages, location = dict(answer["packages"]), Path(answer["location"])
        facts = Facts(answer["version"], answer["python"], location, packages, files, details)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ProbeError("its answer is not understood: is it a Python interpreter?") from None
    return replace(facts, details={**_compilers_of(facts, framework.builds.import_name or ""), **details})


def _compilers_of(facts: Facts, name: str) -> dict[str, str]:
    """Return the compilers of the packages' libraries: "compiler of numpy" -> "GCC 14.2.1"; commas join several.

    ``name`` is the package that is imported; without it, all packages count. Foreign libraries in wheels (numpy.libs)
    are left out.
    """
    versions: dict[str, set[str]] = {}
    for library in facts.libraries:
        path = facts.location / library
        parts = path.relative_to(facts.location).parts if path.is_relative_to(facts.location) else ()
        is_in_package = len(parts) > (0 if name else 1)
        if is_in_package and not any(part.endswith(".libs") for part in parts):
            versions.setdefault(name or parts[0], set()).update(_compilers_at(path, *facts.files[library]))
    return {f"compiler of {owner}": ", ".join(sorted(texts)) for owner, texts in versions.items() if texts}


@functools.lru_cache(maxsize=4096)
def _compilers_at(path: Path, size: int, mtime_ns: int) -> frozenset[str]:
    """Return the compilers that a library names; both sides' builds often have the same libraries."""
    try:
        with path.open("rb") as stream:
            section = ELFFile(stream).get_section_by_name(".comment")
            return frozenset(compilers_in(section.data())) if section else frozenset()
    except (OSError, ELFError, ConstructError, ValueError, AttributeError, KeyError):
        return frozenset()  # no ELF file, or not a whole one


def compilers_in(comment: bytes) -> set[str]:
    """Return the compilers that a library's section ``.comment`` names, each in its newest version: {"GCC 10.2.1"}.
    Older versions come from the C library's files that were linked in."""
    newest: dict[str, Version] = {}
    for kind, number in re.findall(rb"(GCC|clang version|Intel[^\0]*?Compiler)[^\0]*?\b(\d+(?:\.\d+)+)", comment):
        label, version = kind.decode().replace(" version", ""), Version(number.decode())
        newest[label] = max(version, newest.get(label, version))
    return {f"{label} {version}" for label, version in newest.items()}
