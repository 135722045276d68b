"""The packages import in one direction only, and only one of them knows MXNet: ARCHITECTURE.md, checked against the
code.
"""

import functools
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MAY_IMPORT = {
    "support": set(),
    "records": {"support"},
    "frameworks": {"support", "records"},
    "comparator": {"support", "records"},
    "reporters": {"support", "records", "comparator"},
    "server": {"support", "records", "comparator", "reporters"},
    "driver": {"support", "records", "frameworks"},
    "harness": {"support", "records", "frameworks", "comparator"},
    "causes": {"support", "records", "frameworks", "comparator", "harness"},
    "fleet": {"support", "records", "frameworks", "comparator", "reporters", "driver", "harness"},
    "commands": {
        *("support", "records", "frameworks", "comparator", "reporters", "server", "driver", "harness", "fleet"),
        *("causes", "inside"),
    },
    "opduel": {
        *("support", "records", "frameworks", "comparator", "reporters", "server", "driver", "harness", "fleet"),
        *("commands", "inside"),
    },
}


IMPORT = re.compile(
    r"^[ \t]*(?:import (?P<names>[\w.]+(?: as \w+)?(?:, [\w.]+(?: as \w+)?)*)"
    r"|from (?P<module>\w[\w.]*) import (?P<imported>.*?))(?:  #.*)?$",
    re.MULTILINE,
)


def tracked(pattern: str) -> list[Path]:
    listing = subprocess.run(["git", "ls-files", pattern], cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [ROOT / line for line in listing.stdout.splitlines()]
    return [path for path in paths if path.exists() and not path.is_symlink()]


@functools.cache
def imports_of(path: Path) -> tuple[str, ...]:
    """The modules that its import statements name, at whatever depth; ``opduel`` of no mere ``__version__``.

    By their text, as ruff formats them: to parse all files takes ten times as long.
    """
    names: list[str] = []
    for match in IMPORT.finditer(path.read_text(encoding="utf-8")):
        if match["names"]:
            names += [name.split()[0] for name in match["names"].split(",")]
        elif (match["module"], match["imported"]) != ("opduel", "__version__"):
            names.append(match["module"])
    return tuple(names)


def imported_packages(path: Path) -> set[str]:
    return {package_of(name) for name in imports_of(path)} & {*MAY_IMPORT, "inside"}


def package_of(module: str) -> str:
    """``opduel.driver.git`` -> ``driver``; ``opduel`` for a module of the package itself."""
    top, _, inner = module.partition(".")
    second = inner.partition(".")[0]
    return second if top == "opduel" and second in (*MAY_IMPORT, "inside") else top


def test_every_import_is_below_the_package() -> None:
    """In an environment with other software, ``driver`` or ``harness`` are somebody else's."""
    for path in tracked("*.py"):
        names = [name for name in imports_of(path) if not name.startswith("opduel")]
        assert not {name.partition(".")[0] for name in names} & MAY_IMPORT.keys(), path


@pytest.mark.parametrize("package", [*sorted(set(MAY_IMPORT) - {"opduel"}), "specifications"])
def test_opduel_has_each_package_by_a_link(package: str) -> None:
    assert (ROOT / "opduel" / package).readlink() == Path("..", package)


def test_one_command_alone_imports_causes() -> None:
    importers = {str(path.relative_to(ROOT)) for path in tracked("*.py") if "causes" in imported_packages(path)}
    outside = {path for path in importers if not path.startswith(("causes/", "tests/", "benchmarks/"))}
    assert outside == {"commands/session.py"}


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_packages_import_downwards_only(package: str) -> None:
    files = tracked(f"{package}/*.py")
    assert files
    for path in files:
        assert imported_packages(path) <= MAY_IMPORT[package] | {package}, path


def test_only_one_package_knows_mxnet() -> None:
    for package in MAY_IMPORT:
        for path in tracked(f"{package}/*.py"):
            inside = path.is_relative_to(ROOT / "frameworks/mxnet") or path == ROOT / "frameworks/registry.py"
            code = "\n".join(line.partition("#")[0] for line in path.read_text(encoding="utf-8").splitlines())
            assert inside or "mxnet" not in code.lower(), path


def test_every_package_is_in_the_architecture() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    packages = {path.relative_to(ROOT).parts[0] for path in tracked("*/*.py")}
    assert packages >= set(MAY_IMPORT)
    assert all(f"{package}/" in text for package in packages)


def test_no_file_names_a_registry() -> None:
    hosts = ("files." + "pythonhosted", "pypi." + "org/simple", "registry." + "npmjs")
    patterns = [word for host in hosts for word in ("-e", host)]
    search = subprocess.run(["git", "grep", "--files-with-matches", "--fixed-strings", *patterns], cwd=ROOT, text=True,
                            capture_output=True, check=False)  # fmt: skip
    assert (search.returncode, search.stdout) == (1, ""), "1: nothing found"
