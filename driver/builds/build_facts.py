"""What every strategy that makes an environment does at its end: import it, compare, describe."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from opduel.driver.builds.probe import Facts, ProbeError, probe
from opduel.frameworks import Framework
from opduel.records import BrokenBuildError, RunError

INTERPRETER = Path("bin") / "python"  # of an environment


def checked_facts(
    interpreter: Path, lock: int, request: str, packages: Mapping[str, str], framework: Framework
) -> Facts:
    """Import the framework in what was made for ``request``, and see that the packages are those asked for.

    Raises:
        BrokenBuildError: it does not import.
        RunError: a package (name -> version) differs.
    """
    try:
        facts = probe(interpreter, framework, (lock,))
    except ProbeError as error:
        raise BrokenBuildError(
            f"{request} was installed, but can't be imported: {error}: fix what it names, or ask for another build"
        ) from None
    differing = [
        f"{name} {facts.packages.get(name)} instead of {version}"
        for name, version in packages.items()
        if facts.packages.get(name) != version
    ]
    if differing:
        raise RunError(f"{request} was made with {', '.join(differing)}: check uv's settings")
    return facts


def own_libraries(facts: Facts, directory: Path) -> dict[str, int]:
    """The native libraries that lie in the environment, relative to it -> size in bytes."""
    root = directory.resolve()
    absolute = {facts.location.resolve() / name: size for name, size in facts.libraries.items()}
    return {str(path.relative_to(root)): size for path, size in absolute.items() if path.is_relative_to(root)}


def sha256_of(path: Path) -> str:
    """Of the file's content, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
