"""Describe a build: run by path in the build's own interpreter. Standard library, Python 3.6 syntax.

The only argument is the name to import; without it the whole environment is described.  The answer is one JSON
document on stdout, whatever the import prints.
"""

# ruff: noqa: UP006, UP035, UP045
import sys

sys.path.pop(0)  # this folder: its modules must not hide any of the build's

import ctypes
import json
import os
import re
import sysconfig
from email.parser import HeaderParser
from importlib.machinery import EXTENSION_SUFFIXES
from typing import Dict, Iterable, Iterator, List, Optional, Set, Tuple
from urllib.parse import unquote

NOT_SOURCE = ("__pycache__", "node_modules")
BYTECODE = (".pyc", ".pyo")
CODE = (".py", *EXTENSION_SUFFIXES)
MOST_EDITABLE = 50000  # files


def main(name: str) -> None:
    """Import ``name`` and print version, python, location, packages and files (path -> [size, mtime in ns])."""
    answer = os.dup(1)
    os.dup2(2, 1)
    before = mapped_files()
    python = ".".join(str(part) for part in sys.version_info[:3])
    version, location = imported(name) if name else (python, sysconfig.get_paths()["purelib"])
    details = {} if name else numerical_libraries(location)
    mapped = mapped_files() - before
    document = {
        "version": version,
        "python": python,
        "location": location,
        "packages": installed_packages(),
        "details": details,
        "files": describe(list(own_files(location)) + ([] if name else editable_files(location)), location, mapped),
    }
    with os.fdopen(answer, "w") as stream:
        json.dump(document, stream)
    os._exit(0)  # a framework that would crash at exit has given its answer


def imported(name: str) -> Tuple[str, str]:
    """Import ``name``; returns its version and folder."""
    module = __import__(name)
    file = getattr(module, "__file__", None)
    if not file:
        raise ImportError(f"{name} is a folder without code ({list(module.__path__)[:1]})")
    return str(module.__version__), os.path.dirname(os.path.abspath(file))


def installed_packages() -> Dict[str, str]:
    """Name -> version of every distribution on sys.path, the first found of each name.

    Read from the metadata itself: Python 3.7 has no importlib.metadata, and a bare environment no pkg_resources.
    """
    packages = {}  # type: Dict[str, str]
    for folder in sys.path:
        try:
            entries = sorted(os.listdir(folder or "."))
        except OSError:
            continue
        for entry in entries:
            if entry.endswith((".dist-info", ".egg-info")):
                name, version = headers(os.path.join(folder, entry))
                if name:
                    packages.setdefault(re.sub("[-_.]+", "-", name).lower(), version or "unknown")
    return packages


def numerical_libraries(site: str) -> Dict[str, str]:
    """Return the libraries for linear algebra that packages bring: "BLAS of numpy" -> "OpenBLAS 0.3.27"."""
    libraries = {}
    for folder, folders, files in os.walk(site):
        if os.path.relpath(folder, site).count(os.sep) >= 1:
            del folders[:]  # libraries lie in numpy.libs, or scipy_openblas64/lib
        for name in files:
            if "openblas" in name and ".so" in name:
                owner = os.path.relpath(folder, site).split(os.sep)[0]
                owner = owner[: -len(".libs")] if owner.endswith(".libs") else owner
                libraries["BLAS of " + owner] = openblas_version(os.path.join(folder, name)) or "OpenBLAS"
    return libraries


def openblas_version(path: str) -> Optional[str]:
    """Return the library's own name and version, "OpenBLAS 0.3.27"; None if it can't be loaded or doesn't tell."""
    folder = os.path.dirname(path)
    # The libraries that it needs lie beside it, where it may not look itself: quadmath, then gfortran.
    needed = sorted((name for name in os.listdir(folder) if "quadmath" in name or "gfortran" in name), reverse=True)
    try:
        for name in needed:
            ctypes.CDLL(os.path.join(folder, name))
        library = ctypes.CDLL(path)
    except OSError:
        return None
    for prefix in ("scipy_", ""):
        for suffix in ("64_", "_64", "64", ""):
            function = getattr(library, prefix + "openblas_get_config" + suffix, None)
            if function is not None:
                function.restype = ctypes.c_char_p
                words = (function() or b"").decode("ascii", "replace").split()
                return " ".join(words[:2]) or None
    return None


def headers(path: str) -> Tuple[Optional[str], Optional[str]]:
    """Return the Name and Version in a distribution's metadata, or (None, None)."""
    candidates = [path] if os.path.isfile(path) else [os.path.join(path, f) for f in ("METADATA", "PKG-INFO")]
    for candidate in candidates:
        try:
            with open(candidate, encoding="utf-8", errors="replace") as stream:
                message = HeaderParser().parse(stream)
        except OSError:
            continue
        return message["Name"], message["Version"]
    return None, None


def own_files(location: str) -> Iterator[str]:
    """Return every file of the framework's package, without bytecode."""
    for folder, folders, files in os.walk(location):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in files:
            if not name.endswith((".pyc", ".pyo")):
                yield os.path.join(folder, name)


def editable_files(site: str) -> List[str]:
    """Return the files that are imported from outside the environment: by editable projects and .pth files.

    These are code, and other files in packages: at most ``MOST_EDITABLE``, code first. Hidden folders, other
    environments, node_modules, and a folder that contains the user's home are left out.
    """
    site = os.path.realpath(site)
    home = os.path.realpath(os.path.expanduser("~"))
    code, data, packages = [], [], set()  # type: List[str], List[str], Set[str]
    for place in sorted(set(map(os.path.realpath, imported_from(site)))):
        if within(place, site) or within(home, place):
            continue
        for folder, folders, files in os.walk(place):
            paths = {name: os.path.join(folder, name) for name in folders}
            own = [
                name for name in folders if not name.startswith(".") and name not in NOT_SOURCE and paths[name] != site
            ]
            folders[:] = sorted(name for name in own if not os.path.exists(os.path.join(paths[name], "pyvenv.cfg")))
            is_package = "__init__.py" in files or os.path.dirname(folder) in packages
            if is_package:
                packages.add(folder)
            for file_name in sorted(files):
                if file_name.endswith(CODE):
                    code.append(os.path.join(folder, file_name))
                elif is_package and not file_name.endswith(BYTECODE):
                    data.append(os.path.join(folder, file_name))
            if len(code) + len(data) > 4 * MOST_EDITABLE:
                break
    return sorted(list(dict.fromkeys(code + data))[:MOST_EDITABLE])


def imported_from(site: str) -> Iterator[str]:
    """Return the folders outside an environment that its packages are imported from."""
    try:
        entries = sorted(os.listdir(site))
    except OSError:  # an interpreter may name a folder that is not there yet
        return
    for entry in entries:
        path = os.path.join(site, entry)
        try:
            if entry.endswith(".pth"):
                with open(path, encoding="utf-8", errors="replace") as stream:
                    lines = [line.strip() for line in stream]
                targets = (os.path.join(site, line) for line in lines if line and not line.startswith(("#", "import")))
                for target in targets:
                    if os.path.isdir(target):
                        yield target
            elif entry.endswith(".dist-info"):
                with open(os.path.join(path, "direct_url.json"), encoding="utf-8") as stream:
                    data = json.load(stream)
                if data.get("dir_info", {}).get("editable") and data["url"].startswith("file://"):
                    yield unquote(data["url"][len("file://") :])
        except (OSError, ValueError, KeyError, AttributeError):
            continue


def within(path: str, folder: str) -> bool:
    """Tell whether a path is that folder, or in it; both are real paths."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def mapped_files() -> Set[str]:
    """Return the libraries that this process has loaded; none where the system doesn't tell."""
    try:
        with open("/proc/self/maps") as stream:
            paths = [line.split(None, 5)[5].strip() for line in stream if "/" in line]
    except (OSError, IndexError):
        return set()
    return {path for path in paths if ".so" in os.path.basename(path) and os.path.isfile(path)}


def describe(own: Iterable[str], location: str, mapped: Set[str]) -> Dict[str, List[int]]:
    """Return path (relative within ``location``) -> [size, mtime in ns] of the package's files and loaded libraries."""
    real_location = os.path.realpath(location)
    described, real_folders = {}, {}  # type: Dict[str, List[int]], Dict[str, str]
    for path in list(own) + sorted(mapped):
        folder, name = os.path.split(path)
        if folder not in real_folders:  # os.path.realpath asks for each folder of a path: most of an inspection's time
            real_folders[folder] = os.path.realpath(folder)
        real_path = os.path.join(real_folders[folder], name)
        if os.path.islink(real_path):
            real_path = os.path.realpath(real_path)
        try:
            status = os.stat(real_path)
        except OSError:  # a link to nowhere, or removed meanwhile
            continue
        inside = real_path.startswith(real_location + os.sep)
        key = real_path[len(real_location) + 1 :] if inside else path
        described[key] = [status.st_size, status.st_mtime_ns]
    return described


if __name__ == "__main__":
    main(sys.argv[1])
