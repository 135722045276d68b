"""A tiny framework with releases of its own, in a local package index: real wheels, real uv, no network."""

import logging
import os
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

from opduel.frameworks import Builds, Framework

PYTHON = "{}.{}".format(*sys.version_info)

# What the toy does on import is steered by variables, so that a test can stop a maker in mid-build.
CODE = """
import os, time
print("garbage on stdout")
if "TOY_LOG" in os.environ:
    with open(os.environ["TOY_LOG"], "a") as log:
        log.write("imported\\n")
while os.path.exists(os.environ.get("TOY_BLOCK", "")):
    time.sleep(0.02)
__version__ = "{version}"
"""

RELEASES = f"""
defaults: {{control: toy==1.0, treatment: toy==2.0}}
environments:
  plain: {{python: "{PYTHON}", pins: {{toydep: "0.5"}}}}
  ancient: {{python: "3.99", pins: {{}}}}
packages:
  toy: {{plain: ["1.0", "2.0", "3.0", "4.0", "5.0"], ancient: ["0.1"]}}
"""


class Toy(Framework):
    """Its data lie wherever the test says."""

    name = "toy"
    builds = Builds(import_name="toy")

    def __init__(self, specifications: Path) -> None:
        self._specifications = specifications

    @property
    def specifications(self) -> Path:
        return self._specifications

    @property
    def adaptor(self) -> Path:
        return self._specifications / "adaptor.py"

    def environment(self, threads: int) -> Mapping[str, str]:
        """What tests tell the toy by our own environment goes along: the probe gets nothing else of it."""
        passed_on = {name: value for name, value in os.environ.items() if name.startswith("TOY_")}
        return {"TOY_THREADS": str(threads), **passed_on}

    def can_fork(self, threads: int, context: str) -> bool:
        return True


def write_releases(folder: Path, text: str = RELEASES) -> Toy:
    """The toy whose data file holds ``text``."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "releases.yaml").write_text(text)
    return Toy(folder)


def write_index(folder: Path) -> str:
    """An index with toy 1.0, 2.0 (good), 3.0 (fails at import), 5.0 (for another platform); returns its address.

    There is no toy 4.0, though the data promise it.
    """
    for version in ("1.0", "2.0"):
        write_wheel(folder, "toy", version, CODE.format(version=version))
    write_wheel(folder, "toy", "3.0", "raise OSError('libtoyblas.so.0: cannot open shared object file')")
    write_wheel(folder, "toy", "5.0", "", tag="py3-none-win32")
    write_wheel(folder, "toydep", "0.5", "")
    for project in ("toy", "toydep"):
        wheels = sorted(path.name for path in folder.glob(f"{project}-*.whl"))
        page = folder / "simple" / project / "index.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text("".join(f'<a href="../../{name}">{name}</a>\n' for name in wheels))
    return (folder / "simple").as_uri()


def write_wheel(folder: Path, name: str, version: str, code: str, tag: str = "py3-none-any") -> None:
    """A wheel with one package of the same name: its code and something that looks like a native library."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}/__init__.py": code,
        f"{name}/lib{name}.so": f"native code of {name} {version}",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    with zipfile.ZipFile(folder / f"{name}-{version}-{tag}.whl", "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
        record = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
        wheel.writestr(f"{info}/RECORD", record)


def leftovers(cache: Path) -> list[str]:
    """Whatever lies in the cache and is neither a build nor a lock file."""
    entries = [entry for folder in cache.glob("*/*") for entry in folder.iterdir()]
    return [e.name for e in entries if not e.name.startswith(".lock-") and not (e / "manifest.json").is_file()]


def builds(cache: Path) -> list[Path]:
    """The builds in place."""
    return [path.parent for path in cache.glob("*/*/*/manifest.json") if not path.parent.name.startswith(".")]


if __name__ == "__main__":  # python toy_framework.py SPECIFICATIONS CACHE REQUEST: resolve, as another process would
    from opduel.driver.builds import BuildCache, resolve_build

    logging.basicConfig(level=logging.INFO)
    print(resolve_build(sys.argv[3], Toy(Path(sys.argv[1])), BuildCache(Path(sys.argv[2]))).interpreter)
