"""What this process has loaded: shared libraries, with build ids, and what those for linear algebra and OpenMP say of
themselves; top-level Python packages with their versions, and how they say that they were built. Standard library and
Python 3.6 syntax only, as main.py."""

import ctypes
import os
import platform
import re
import struct
import sys

# Package -> where it says how it was built, or what of the processor it uses: text, a list, or a dictionary of such,
# or a function that returns one.
BUILT = {
    "numpy": ("__config__", "CONFIG"),
    "onnxruntime": ("get_build_info",),
    "scipy": ("__config__", "CONFIG"),
    "torch": ("__config__", "show"),
}
OTHERWISE = ("runtime", "feature_list")  # of any other package
SPEAKING = re.compile(r"blas|mkl|dnnl|blis|flame")  # libraries that may have one of these functions
CONFIGURATIONS = ("openblas_get_config", "bli_info_get_version_str")  # return text
AFFIXES = [(before, after) for before in ("", "scipy_") for after in ("", "64_")]
PT_NOTE, NT_GNU_BUILD_ID = 4, 3  # man 5 elf
MOST_NOTES = 1 << 16  # bytes


def build_id(path):
    """The build id in the notes of a 64-bit little-endian ELF file, in hexadecimal digits; empty without one."""
    try:
        with open(path, "rb") as stream:
            head = stream.read(64)
            if len(head) < 64 or head[:6] != b"\x7fELF\x02\x01":
                return ""
            (table,) = struct.unpack_from("<Q", head, 32)
            size, count = struct.unpack_from("<HH", head, 54)
            for number in range(count):
                stream.seek(table + number * size)
                entry = stream.read(size)
                if struct.unpack_from("<I", entry)[0] == PT_NOTE:
                    offset, length = struct.unpack_from("<Q", entry, 8)[0], struct.unpack_from("<Q", entry, 32)[0]
                    stream.seek(offset)
                    note_id = id_in_notes(stream.read(min(length, MOST_NOTES)))
                    if note_id:
                        return note_id
    except (OSError, struct.error):
        pass
    return ""


def id_in_notes(notes):
    place = 0
    while place + 12 <= len(notes):
        name_size, size, kind = struct.unpack_from("<III", notes, place)
        name = place + 12
        begin = name + (name_size + 3) // 4 * 4
        if kind == NT_GNU_BUILD_ID and notes[name : name + 4] == b"GNU\0":
            return "".join("{:02x}".format(byte) for byte in notes[begin : begin + size])
        place = begin + (size + 3) // 4 * 4
    return ""


def mapped(lines):
    """The shared libraries among the lines of /proc/self/maps: paths, each once."""
    paths = {}
    for line in lines:
        fields = line.rstrip("\n").split(None, 5)
        if len(fields) == 6 and re.search(r"\.so(\.[0-9.]+)?$", fields[5]):
            paths[fields[5]] = None
    return list(paths)


def configuration(path):
    """What a library says of its own version and options; empty where it doesn't."""
    if not SPEAKING.search(os.path.basename(path)):
        return ""
    try:
        library = ctypes.CDLL(path)  # is loaded already
        for name in (before + base + after for base in CONFIGURATIONS for before, after in AFFIXES):
            if hasattr(library, name):
                function = getattr(library, name)
                function.restype = ctypes.c_char_p
                return function().decode("utf-8", "replace").strip()
        if hasattr(library, "mkl_get_version_string"):
            text = ctypes.create_string_buffer(256)
            library.mkl_get_version_string(text, 255)
            return text.value.decode("utf-8", "replace").strip()
    except (OSError, AttributeError):
        pass
    return ""


def built(name, module):
    """How a package says that it was built, by topic; empty where it doesn't."""
    try:
        for part in BUILT.get(name, OTHERWISE):
            module = vars(module)[part]  # a module's own __getattr__ may import more
        return by_topic(module() if callable(module) else module)
    except Exception:  # whatever a package does, it costs no more than what it would have said
        return {}


def by_topic(details, topic=""):
    """Nested dictionaries as one of texts: {"SIMD Extensions found": "SSSE3 SSE41"}."""
    if not isinstance(details, dict):
        words = (
            ["_".join(str(item).split()) for item in details] if isinstance(details, (list, tuple)) else [str(details)]
        )
        return {topic: " ".join(words)}
    text_by_topic = {}
    for key, value in details.items():
        text_by_topic.update(by_topic(value, "{} {}".format(topic, key).strip()))
    return text_by_topic


def package_of(path):
    """The package that a library is of; empty for those of the system, and what a wheel brought along (numpy.libs)."""
    _, separator, within = path.rpartition("-packages/")
    folder = within.partition("/")[0]
    return folder.partition(".")[0] if separator and not folder.endswith(".libs") else ""


def libraries():
    """What is loaded, a dict each: {"name", "version", "built"} of a package, Python among them; {"name", "build_id",
    "size", "says", "package"} of a library."""
    loaded = [{"name": "Python", "version": platform.python_version()}]
    own = os.path.dirname(os.__file__)
    for name, module in sorted(sys.modules.items()):
        attributes = getattr(module, "__dict__", {})  # a module's own __getattr__ may import more
        version, path = attributes.get("__version__"), attributes.get("__file__")
        if "." in name or not isinstance(version, str) or not isinstance(path, str):
            continue
        if "-packages" in path or not path.startswith(own):  # the standard library's are Python's
            loaded.append({"name": name, "version": version, "built": built(name, module)})
    with open("/proc/self/maps", errors="replace") as lines:
        paths = mapped(lines)
    for path in paths:
        if os.path.exists(path):
            attributes = {"name": os.path.basename(path), "build_id": build_id(path), "size": os.path.getsize(path)}
            loaded.append(dict(attributes, says=configuration(path), package=package_of(path)))
    return loaded
