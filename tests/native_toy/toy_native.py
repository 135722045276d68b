"""The native toy as a framework: found in a specifications folder that the test has written."""

import json
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from opduel.frameworks import Builds, Cases, Framework

HERE = Path(__file__).resolve().parent
PYTHON = "{}.{}".format(*sys.version_info)
SPEC = "toy.json"


class NativeToy(Framework):
    """A C library with a Python package over it."""

    name = "toy"
    builds = Builds(import_name="toy")
    cases = Cases(namespaces={"toy": ()}, not_operators=("array",))

    def __init__(self, specifications: Path) -> None:
        self._specifications = specifications

    @property
    def specifications(self) -> Path:
        return self._specifications

    @property
    def adaptor(self) -> Path:
        return HERE / "adaptor.py"

    def environment(self, threads: int) -> Mapping[str, str]:
        return {"TOY_THREADS": str(threads), "TOY_CLOCK": os.environ.get("TOY_CLOCK", "simulated")}

    def can_fork(self, threads: int, context: str) -> bool:
        return True


class RegisteredToy(NativeToy):
    """The toy as frameworks of other packages are found: by the entry point in ``installed/``."""

    def __init__(self, frameworks_dir: Path) -> None:
        super().__init__(Path(os.environ["TOY_SPECIFICATIONS"]))


def write_specifications(folder: Path, remote: Path, releases: Mapping[str, str] | None = None) -> Path:
    """Write the framework's data files; returns the folder. ``releases``: version -> the commit it was made from."""
    shutil.copytree(HERE / "specifications", folder)
    versions = list(releases or ["1.0"])
    repository = {
        "remote": str(remote),
        "package": "python/toy",
        "not_native": ["python", "docs", "*.md"],
        "environment": "plain",
        "releases": {f"toy=={version}": commit for version, commit in (releases or {}).items()},
    }
    of_releases = {
        "defaults": {"control": f"toy=={versions[0]}", "treatment": f"toy=={versions[-1]}"},
        "environments": {"plain": {"python": PYTHON, "pins": {}}},
        "packages": {"toy": {"plain": versions}},
    }
    for name, data in (("repository", repository), ("releases", of_releases)):
        (folder / f"{name}.yaml").write_text(json.dumps(data, indent=1))  # YAML, too
    return folder
