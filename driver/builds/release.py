"""The "release" strategy: a published version of the framework in an environment of its own."""

import hashlib
import json
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from driver.builds import uv
from driver.builds.cache import BuildCache
from driver.builds.interpreters import find_interpreter
from driver.builds.manifest import Manifest
from driver.builds.probe import Facts, ProbeError, probe
from driver.builds.releases import Recipe
from frameworks import Framework
from records import Build, RunError

STRATEGY = "release"
_INTERPRETER = Path("bin") / "python"


def release_build(requested: str, recipe: Recipe, framework: Framework, cache: BuildCache) -> Build:
    """The recipe's build, from the cache or made now.

    Raises:
        RunError: no interpreter, no network, no wheel, no space, or what was made does not import.
    """

    def make(directory: Path, lock: int) -> Manifest:
        return _make(directory, lock, recipe, framework)

    return replace(cache.find_or_make(framework.name, recipe, make), requested=requested)


def _make(directory: Path, lock: int, recipe: Recipe, framework: Framework) -> Manifest:
    started = time.monotonic()
    interpreter = directory / _INTERPRETER
    said = uv.make_environment(directory, find_interpreter(recipe.python), (lock,))
    said += uv.install(recipe, interpreter, (lock,))
    facts = _check(interpreter, lock, recipe, framework)
    return Manifest(
        framework=framework.name,
        requested=recipe.request,
        strategy=STRATEGY,
        interpreter=str(_INTERPRETER),
        version=facts.version,
        python=facts.python,
        digest=_digest(facts),
        packages=dict(facts.packages),
        environment={},
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        duration_s=round(time.monotonic() - started, 3),
        recipe=recipe,
        libraries=_own_libraries(facts, directory),
        uv=uv.version(),
        log=said,
    )


def _check(interpreter: Path, lock: int, recipe: Recipe, framework: Framework) -> Facts:
    """Import the framework in what was made, and see that it is what was asked for."""
    try:
        facts = probe(interpreter, framework, (lock,))
    except ProbeError as error:
        raise RunError(
            f"{recipe.request} was made but does not import: {error}: mend what it names, or ask for another release"
        ) from None
    differing = [
        f"{name} {facts.packages.get(name)} instead of {version}"
        for name, version in {recipe.package: recipe.version, **recipe.pins}.items()
        if facts.packages.get(name) != version
    ]
    if differing:
        raise RunError(f"{recipe.request} was made with {', '.join(differing)}: check uv's settings")
    return facts


def _digest(facts: Facts) -> str:
    """Equal for equal content, wherever and whenever it was made."""
    content = {
        "version": facts.version,
        "python": facts.python,
        "packages": dict(facts.packages),
        "libraries": {name: _hash(facts.location / name) for name in facts.libraries if not Path(name).is_absolute()},
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _own_libraries(facts: Facts, directory: Path) -> dict[str, int]:
    """The native libraries that lie in the environment, relative to it -> size in bytes."""
    root = directory.resolve()
    absolute = {facts.location.resolve() / name: size for name, size in facts.libraries.items()}
    return {str(path.relative_to(root)): size for path, size in absolute.items() if path.is_relative_to(root)}


def _hash(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
