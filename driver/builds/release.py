"""The "release" strategy: a published version of the framework in an environment of its own."""

import hashlib
import json
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from opduel.driver.builds import uv
from opduel.driver.builds.build_facts import INTERPRETER, checked_facts, own_libraries, sha256_of
from opduel.driver.builds.cache import BuildCache
from opduel.driver.builds.interpreters import find_interpreter
from opduel.driver.builds.manifest import Manifest
from opduel.driver.builds.probe import Facts
from opduel.driver.builds.releases import Recipe
from opduel.frameworks import Framework
from opduel.records import Build

STRATEGY = "release"


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
    interpreter = directory / INTERPRETER
    said = uv.make_environment(directory, find_interpreter(recipe.python), (lock,))
    said += uv.install(recipe.request, recipe.requirements, interpreter, (lock,))
    packages = {recipe.package: recipe.version, **recipe.pins}
    facts = checked_facts(interpreter, lock, recipe.request, packages, framework)
    return Manifest(
        framework=framework.name,
        requested=recipe.request,
        strategy=STRATEGY,
        interpreter=str(INTERPRETER),
        version=facts.version,
        python=facts.python,
        digest=_digest(facts),
        packages=dict(facts.packages),
        environment={},
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        duration_s=round(time.monotonic() - started, 3),
        recipe=recipe,
        libraries=own_libraries(facts, directory),
        uv=uv.version(),
        log=said,
    )


def _digest(facts: Facts) -> str:
    """Equal for equal content, wherever and whenever it was made."""
    own = [name for name in facts.libraries if not Path(name).is_absolute()]
    content = {
        "version": facts.version,
        "python": facts.python,
        "packages": dict(facts.packages),
        "libraries": {name: sha256_of(facts.location / name) for name in own},
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
