"""What a build says of itself: run by path in the build's own interpreter. Standard library, Python 3.6 syntax.

The only argument is the name to import, or nothing: then the whole environment is described.  The answer is one JSON
document on stdout, whatever the import prints.
"""

# ruff: noqa: UP006, UP035, UP045
import sys

sys.path.pop(0)  # this folder: its modules must not hide any of the build's

import ctypes
import json
import os
import re
import struct
import sysconfig
from importlib.machinery import EXTENSION_SUFFIXES
from typing import BinaryIO, Dict, Iterable, Iterator, List, Optional, Set, Tuple
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
    details = dict(compilers(location, name), **({} if name else numerical_libraries(location)))
    mapped = mapped_files() - before  # after the libraries have been asked, which may import NumPy
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
    os._exit(0)  # a framework that stumbles on the way out has said all that was asked


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
    """What computes linear algebra for the packages: "BLAS of numpy" -> "OpenBLAS 0.3.27".

    The libraries that lie in the packages are asked themselves; where NumPy brings none, it is asked what it was built
    with.
    """
    found = {}
    for folder, folders, files in os.walk(site):
        if os.path.relpath(folder, site).count(os.sep) >= 1:
            del folders[:]  # libraries lie in numpy.libs, or scipy_openblas64/lib
        for name in files:
            if "openblas" in name and ".so" in name:
                owner = os.path.relpath(folder, site).split(os.sep)[0]
                owner = owner[: -len(".libs")] if owner.endswith(".libs") else owner
                found["BLAS of " + owner] = openblas_version(os.path.join(folder, name)) or "OpenBLAS"
    if "BLAS of numpy" not in found and os.path.isdir(os.path.join(site, "numpy")):
        built_with = numpy_blas()
        found.update({"BLAS of numpy": built_with} if built_with else {})
    return found


def openblas_version(path: str) -> Optional[str]:
    """What the library says of itself: "OpenBLAS 0.3.27". None: it can't be loaded, or has no such function."""
    folder = os.path.dirname(path)
    # Those that it needs lie beside it, where it may not look by itself: quadmath, then gfortran.
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


def numpy_blas() -> Optional[str]:
    """What NumPy says that it was built with; None if it doesn't say, or can't be imported."""
    try:
        import numpy.__config__

        blas = numpy.__config__.CONFIG["Build Dependencies"]["blas"]
        name = str(blas.get("name", "auto"))
        if name == "auto" or not blas.get("found", True):  # none was found
            return "its own"
        return " ".join(word for word in (name, str(blas.get("version", ""))) if word and word != "unknown")
    except Exception:
        return None


def compilers(location: str, name: str = "") -> Dict[str, str]:
    """What compiled the packages' libraries: "compiler of numpy" -> "GCC 14.2.1"; several with commas between.

    Libraries say so in their section ``.comment``. ``location`` is the folder of the package ``name``, or else of all
    packages; what wheels brought along from elsewhere (numpy.libs) is left out.
    """
    found = {}  # type: Dict[str, Set[str]]
    for folder, folders, files in os.walk(location):
        folders[:] = [one for one in folders if one != "__pycache__" and not one.endswith(".libs")]
        owner = name or os.path.relpath(folder, location).split(os.sep)[0]
        for one in files:
            if ".so" in one and (name or owner != "."):
                found.setdefault(owner, set()).update(compilers_of(os.path.join(folder, one)))
    return {"compiler of " + owner: ", ".join(sorted(said)) for owner, said in found.items() if said}


def compilers_of(path: str) -> Set[str]:
    """The compilers that a library names, of each the newest version: {"GCC 10.2.1"}. An older one is that of a file of
    the C library that was linked in. Empty for what is no 64-bit ELF file of little-endian byte order."""
    try:
        with open(path, "rb") as stream:
            comment = section(stream, b".comment")
    except (OSError, struct.error):
        return set()
    newest = {}  # type: Dict[str, Tuple[int, ...]]
    for kind, number in re.findall(rb"(GCC|clang version|Intel[^\0]*?Compiler)[^\0]*?\b(\d+(?:\.\d+)+)", comment):
        version = tuple(int(part) for part in number.split(b"."))
        label = kind.decode().replace(" version", "")
        newest[label] = max(version, newest.get(label, ()))
    return {label + " " + ".".join(map(str, version)) for label, version in newest.items()}


def section(stream: BinaryIO, wanted: bytes) -> bytes:
    """A section of a 64-bit ELF file of little-endian byte order; empty where there is none.

    Raises:
        struct.error: the file ends before it should.
    """
    header = stream.read(64)
    if header[:6] != b"\x7fELF\x02\x01":
        return b""
    (start,) = struct.unpack_from("<Q", header, 0x28)
    size, number, names_at = struct.unpack_from("<HHH", header, 0x3A)
    places = []
    for index in range(number):
        stream.seek(start + index * size)
        entry = stream.read(64)
        places.append(struct.unpack("<IIQQQQ", entry[:40]))
    if names_at >= len(places):
        return b""
    stream.seek(places[names_at][4])
    names = stream.read(places[names_at][5])
    for place in places:
        if names[place[0] :].partition(b"\0")[0] == wanted:
            stream.seek(place[4])
            return stream.read(place[5])
    return b""


def headers(path: str) -> Tuple[Optional[str], Optional[str]]:
    """The Name and Version in a distribution's metadata, or (None, None)."""
    candidates = [path] if os.path.isfile(path) else [os.path.join(path, f) for f in ("METADATA", "PKG-INFO")]
    found = {}  # type: Dict[str, str]
    for candidate in candidates:
        try:
            with open(candidate, encoding="utf-8", errors="replace") as stream:
                for line in stream:
                    key, colon, value = line.partition(":")
                    if not colon:
                        break
                    found.setdefault(key, value.strip())
        except OSError:
            continue
    return found.get("Name"), found.get("Version")


def own_files(location: str) -> Iterator[str]:
    """Every file of the framework's package but bytecode, which comes and goes."""
    for folder, folders, files in os.walk(location):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in files:
            if not name.endswith((".pyc", ".pyo")):
                yield os.path.join(folder, name)


def editable_files(site: str) -> List[str]:
    """The code of what is imported from elsewhere: of projects that are installed as editable, and of the folders that
    .pth files name; and all else that is in its packages. No more than ``MOST_EDITABLE``, code first.

    Left out are hidden folders, other environments, node_modules, and what would be the user's whole home folder.
    """
    site = os.path.realpath(site)
    home = os.path.realpath(os.path.expanduser("~"))
    code, others, packages = [], [], set()  # type: List[str], List[str], Set[str]
    for place in sorted(set(map(os.path.realpath, imported_from(site)))):
        if within(place, site) or within(home, place):
            continue
        for folder, folders, files in os.walk(place):
            paths = {one: os.path.join(folder, one) for one in folders}
            own = [one for one in folders if not one.startswith(".") and one not in NOT_SOURCE and paths[one] != site]
            folders[:] = sorted(one for one in own if not os.path.exists(os.path.join(paths[one], "pyvenv.cfg")))
            is_package = "__init__.py" in files or os.path.dirname(folder) in packages
            if is_package:
                packages.add(folder)
            for one in sorted(files):
                if one.endswith(CODE):
                    code.append(os.path.join(folder, one))
                elif is_package and not one.endswith(BYTECODE):
                    others.append(os.path.join(folder, one))
            if len(code) + len(others) > 4 * MOST_EDITABLE:
                break
    return sorted(list(dict.fromkeys(code + others))[:MOST_EDITABLE])


def imported_from(site: str) -> Iterator[str]:
    """The folders outside of an environment that its packages are imported from."""
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
                named = (os.path.join(site, line) for line in lines if line and not line.startswith(("#", "import")))
                for one in named:
                    if os.path.isdir(one):
                        yield one
            elif entry.endswith(".dist-info"):
                with open(os.path.join(path, "direct_url.json"), encoding="utf-8") as stream:
                    said = json.load(stream)
                if said.get("dir_info", {}).get("editable") and said["url"].startswith("file://"):
                    yield unquote(said["url"][len("file://") :])
        except (OSError, ValueError, KeyError, AttributeError):
            continue


def within(path: str, folder: str) -> bool:
    """Whether a path is that folder, or in it; both are real paths."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def mapped_files() -> Set[str]:
    """The libraries that this process has loaded, where the system tells."""
    try:
        with open("/proc/self/maps") as stream:
            paths = [line.split(None, 5)[5].strip() for line in stream if "/" in line]
    except (OSError, IndexError):
        return set()
    return {path for path in paths if ".so" in os.path.basename(path) and os.path.isfile(path)}


def describe(own: Iterable[str], location: str, mapped: Set[str]) -> Dict[str, List[int]]:
    """Path (relative within ``location``) -> [size, mtime] of the package's files and the libraries it loaded."""
    described, whole = {}, os.path.realpath(location)
    for path in list(own) + sorted(mapped):
        inside = os.path.realpath(path).startswith(whole + os.sep)
        try:
            status = os.stat(path)
        except OSError:  # a link to nowhere, or removed meanwhile
            continue
        key = os.path.relpath(os.path.realpath(path), whole) if inside else path
        described[key] = [status.st_size, status.st_mtime_ns]
    return described


if __name__ == "__main__":
    main(sys.argv[1])
