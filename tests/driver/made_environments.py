"""Environments of packages that a test writes: folders with metadata, as installers leave them."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from opduel.driver.packages import Environment, EnvironmentPair, read_packages

PYTHON = "3.11.7"


def install(
    site: Path, name: str, version: str, code: str = "", requires: Sequence[str] = (), metadata: Sequence[str] = ()
) -> None:
    """Install a package of one module into a folder."""
    site.mkdir(parents=True, exist_ok=True)
    (site / f"{name}.py").write_text(code)
    described = site / f"{name}-{version}.dist-info"
    described.mkdir()
    lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {line}" for line in requires), *metadata]
    (described / "METADATA").write_text("\n".join(["Metadata-Version: 2.1", *lines]) + "\n")
    digest = base64.urlsafe_b64encode(hashlib.sha256(code.encode()).digest()).decode().rstrip("=")
    rows = [f"{name}.py,sha256={digest},{len(code)}", f"{described.name}/METADATA,,", f"{described.name}/RECORD,,"]
    (described / "RECORD").write_text("\n".join(rows) + "\n")


def environment(
    site: Path, versions: Mapping[str, str], requires: Mapping[str, Sequence[str]] | None = None
) -> Environment:
    """Return an environment of packages; ``requires`` has what some of them need."""
    for name, version in versions.items():
        install(site, name, version, requires=(requires or {}).get(name, ()))
    return Environment(site.name, Path("/usr/bin/python3.11"), PYTHON, read_packages([site], PYTHON))


def a_pair(
    folder: Path,
    old: Mapping[str, str],
    new: Mapping[str, str],
    old_needs: Mapping[str, Sequence[str]] | None = None,
    new_needs: Mapping[str, Sequence[str]] | None = None,
) -> EnvironmentPair:
    """Return two environments with these packages."""
    return EnvironmentPair(environment(folder / "old", old, old_needs), environment(folder / "new", new, new_needs))
