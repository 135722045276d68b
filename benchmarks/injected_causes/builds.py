"""Builds with a copy of the package for each cause, which the treatment alone has."""

import json
import re
import subprocess
import venv
from collections.abc import Mapping
from pathlib import Path

from benchmarks.injected_causes.cause import FILES, HERE, Cause

FLAGS = ("-O2", "-ftree-vectorize", "-g", "-shared", "-fPIC", "-w")
MODULE = "smallnum"
INNER_FUNCTION = {"C": r"^\w[\w ]+ (?!sn_)(\w+)\(", "Python": r"^def (_\w+)\("}  # which nothing else calls


def module_of(number: int) -> str:
    """Return the name of the package's copy for a cause, which reveals nothing of it."""
    return f"{MODULE}_{number:02d}"


def rename_functions(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the package's texts with the name of each inner function spelt backwards."""
    names = [
        name for language, file in FILES.items() for name in re.findall(INNER_FUNCTION[language], texts[file], re.M)
    ]
    pattern = re.compile(rf"\b(?:{'|'.join(names)})\b")
    return {file: pattern.sub(lambda match: match[0][::-1], text) for file, text in texts.items()}


def write_builds(folder: Path, packages: Path, causes: Mapping[int, Cause]) -> None:
    """Write the environments "control" and "treatment", and two that the control is compared with: "same" is a copy of
    it, and in "renamed" its functions have other names. All import what ``packages``, a site-packages folder, has.

    Raises:
        ValueError: an edit doesn't fit.
        subprocess.CalledProcessError: a copy doesn't compile.
    """
    texts = {file: (HERE / file).read_text() for file in FILES.values()}
    for name in ("control", "treatment", "same", "renamed"):
        site_packages = _make_environment(folder / name, packages)
        for number, cause in causes.items():
            sources = dict(texts)
            if name == "treatment":
                sources[FILES[cause.language]] = cause.apply(texts[FILES[cause.language]])
            elif name == "renamed":
                sources = rename_functions(texts)
            _write_package(site_packages / module_of(number), sources)


def _make_environment(folder: Path, packages: Path) -> Path:
    venv.create(folder, symlinks=True, with_pip=False)
    site_packages = next(folder.glob("lib/python*/site-packages"))
    (site_packages / "numpy_of_the_build.pth").write_text(f"{packages}\n")
    return site_packages


def _write_package(folder: Path, sources: Mapping[str, str]) -> None:
    """Write and compile a copy of the package. ``sources``: file -> text."""
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(sources[FILES["Python"]])
    source = folder / FILES["C"]  # beside the library, so that its debug information has a path in each build
    source.write_text(sources[FILES["C"]])
    command: list[str | Path] = ["gcc", *FLAGS, "-o", folder / f"lib{MODULE}.so", source, "-lm", "-lpthread"]
    subprocess.run(command, check=True)


def write_spec(path: Path, causes: Mapping[int, Cause]) -> None:
    """Write the spec of the causes' cases; each is named for its copy of the package."""
    tests = []
    for number, cause in causes.items():
        module = module_of(number)
        inputs = json.loads(json.dumps(cause.inputs).replace(f"{MODULE}.", f"{module}."))
        tests.append({"identifier": module, "operator": f"{module}.{cause.operator}", "inputs": inputs})
    path.write_text(json.dumps({"framework": "python", "tests": tests}, indent=1))
