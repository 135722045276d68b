"""The "environment" and "interpreter" strategies: a build that the user made, given by its path."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

from opduel.driver.builds.probe import Facts, ProbeError, probe
from opduel.frameworks import Framework
from opduel.records import Build, UsageError


def external_build(requested: str, framework: Framework, environment: Mapping[str, str]) -> Build:
    """The build at a path: an environment (a folder with bin/python) or a Python interpreter.

    It is inspected each time, for it may have changed; ``environment`` holds variables that it needs.

    Raises:
        UsageError: nothing runs there, or it does not import the framework.
    """
    path = Path(os.path.abspath(os.path.expanduser(requested)))  # not resolved: a venv's python is a link
    strategy, interpreter = ("environment", path / "bin" / "python") if os.path.isdir(path) else ("interpreter", path)
    _check_runnable(path, interpreter)
    try:
        facts = probe(interpreter, framework, environment=environment)
    except ProbeError as error:
        raise UsageError(
            f"{interpreter}: does not import {framework.import_name}: {error}: "
            f"fix that environment, or give another path or a release"
        ) from None
    return Build(
        framework=framework.name,
        requested=requested,
        strategy=strategy,
        interpreter=str(interpreter),
        version=facts.version,
        python=facts.python,
        digest=_digest(facts),
        packages=facts.packages,
        environment=dict(environment),
    )


def _check_runnable(path: Path, interpreter: Path) -> None:
    if not os.path.exists(path):
        raise UsageError(f"{path}: no such file or directory: give a release, an environment or an interpreter")
    if not os.path.isfile(interpreter):
        raise UsageError(f"{path}: has no bin/python: give a Python environment or an interpreter")
    if not os.access(interpreter, os.X_OK):
        raise UsageError(f"{interpreter}: is not executable: give a Python interpreter, or make it executable")


def _digest(facts: Facts) -> str:
    """Changes whenever a file of the framework or a library that it loads does, by size or modification time."""
    content = {
        "version": facts.version,
        "python": facts.python,
        "packages": dict(facts.packages),
        "files": dict(facts.files),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
